"""Networks: each wires a pod and takes the wiring down again. One file a member, one entry in `NETWORKS`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, runtime_checkable

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
from tare.networks.slirp4netns import Slirp4netns
from tare.networks.weave import Weave
from tare.node import Endpoint, Nic, Node, Pod, Wired
from tare.wiring.conflist import PREFIX
from tare.wiring.plug import Wiring

__all__ = ["CROSSING", "NETWORKS", "Joining", "Network", "Wiring", "find"]


class Network(Protocol):
    """What every network offers. `probe` is read-only; `attach` undoes everything when it is left.

    `product` says, in one sentence, what of it is the product itself and what is its data path rebuilt: reports show
    it, so that no imitation passes under a product's name. `wiring` says whose network namespace the pod has,
    `owns_nic` whether the network needs a NIC of its own, `reaches_outside` whether a pod can talk to a bare node,
    `pods_share_nic` whether a node's NIC serves several pods, each with an address of its own.

    One object from `find` serves one environment from `prepare` to its end, so it may keep what `prepare` was told.
    """

    @property
    def name(self) -> str: ...
    @property
    def product(self) -> str: ...
    @property
    def wiring(self) -> Wiring: ...
    @property
    def owns_nic(self) -> bool: ...
    @property
    def reaches_outside(self) -> bool: ...
    @property
    def pods_share_nic(self) -> bool: ...

    def probe(self) -> str | None:
        """Return why the network cannot be used here, or None."""

    def refuse(self, runtime: str, nodes: int) -> str | None:
        """Return why this network cannot serve a runtime on so many nodes, or None."""

    def prepare(self, nodes: Sequence[Node], study: str) -> AbstractContextManager[None]:
        """Make what all pods of the network share, before there are pods."""

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        """Return the options with which Docker puts a node's container of this number into this network."""

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        """Make what the network's pods on one node share, before the first of them is wired."""

    def attach(self, pod: Pod, nic: Nic) -> AbstractContextManager[Endpoint]:
        """Wire a pod."""


@runtime_checkable
class Joining(Protocol):
    """What a network offers beside that if its pods reach each other only once all of them are known."""

    def joined(self, pods: Sequence[Wired]) -> tuple[Endpoint, ...]:
        """Wait until wired pods reach each other; return their endpoints, in order, with all that proves the way."""


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
    "fake": FakeNetwork("fake", "198.51.100.0/24"),
    "fake-slow": FakeNetwork("fake-slow", "203.0.113.0/24"),
}


def find(name: str) -> Network:
    """Return the network that an environment names, as an object of that environment's own.

    A name is that of a member of `NETWORKS`, or `cni:PATH` for a CNI configuration of the user's.
    """
    if name.startswith(PREFIX):
        return Cni(name.removeprefix(PREFIX))
    return copy.copy(NETWORKS[name])


CROSSING: Final = frozenset({"host", "overlay", "flannel", "flannel-udp", "canal", "calico-ipip", "calico-ipip-cross"})
"""Networks whose pods meet across a router between the nodes' subnets, which knows nodes and no pods."""
