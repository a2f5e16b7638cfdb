"""Calico, and Canal, which is Calico's policies over Flannel's packets.

Its IP pools say how packets travel; the nodes' annotations say it where the pools may not be read. In mode CrossSubnet
only packets to another subnet are encapsulated; the nodes say which subnets they are in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tare.kubernetes.pod_networks import flannel, model
from tare.kubernetes.pod_networks.model import Details, Product, Seen
from tare.kubernetes.pod_networks.objects import (
    annotations_of,
    at,
    config_of,
    each,
    holds,
    interface,
    is_true,
    mtu_of,
    name_of,
    subnets,
    text,
)

OWN: Final = "projectcalico.org/"
CONFIG: Final = "calico-config"
CANAL_CONFIG: Final = "canal-config"
CROSS_SUBNET: Final = "crosssubnet"
MODES: Final = (("ipipMode", model.IP_IN_IP), ("vxlanMode", model.VXLAN))
TUNNELS: Final = ((f"{OWN}IPv4VXLANTunnelAddr", model.VXLAN), (f"{OWN}IPv4IPIPTunnelAddr", model.IP_IN_IP))
DEVICES: Final = ((r"vxlan\.calico", model.VXLAN), (r"tunl0", model.IP_IN_IP))


def details(seen: Seen) -> Details:
    """Return what Calico's pools, nodes and settings say."""
    encapsulation, only, evidence = _from_pools(seen) or _from_nodes(seen) or ("", False, ())
    encryption = ""
    if any(f"{OWN}WireguardPublicKey" in annotations_of(node) for node in seen.nodes):
        encryption, evidence = model.WIREGUARD, (*evidence, "the nodes have public keys of WireGuard")
    mtu, said = _mtu(seen)
    return Details(
        encapsulation=encapsulation,
        between_subnets_only=only,
        encryption=encryption,
        mtu=mtu,
        evidence=(*evidence, *said),
    )


def canal(seen: Seen) -> Details:
    """Return what Canal's settings say: the packets are Flannel's."""
    told = flannel.details(seen)
    mtu, said = _mtu(seen)
    if not told.mtu and mtu:
        return Details(encapsulation=told.encapsulation, between_subnets_only=told.between_subnets_only,
                       encryption=told.encryption, mtu=mtu, evidence=(*told.evidence, *said))  # fmt: skip
    return told


def routes_itself(seen: Seen) -> bool:
    """Return whether Calico makes the routes between nodes: it then notes its addresses there. In Canal it does not."""
    return any(key.startswith(f"{OWN}IPv4") for node in seen.nodes for key in annotations_of(node))


def _from_pools(seen: Seen) -> tuple[str, bool, tuple[str, ...]] | None:
    """Return encapsulation, whether between subnets only, and evidence from the pools that pods get addresses from."""
    pools = [pool for pool in seen.ip_pools if isinstance(at(pool, "spec"), dict) and not _is_off(pool)]
    addresses = [address for pod in seen.pods for address in _addresses(pod)]
    own = [pool for pool in pools if any(holds(at(pool, "spec", "cidr"), address) for address in addresses)]
    told = {
        _mode(pool) for pool in own or [pool for pool in pools if ":" not in text(at(pool, "spec", "cidr"))] or pools
    }
    said = tuple(f"IP pool {name_of(pool)}: {_stated(pool)}" for pool in own or pools)
    if len(told) != 1:
        return ("", False, (*said, "the pools differ, and no pod says which is its own")) if told else None
    encapsulation, only = told.pop()
    if not only:
        return encapsulation, False, said
    where = subnets(seen.nodes)
    if where is not None and len(where) == 1:
        return model.NONE, False, (*said, f"all nodes are in the subnet {next(iter(where))}")
    return encapsulation, True, said


def _mode(pool: Any) -> tuple[str, bool]:
    for key, encapsulation in MODES:
        mode = text(at(pool, "spec", key)).lower()
        if mode in ("always", CROSS_SUBNET):
            return encapsulation, mode == CROSS_SUBNET
    return model.NONE, False


def _stated(pool: Any) -> str:
    return ", ".join(f"{key} {text(at(pool, 'spec', key)) or 'Never'}" for key, _ in MODES)


def _is_off(pool: Any) -> bool:
    return is_true(text(at(pool, "spec", "disabled")))


def _addresses(pod: Any) -> Iterator[Any]:
    if at(pod, "spec", "hostNetwork") is True:
        return
    yield at(pod, "status", "podIP")
    for one in each(at(pod, "status", "podIPs")):
        yield at(one, "ip")


def _from_nodes(seen: Seen) -> tuple[str, bool, tuple[str, ...]] | None:
    """Return the same from annotations of nodes, and from the nodes' interfaces."""
    for key, encapsulation in TUNNELS:
        with_tunnel = [node for node in seen.nodes if annotations_of(node).get(key)]
        if with_tunnel:
            said = f"node {name_of(with_tunnel[0])} has an address of its {encapsulation} tunnel"
            return encapsulation, False, (said, "whether always or between subnets only, its IP pools would say")
    for pattern, encapsulation in DEVICES:
        if interface(seen.node_interfaces, pattern):
            return encapsulation, False, (f"the node has a device of {encapsulation}",)
    if routes_itself(seen):
        return model.NONE, False, ("the nodes have addresses for routes, and none of a tunnel",)
    return None


def _mtu(seen: Seen) -> tuple[int, tuple[str, ...]]:
    for name in (CONFIG, CANAL_CONFIG):
        if mtu := mtu_of(config_of(seen, name).get("veth_mtu")):
            return mtu, (f"config map {name}: veth_mtu {mtu}",)
    return 0, ()


CALICO: Final = Product(
    name="Calico",
    images=re.compile(r"(?:.*/)?(?:mirrored-)?calico[-/]node"),
    workloads=re.compile(r"calico-node(?:-\w{5})?"),
    details=details,
    node_annotations=(f"{OWN}IPv4", f"{OWN}IPv6"),
    pod_annotations=("cni.projectcalico.org/",),
    condition="CalicoIsUp",
    interfaces=re.compile(r"cali[0-9a-f]{11}|vxlan\.calico|wireguard\.cali|tunl0"),
    config_maps=(CONFIG,),
    namespaces=("kube-system", "calico-system"),
)
NEVER: Final = re.compile(r"(?!)")
CANAL: Final = Product(name="Canal", images=NEVER, workloads=NEVER, details=canal, config_maps=(CANAL_CONFIG,))
