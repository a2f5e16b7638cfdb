"""Networks: each wires a pod and undoes the wiring. One file per member, one entry in `NETWORKS`.

A member inherits `Network` (`tare.networks.wiring.network`), or `StackedNetwork` (`tare.networks.wiring.stacked`) if it
has a network stack of its own on each node. A variant of a member may be just another entry.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Final

from tare.networks.bridge import Bridge
from tare.networks.calico import Calico, Wrapping
from tare.networks.canal import Canal
from tare.networks.cni import Cni
from tare.networks.direct import Direct
from tare.networks.docker_default import DockerDefault
from tare.networks.fake import FakeNetwork
from tare.networks.flannel import Flannel
from tare.networks.host import HostNetwork
from tare.networks.ipvlan import Ipvlan
from tare.networks.macvlan import Macvlan
from tare.networks.overlay import Overlay
from tare.networks.overlay_etcd import OverlayEtcd
from tare.networks.ovs import Ovs
from tare.networks.pasta import Pasta
from tare.networks.pod_network import PodNetwork
from tare.networks.slirp4netns import Slirp4netns
from tare.networks.weave import Weave
from tare.networks.wiring.conflist import PREFIX
from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import Wiring

__all__ = ["HOST", "NETWORKS", "Network", "Wiring", "find"]

HOST: Final = HostNetwork.name
"""The network of the node itself."""

NETWORKS: Final[Mapping[str, Network]] = {
    "host": HostNetwork(),
    "bridge": Bridge(),
    "direct": Direct(),
    "macvlan": Macvlan(),
    "ipvlan-l2": Ipvlan("l2"),
    "ipvlan-l3": Ipvlan("l3"),
    "ovs": Ovs(),
    "weave": Weave(),
    "docker-default": DockerDefault(),
    "overlay": Overlay(),
    "overlay-etcd": OverlayEtcd(),
    "flannel": Flannel("flannel", "vxlan"),
    "flannel-host-gw": Flannel("flannel-host-gw", "host-gw"),
    "flannel-udp": Flannel("flannel-udp", "udp"),
    "canal": Canal(),
    "calico": Calico("calico"),
    "calico-ipip": Calico("calico-ipip", Wrapping.ALWAYS),
    "calico-ipip-cross": Calico("calico-ipip-cross", Wrapping.CROSS_SUBNET),
    "pasta": Pasta(),
    "slirp4netns": Slirp4netns(),
    "pod-network": PodNetwork(),
    "fake": FakeNetwork("fake", "198.18.0.0/16"),
    "fake-slow": FakeNetwork("fake-slow", "198.19.0.0/16"),
}


def find(name: str) -> Network:
    """Return the network that an environment names, as an object of one environment and one node.

    A name is a member of `NETWORKS`, or `cni:PATH` for a user's CNI configuration.
    """
    if name.startswith(PREFIX):
        return Cni(name.removeprefix(PREFIX))
    return copy.copy(NETWORKS[name])
