"""Read what the own settings of each product say of a cluster's pod network, with a sentence for each value. Pure.

Calico's IP pools say how packets travel; its nodes' annotations say it where the pools may not be read. In mode
CrossSubnet only packets to another subnet are encapsulated; the nodes say which subnets they are in. Canal is Calico's
policies over Flannel's packets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tare.clusters.pods.pod_networks import model
from tare.clusters.pods.pod_networks.model import ClusterObjects, RecognisedNetwork
from tare.clusters.pods.pod_networks.objects import (
    annotations_of,
    at,
    config_of,
    is_true,
    mtu_of,
    name_of,
    setting,
    subnets,
    text,
)

OF_CALICO: Final = "projectcalico.org/"
OF_FLANNEL: Final = "flannel.alpha.coreos.com/"
CALICO_CONFIG: Final = "calico-config"
CANAL_CONFIG: Final = "canal-config"
FLANNEL_CONFIG: Final = "kube-flannel-cfg"
FLANNEL_SETTINGS: Final = "net-conf.json"
CILIUM_CONFIG: Final = "cilium-config"
ANTREA_SETTINGS: Final = "antrea-agent.conf"
OVN_CONFIGS: Final = ("ovn-config", "ovnkube-config")

CALICO_MODES: Final = (("ipipMode", model.IP_IN_IP), ("vxlanMode", model.VXLAN))
CALICO_TUNNELS: Final = (("IPv4VXLANTunnelAddr", model.VXLAN), ("IPv4IPIPTunnelAddr", model.IP_IN_IP))
CROSS_SUBNET: Final = "crosssubnet"
FLANNEL_BACKENDS: Final[Mapping[str, tuple[str, str]]] = {
    "vxlan": (model.VXLAN, ""),
    "host-gw": (model.NONE, ""),
    "udp": (model.USER_UDP, ""),
    "wireguard": (model.WIREGUARD, model.WIREGUARD),
    "ipip": (model.IP_IN_IP, ""),
    "ipsec": (model.IPSEC, model.IPSEC),
    "alloc": (model.NONE, ""),
}
"""Encapsulation and encryption of each backend."""
CILIUM_NATIVE: Final = frozenset({"native", "disabled"})
CILIUM_ENCRYPTION: Final = (("enable-wireguard", model.WIREGUARD), ("enable-ipsec", model.IPSEC))
ANTREA_MODES: Final = {"": True, "encap": True, "hybrid": True, "noencap": False}
"""Whether packets are tunnelled; a line that is commented out is a default."""
ANTREA_ENCRYPTION: Final = {"wireguard": model.WIREGUARD, "ipsec": model.IPSEC}
TUNNELS: Final = {"geneve": model.GENEVE, "vxlan": model.VXLAN, "gre": model.GRE, "stt": model.STT}
KUBE_OVN_NETWORKS: Final = {
    "geneve": model.GENEVE,
    "hybrid": model.GENEVE,
    "stt": model.STT,
    "vxlan": model.VXLAN,
    "vlan": model.NONE,
}


def _plus(told: RecognisedNetwork, said: str, **values: Any) -> RecognisedNetwork:
    """Return what is known with further values, and the sentence that says what they were told from."""
    return replace(told, evidence=(*told.evidence, said), **values)


def _with_mtu(told: RecognisedNetwork, beginning: str, stated: Any) -> RecognisedNetwork:
    """Return what is known with the MTU of a setting, if it states one, which ends the sentence."""
    mtu = mtu_of(stated)
    return _plus(told, f"{beginning}{mtu}", mtu=mtu) if mtu else told


def calico(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what Calico's pools, nodes and settings say."""
    told = _from_pools(seen) or _from_nodes(seen) or RecognisedNetwork()
    if any(f"{OF_CALICO}WireguardPublicKey" in annotations_of(node) for node in seen.nodes):
        told = _plus(told, "the nodes have public keys of WireGuard", encryption=model.WIREGUARD)
    return _with_veth_mtu(told, seen)


