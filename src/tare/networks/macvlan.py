"""`macvlan`: a second address on the data NIC, by MAC, in bridge mode (CNI macvlan)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import config, endpoint, probe_cni, wire_by_cni, without_address
from tare.system.node import Endpoint, Nic, Node, Pod


class Macvlan(Network):
    """Give the pod a macvlan interface on the data NIC."""

    name = "macvlan"
    product = "Linux's macvlan itself, made by CNI's own macvlan plug-in"
    has_bridge = False
    passes_node = False

    def probe(self) -> str | None:
        return probe_cni("macvlan", "static")

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return without_address(node, nic)

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        with wire_by_cni(pod, config("macvlan", nic, master=nic.name, mode="bridge")):
            yield endpoint(pod, nic.address, nic.prefix, "macvlan", (pod.node.pid, nic.name, "data NIC"))
