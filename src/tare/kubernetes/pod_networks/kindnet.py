"""kindnet, the network of kind: a veth for each pod, and a route to every other node."""

from __future__ import annotations

import re
from typing import Final

from tare.kubernetes.pod_networks import model
from tare.kubernetes.pod_networks.model import Details, Product, Seen


def details(_seen: Seen) -> Details:
    """Return what is the same in every kindnet."""
    return Details(encapsulation=model.NONE, evidence=("kindnet routes between nodes and has no tunnel",))


PRODUCT: Final = Product(
    name="kindnet",
    images=re.compile(r"(?:.*/)?kindnetd?"),
    workloads=re.compile(r"kindnet(?:-\w{5})?"),
    details=details,
)
