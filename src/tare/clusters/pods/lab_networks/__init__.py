"""The pod networks of a lab's Kubernetes, by the runtime class that chooses each; all can be up on the same nodes.

containerd has a folder of CNI configurations for every runtime class, so environments of one study alternate between
networks on the same nodes. Each network has addresses, a bridge and a folder of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tare.clusters.pods.lab_networks.cilium import NATIVE, TUNNEL
from tare.clusters.pods.lab_networks.flannel import PLAIN, VXLAN
from tare.clusters.pods.lab_networks.model import LabNetwork
from tare.clusters.pods.lab_networks.routed import ROUTED
from tare.errors import RefusedError
from tare.model import Environment
from tare.networks import find

LAB_NETWORKS: Final[Mapping[str, LabNetwork]] = {
    each.runtime_class: each for each in (VXLAN, PLAIN, ROUTED, TUNNEL, NATIVE)
}
"""The network of each runtime class; "" is the usual one, which is always there."""


def chosen(runtime_classes: Collection[str]) -> tuple[LabNetwork, ...]:
    """Return the usual network, and those of runtime classes; raise `RefusedError` if two exclude each other."""
    for reason in excluded(runtime_classes).values():
        raise RefusedError(reason)
    return tuple(each for name, each in LAB_NETWORKS.items() if not name or name in runtime_classes)


def excluded(runtime_classes: Collection[str]) -> dict[str, str]:
    """Return the runtime classes that an earlier one of the same product excludes from a lab, each with the reason."""
    earlier: dict[str, str] = {}
    found: dict[str, str] = {}
    for name in dict.fromkeys(runtime_classes):
        product = LAB_NETWORKS[name].alone if name in LAB_NETWORKS else ""
        if product and (first := earlier.setdefault(product, name)) != name:
            found[name] = f"a lab has one of {first} and {name}: compare each with the others in its own study"
    return found


def lacks(environment: Environment) -> str | None:
    """Return what the network of an environment needs and this machine lacks, or None."""
    network = LAB_NETWORKS.get(environment.runtime_class)
    return network.lacks() if network is not None else None


def refuse(environment: Environment) -> str | None:
    """Return why an environment in a lab cannot have its runtime class, or None."""
    name = environment.runtime_class
    if name not in LAB_NETWORKS:
        there = ", ".join(each for each in LAB_NETWORKS if each)
        return f"a Kubernetes in a lab has no runtime class {name}: it has {there}"
    if name and not find(environment.network).by_cluster:
        return f"in a lab the runtime class {name} is a pod network, which {environment.network} replaces: leave it out"
    return None