def canal(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what Canal's settings say: the packets are Flannel's."""
    return _with_veth_mtu(flannel(seen), seen)


def routes_itself(seen: ClusterObjects) -> bool:
    """Return whether Calico makes the routes between nodes: it then notes its addresses there. In Canal it does not."""
    return any(key.startswith(f"{OF_CALICO}IPv4") for node in seen.nodes for key in annotations_of(node))


def _with_veth_mtu(told: RecognisedNetwork, seen: ClusterObjects) -> RecognisedNetwork:
    stated = ((name, config_of(seen, name).get("veth_mtu")) for name in (CALICO_CONFIG, CANAL_CONFIG))
    name, mtu = next((pair for pair in stated if mtu_of(pair[1])), ("", None))
    return _with_mtu(told, f"config map {name}: veth_mtu ", mtu)


def _from_pools(seen: ClusterObjects) -> RecognisedNetwork | None:
    """Return what the pools that pods get addresses from say; None if there are none."""
    stated = [pool for pool in seen.ip_pools if isinstance(at(pool, "spec"), dict)]
    pools = [pool for pool in stated if not is_true(text(at(pool, "spec", "disabled")))]
    if not pools:
        return None
    modes = {_mode(pool) for pool in pools if ":" not in text(at(pool, "spec", "cidr"))} or set(map(_mode, pools))
    said = tuple(f"IP pool {name_of(pool)}: {_stated(pool)}" for pool in pools)
    if len(modes) != 1:
        return RecognisedNetwork(evidence=(*said, "the pools differ, and no pod says which is its own"))
    ((encapsulation, only),) = modes
    where = subnets(seen.nodes) if only else None
    if where is not None and len(where) == 1:
        return RecognisedNetwork(
            encapsulation=model.NONE, evidence=(*said, f"all nodes are in the subnet {min(where)}")
        )
    return RecognisedNetwork(encapsulation=encapsulation, between_subnets_only=only, evidence=said)


def _mode(pool: Any) -> tuple[str, bool]:
    for key, encapsulation in CALICO_MODES:
        mode = text(at(pool, "spec", key)).lower()
        if mode in ("always", CROSS_SUBNET):
            return encapsulation, mode == CROSS_SUBNET
    return model.NONE, False


def _stated(pool: Any) -> str:
    return ", ".join(f"{key} {text(at(pool, 'spec', key)) or 'Never'}" for key, _ in CALICO_MODES)


def _from_nodes(seen: ClusterObjects) -> RecognisedNetwork | None:
    """Return the same from annotations of nodes."""
    for key, encapsulation in CALICO_TUNNELS:
        with_tunnel = [node for node in seen.nodes if annotations_of(node).get(f"{OF_CALICO}{key}")]
        if with_tunnel:
            said = f"node {name_of(with_tunnel[0])} has an address of its {encapsulation} tunnel"
            unknown = "whether always or between subnets only, its IP pools would say"
            return RecognisedNetwork(encapsulation=encapsulation, evidence=(said, unknown))
    if routes_itself(seen):
        said = "the nodes have addresses for routes, and none of a tunnel"
        return RecognisedNetwork(encapsulation=model.NONE, evidence=(said,))
    return None


def flannel(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what Flannel's settings and nodes say: each node the backend, the config map more."""
    settings, source = _flannel_settings(seen)
    backend, said = _flannel_backend(seen, settings, source)
    encapsulation, encryption = FLANNEL_BACKENDS.get(backend, ("", ""))
    told = RecognisedNetwork(encapsulation=encapsulation, encryption=encryption, evidence=(said,) if said else ())
    if is_true(text(at(settings, "Backend", "DirectRouting"))) and encapsulation in (model.VXLAN, model.IP_IN_IP):
        told = _plus(told, f"{source}: DirectRouting", between_subnets_only=True)
    if mtu := mtu_of(at(settings, "Backend", "MTU")):
        told = _plus(told, f"{source}: MTU {mtu} below, of which pods get what the encapsulation leaves")
    return told


def _flannel_settings(seen: ClusterObjects) -> tuple[Any, str]:
    """Return Flannel's own settings and the name of the config map with them."""
    for name in (FLANNEL_CONFIG, CANAL_CONFIG, r".*flannel.*"):
        said = config_of(seen, name).get(FLANNEL_SETTINGS)
        if said is None:
            continue
        try:
            return json.loads(said), f"{FLANNEL_SETTINGS} of {'a config map' if '*' in name else name}"
        except (ValueError, RecursionError):
            continue
    return None, ""


def _flannel_backend(seen: ClusterObjects, settings: Any, source: str) -> tuple[str, str]:
    """Return the backend's name, and how it was told: by nodes, which use it, before settings, which may be newer."""
    by_node = (annotations_of(node).get(f"{OF_FLANNEL}backend-type", "") for node in seen.nodes)
    stated = sorted({backend.lower() for backend in by_node if backend})
    if len(stated) == 1:
        return stated[0], f"the nodes state the backend {stated[0]}"
    if stated:
        return "", f"the nodes state different backends: {', '.join(stated)}"
    backend = text(at(settings, "Backend", "Type")).lower()
    return backend, f"{source} states the backend {backend}" if backend else ""


def cilium(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what Cilium's settings say."""
    settings = {key: text(value) for key, value in config_of(seen, CILIUM_CONFIG).items()}
    told = _cilium_tunnel(settings)
    for key, name in CILIUM_ENCRYPTION:
        if is_true(settings.get(key, "")):
            told = _plus(told, f"config map {CILIUM_CONFIG}: {key}", encryption=name)
    return _with_mtu(told, f"config map {CILIUM_CONFIG}: mtu ", settings.get("mtu"))


def _cilium_tunnel(settings: Mapping[str, str]) -> RecognisedNetwork:
    """Return whether packets are tunnelled, and how. Before version 1.14, one key had mode and protocol."""
    mode, protocol, older = (settings.get(key, "").lower() for key in ("routing-mode", "tunnel-protocol", "tunnel"))
    begins = f"config map {CILIUM_CONFIG}"
    if mode in CILIUM_NATIVE or older in CILIUM_NATIVE:
        said = f"{begins}: routing-mode {mode}" if mode else f"{begins}: tunnel {older}"
        return RecognisedNetwork(encapsulation=model.NONE, evidence=(said,))
    if stated := protocol or older:
        encapsulation = TUNNELS[stated] if stated in ("vxlan", "geneve") else ""
        said = f"{begins}: {'tunnel-protocol' if protocol else 'tunnel'} {stated}"
        return RecognisedNetwork(encapsulation=encapsulation, evidence=(said,))
    if settings and mode in ("", "tunnel"):
        said = f"{begins} states no protocol, which means VXLAN"
        return RecognisedNetwork(encapsulation=model.VXLAN, evidence=(said,))
    return RecognisedNetwork()


def weave(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what the agent's variables say: packets go through the kernel's VXLAN, or through a process ("sleeve")."""
    variables = {key: value for agent in seen.agents for key, value in agent.variables.items()}
    slow = bool(variables.get("WEAVE_NO_FASTDP"))
    told = RecognisedNetwork()
    if slow:
        told = _plus(told, "the agent has WEAVE_NO_FASTDP", encapsulation=model.USER_UDP)
    elif seen.agents:
        told = _plus(told, "the agent does not turn off the fast data path", encapsulation=model.VXLAN)
    if "WEAVE_PASSWORD" in variables:
        told = _plus(told, "the agent has WEAVE_PASSWORD", encryption="NaCl" if slow else model.IPSEC)
    return _with_mtu(told, "the agent has WEAVE_MTU ", variables.get("WEAVE_MTU"))


def kindnet(_seen: ClusterObjects) -> RecognisedNetwork:
    """Return what is the same in every kindnet, the network of kind."""
    return RecognisedNetwork(encapsulation=model.NONE, evidence=("kindnet routes between nodes and has no tunnel",))


def antrea(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what the settings of Antrea's agent say."""
    config = config_of(seen, r"antrea-config(-\w+)?").get(ANTREA_SETTINGS)
    if config is None:
        return RecognisedNetwork()
    mode, tunnel = setting(config, "trafficEncapMode").lower(), setting(config, "tunnelType").lower()
    secured = setting(config, "trafficEncryptionMode")
    encryption = ANTREA_ENCRYPTION.get(secured.lower(), "")
    encapsulation = (
        (TUNNELS.get(tunnel or "geneve", "") if ANTREA_MODES[mode] else model.NONE) if mode in ANTREA_MODES else ""
    )
    if encryption == model.WIREGUARD and encapsulation not in ("", model.NONE):
        encapsulation = model.WIREGUARD
    said = f"{ANTREA_SETTINGS}: trafficEncapMode {mode or 'by default encap'}"
    told = RecognisedNetwork(encapsulation=encapsulation, between_subnets_only=mode == "hybrid", evidence=(said,))
    if encapsulation not in ("", model.NONE, model.WIREGUARD):
        told = _plus(told, f"{ANTREA_SETTINGS}: tunnelType {tunnel or 'by default geneve'}")
    if encryption:
        told = _plus(told, f"{ANTREA_SETTINGS}: trafficEncryptionMode {encryption}", encryption=encryption)
    return _with_mtu(told, f"{ANTREA_SETTINGS}: defaultMTU ", setting(config, "defaultMTU"))


def ovn_kubernetes(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what OVN-Kubernetes' settings say."""
    told = RecognisedNetwork(encapsulation=model.GENEVE, evidence=("OVN-Kubernetes' overlay is Geneve",))
    for name in OVN_CONFIGS:
        data = config_of(seen, name)
        stated = data.get("mtu") or next((found for text in data.values() if (found := setting(text, "mtu"))), "")
        if mtu_of(stated):
            return _with_mtu(told, f"config map {name}: mtu ", stated)
    return told


def kube_ovn(seen: ClusterObjects) -> RecognisedNetwork:
    """Return what the arguments of Kube-OVN's agent say."""
    words = (word.partition("=") for agent in seen.agents for word in agent.arguments)
    stated = {key: value for key, equals, value in words if equals and key.startswith("--")}
    network, told = stated.get("--network-type", ""), RecognisedNetwork()
    if network:
        encapsulation = KUBE_OVN_NETWORKS.get(network.lower(), "")
        told = _plus(told, f"the agent has --network-type={network}", encapsulation=encapsulation)
    return _with_mtu(told, "the agent has --mtu=", stated.get("--mtu"))
