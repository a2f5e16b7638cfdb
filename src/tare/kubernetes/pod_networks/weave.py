"""Weave Net: packets go through Open vSwitch's VXLAN in the kernel, or through a process ("sleeve") if that is off."""

from __future__ import annotations

import re
from typing import Final

from tare.kubernetes.pod_networks import model
from tare.kubernetes.pod_networks.model import Details, Product, Seen
from tare.kubernetes.pod_networks.objects import interface, mtu_of


def details(seen: Seen) -> Details:
    """Return what the agent's variables and the nodes' devices say."""
    variables = {key: value for agent in seen.agents for key, value in agent.variables.items()}
    slow = bool(variables.get("WEAVE_NO_FASTDP"))
    encapsulation, evidence = _encapsulation(seen, slow=slow, known=bool(seen.agents))
    encryption = ""
    if "WEAVE_PASSWORD" in variables:
        encryption = "NaCl" if slow else model.IPSEC
        evidence = (*evidence, "the agent has WEAVE_PASSWORD")
    mtu = mtu_of(variables.get("WEAVE_MTU"))
    if mtu:
        evidence = (*evidence, f"the agent has WEAVE_MTU {mtu}")
    return Details(encapsulation=encapsulation, encryption=encryption, mtu=mtu, evidence=evidence)


def _encapsulation(seen: Seen, *, slow: bool, known: bool) -> tuple[str, tuple[str, ...]]:
    if slow:
        return model.USER_UDP, ("the agent has WEAVE_NO_FASTDP",)
    if found := interface(seen.node_interfaces, r"vxlan-\d+"):
        return model.VXLAN, (f"the node has the device {found.name}",)
    return (model.VXLAN, ("the agent does not turn off the fast data path",)) if known else ("", ())


PRODUCT: Final = Product(
    name="Weave Net",
    images=re.compile(r"(?:.*/)?weave-kube"),
    workloads=re.compile(r"weave-net(?:-\w{5})?"),
    details=details,
    condition="WeaveIsUp",
    interfaces=re.compile(r"weave|vethwe-\w+|datapath|vxlan-6784"),
)
