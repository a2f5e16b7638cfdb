"""Find the networks that a pod has besides the cluster's: Multus attaches those that an annotation names. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, ip_network
from typing import Any, Final

from tare.clusters.pods.objects import at, members, name_of
from tare.errors import InfrastructureError

ASKED: Final = "k8s.v1.cni.cncf.io/networks"
"""The annotation by which a pod asks for networks, of the Network Plumbing Working Group's standard."""
STATUS: Final = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")
"""The annotation that says which networks a pod got, and its older name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherNetwork:
    """A network that a pod has besides the cluster's: its name, the pod's interface and IPv4 address there."""

    name: str
    interface: str
    address: str


def attached(pod: Mapping[str, Any]) -> tuple[FurtherNetwork, ...]:
    """Return a pod's further networks with an IPv4 address, in the order in which they were attached."""
    annotations = pod.get("metadata", {}).get("annotations") or {}
    text = next((annotations[name] for name in STATUS if name in annotations), "[]")
    try:
        listed = json.loads(text)
    except ValueError:
        return ()
    others = [each for each in members(listed) if not at(each, "default")]
    addresses = [next(filter(_is_ipv4, map(str, members(at(each, "ips")))), "") for each in others]
    return tuple(
        FurtherNetwork(name=str(each.get("name")), interface=str(each.get("interface")), address=address)
        for each, address in zip(others, addresses, strict=True)
        if address
    )


def for_messages(pod: Mapping[str, Any], annotations: Mapping[str, str], subnet: str) -> FurtherNetwork | None:
    """Return the further network that a pod's messages take: the one in a subnet, else the first; None for no wish.

    Raises `InfrastructureError` if `annotations` ask for networks and the pod has none.
    """
    if ASKED not in annotations:
        return None
    found = attached(pod)
    if not found:
        name = name_of(pod)
        raise InfrastructureError(
            f"pod {name} did not get the network {annotations[ASKED]}, or no IPv4 address in it",
            remedy="see whether the cluster has Multus, and the network: kubectl get network-attachment-definitions -A",
        )
    wanted = ip_network(subnet, strict=False)
    return next((each for each in found if IPv4Address(each.address) in wanted), found[0])


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True
