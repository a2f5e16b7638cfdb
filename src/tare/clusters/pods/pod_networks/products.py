"""The products that can be a cluster's pod network: what each leaves in a cluster, and what its settings mean. Pure.

Calico's IP pools say how packets travel; its nodes' annotations say it where the pools may not be read. Canal is
Calico's policies over Flannel's packets. Flannel's backend is told by nodes, which use it, before its config map, which
may be newer. Before Cilium 1.14, one key had mode and protocol.
"""

from __future__ import annotations

from typing import Final

from tare.clusters.pods.pod_networks.model import ANY, NONE, Product, Setting
from tare.clusters.pods.pod_networks.settings import AGENT, ALWAYS, CONFIG_MAP, DIFFER, FILE, IP_POOLS, NODES, TRUE

OF_CALICO: Final = "projectcalico.org/"
OF_FLANNEL: Final = "flannel.alpha.coreos.com/"
POOLS_WOULD_SAY: Final = "whether always or between subnets only, its IP pools would say"
BACKENDS: Final = {
    "vxlan": "VXLAN", "host-gw": NONE, "udp": "UDP in user space", "wireguard": "WireGuard", "ipip": "IP-in-IP",
    "ipsec": "IPsec", "alloc": NONE, ANY: "",
}  # fmt: skip
"""The backends of Flannel."""
TUNNELS: Final = {"geneve": "Geneve", "vxlan": "VXLAN", "gre": "GRE", "stt": "STT", ANY: ""}
FLANNEL_SETTINGS: Final = (
    Setting("encapsulation", NODES, f"{OF_FLANNEL}backend-type", BACKENDS, "the nodes state the backend {value}"),
    Setting("encapsulation", FILE, "net-conf.json/Backend.Type", BACKENDS,
            "{file} of {source} states the backend {value}"),
    Setting("between_subnets_only", FILE, "net-conf.json/Backend.DirectRouting", dict.fromkeys(TRUE, True),
            "{file} of {source}: DirectRouting", within=("VXLAN", "IP-in-IP")),
    Setting("note", FILE, "net-conf.json/Backend.MTU", {ANY: ""},
            "{file} of {source}: MTU {value} below, of which pods get what the encapsulation leaves"),
)  # fmt: skip
CALICO: Final = Product(
    name="Calico",
    images=r"(?:mirrored-)?calico[-/]node",
    workloads="calico-node",
    annotations=(f"{OF_CALICO}IPv4", f"{OF_CALICO}IPv6"),
    condition="CalicoIsUp",
    config_maps=("calico-config",),
    namespaces=("kube-system", "calico-system"),
    settings=(
        Setting("encapsulation", IP_POOLS, "", {
            "ipipmode always": "IP-in-IP", "ipipmode crosssubnet": "IP-in-IP", "vxlanmode always": "VXLAN",
            "vxlanmode crosssubnet": "VXLAN", "never": NONE, DIFFER: "",
        }),
        Setting("between_subnets_only", IP_POOLS, "", {"ipipmode crosssubnet": True, "vxlanmode crosssubnet": True}),
        Setting("encapsulation", NODES, f"{OF_CALICO}IPv4VXLANTunnelAddr", {ANY: "VXLAN"},
                f"node {{source}} has an address of its VXLAN tunnel\n{POOLS_WOULD_SAY}"),
        Setting("encapsulation", NODES, f"{OF_CALICO}IPv4IPIPTunnelAddr", {ANY: "IP-in-IP"},
                f"node {{source}} has an address of its IP-in-IP tunnel\n{POOLS_WOULD_SAY}"),
        Setting("encapsulation", NODES, f"{OF_CALICO}IPv4Address", {ANY: NONE},
                "the nodes have addresses for routes, and none of a tunnel"),
        Setting("encryption", NODES, f"{OF_CALICO}WireguardPublicKey", {ANY: "WireGuard"},
                "the nodes have public keys of WireGuard"),
        Setting("mtu", CONFIG_MAP, "veth_mtu"),
    ),
)  # fmt: skip
FLANNEL: Final = Product(
    name="Flannel",
    images=r"(?:mirrored-)?(?:flannel|flannelcni|coreos)?-?flannel",
    workloads=r"kube-flannel(?:-ds)?(?:-\w+)*",
    annotations=(OF_FLANNEL,),
    condition="FlannelIsUp",
    config_maps=("kube-flannel-cfg",),
    namespaces=("kube-flannel", "kube-system"),
    settings=FLANNEL_SETTINGS,
)
CANAL: Final = Product(
    name="Canal",
    config_maps=("canal-config",),
    settings=(*FLANNEL_SETTINGS, Setting("mtu", CONFIG_MAP, "veth_mtu")),
)
PRODUCTS: Final = (
    CALICO,
    FLANNEL,
    CANAL,
    Product(
        name="Cilium",
        images=r"cilium(?:-ci)?",
        workloads="cilium",
        annotations=("network.cilium.io/", "io.cilium.network."),
        condition="CiliumIsUp",
        config_maps=("cilium-config",),
        namespaces=("kube-system", "cilium"),
        settings=(
            Setting("encapsulation", CONFIG_MAP, "routing-mode", {"native": NONE, "disabled": NONE}),
            Setting("encapsulation", CONFIG_MAP, "tunnel", {"native": NONE, "disabled": NONE}),
            Setting("encapsulation", CONFIG_MAP, "tunnel-protocol", {"vxlan": "VXLAN", "geneve": "Geneve", ANY: ""}),
            Setting("encapsulation", CONFIG_MAP, "tunnel", {"vxlan": "VXLAN", "geneve": "Geneve", ANY: ""}),
            Setting("encapsulation", CONFIG_MAP, "routing-mode", {"": "VXLAN", "tunnel": "VXLAN"},
                    "config map {source} states no protocol, which means VXLAN"),
            Setting("encryption", CONFIG_MAP, "enable-ipsec", dict.fromkeys(TRUE, "IPsec"),
                    "config map {source}: {key}"),
            Setting("encryption", CONFIG_MAP, "enable-wireguard", dict.fromkeys(TRUE, "WireGuard"),
                    "config map {source}: {key}"),
            Setting("mtu", CONFIG_MAP, "mtu"),
        ),
    ),
    Product(
        name="Weave Net",
        images="weave-kube",
        workloads="weave-net",
        condition="WeaveIsUp",
        settings=(
            Setting("encapsulation", AGENT, "WEAVE_NO_FASTDP", {ANY: "UDP in user space"}, "the agent has {key}"),
            Setting("encapsulation", AGENT, "WEAVE_NO_FASTDP", {"": "VXLAN"},
                    "the agent does not turn off the fast data path"),
            Setting("encryption", AGENT, "WEAVE_PASSWORD", {ANY: "IPsec"}, "the agent has {key}", within=("VXLAN",)),
            Setting("encryption", AGENT, "WEAVE_PASSWORD", {ANY: "NaCl"}, "the agent has {key}"),
            Setting("mtu", AGENT, "WEAVE_MTU"),
        ),
    ),
    Product(
        name="kindnet",
        images=r"kindnetd?",
        workloads="kindnet",
        settings=(Setting("encapsulation", ALWAYS, "kindnet routes between nodes and has no tunnel", {"": NONE}),),
    ),
    Product(
        name="Antrea",
        images=r"antrea(?:-agent)?(?:-ubuntu|-ubi)?",
        workloads="antrea-agent",
        annotations=("node.antrea.io/",),
        config_maps=("antrea-config",),
        settings=(
            Setting("between_subnets_only", FILE, "antrea-agent.conf/trafficEncapMode",
                    {"hybrid": True, "": False, ANY: False}, unset="by default encap"),
            Setting("encapsulation", FILE, "antrea-agent.conf/trafficEncapMode",
                    {"noencap": NONE, "networkpolicyonly": ""}),
            Setting("encapsulation", FILE, "antrea-agent.conf/trafficEncryptionMode", {"wireguard": "WireGuard"}),
            Setting("encapsulation", FILE, "antrea-agent.conf/tunnelType", {"": "Geneve", **TUNNELS},
                    unset="by default geneve"),
            Setting("encryption", FILE, "antrea-agent.conf/trafficEncryptionMode",
                    {"wireguard": "WireGuard", "ipsec": "IPsec"}),
            Setting("mtu", FILE, "antrea-agent.conf/defaultMTU"),
        ),
    ),
    Product(
        name="OVN-Kubernetes",
        images=r"(?:ovn-kube(?:rnetes)?|ovn-daemonset)(?:-[a-z]+)?",
        workloads=r"ovnkube(?:-node)?",
        annotations=("k8s.ovn.org/",),
        config_maps=("ovn-config", "ovnkube-config"),
        namespaces=("ovn-kubernetes", "openshift-ovn-kubernetes"),
        settings=(
            Setting("encapsulation", ALWAYS, "OVN-Kubernetes' overlay is Geneve", {"": "Geneve"}),
            Setting("mtu", CONFIG_MAP, "mtu"),
            Setting("mtu", FILE, "ovnkube.conf/mtu", said=CONFIG_MAP.said),
        ),
    ),
    Product(
        name="Kube-OVN",
        images="kube-ovn",
        workloads="kube-ovn-cni",
        annotations=("ovn.kubernetes.io/",),
        namespaces=("kube-system", "kube-ovn"),
        settings=(
            Setting("encapsulation", AGENT, "--network-type", {**TUNNELS, "hybrid": "Geneve", "vlan": NONE},
                    "the agent has {key}={value}"),
            Setting("mtu", AGENT, "--mtu", said="the agent has {key}={value}"),
        ),
    ),
)  # fmt: skip
