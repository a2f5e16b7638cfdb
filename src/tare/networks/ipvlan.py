"""`ipvlan-l2` and `ipvlan-l3`: an interface on the data NIC with the NIC's own MAC address (CNI ipvlan).

In mode l2 the pod is in the NIC's subnet, and the NIC tells packets apart by their addresses. In mode l3 the node
routes for its pods: they have a separate subnet, and every node has a route to each of them via its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ipaddress import IPv4Network

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import config, endpoint, in_pod_subnet, probe_cni, wire_by_cni, without_address
from tare.networks.wiring.routing import Route, add_routes
from tare.system.kernel_modules import probe_link
from tare.system.node import Endpoint, Nic, Node, Pod, Wired


class Ipvlan(Network):
    """Give the pod an ipvlan interface on the data NIC."""

    has_bridge = False
    passes_node = False

    def __init__(self, mode: str) -> None:
        self.name = f"ipvlan-{mode}"
        self.product = f"Linux's ipvlan itself in mode {mode}, made by CNI's own ipvlan plug-in"
        self._mode = mode

    @property
    def reaches_outside(self) -> bool:
        return self._mode == "l2"

    def probe(self) -> str | None:
        return probe_cni("ipvlan", "static") or probe_link("ipvlan")

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return without_address(node, nic) if self._mode == "l2" else nullcontext()

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        pod_nic = nic if self._mode == "l2" else in_pod_subnet(nic)
        with wire_by_cni(pod, config("ipvlan", pod_nic, master=nic.name, mode=self._mode, mtu=nic.mtu)):
            yield endpoint(pod, pod_nic.address, pod_nic.prefix, "ipvlan", (pod.node.pid, nic.name, "data NIC"))

    @contextmanager
    def join(self, node: Node, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        routes = routes_to(node, pods) if self._mode == "l3" else []
        with add_routes(node.pid, node.name, routes), super().join(node, pods) as endpoints:
            yield endpoints


def routes_to(node: Node, pods: Sequence[Wired]) -> list[Route]:
    """Return a node's routes to the pods of the other nodes: in mode l3 a pod does not answer ARP.

    The gateway is the address that the pod's node keeps, which may differ from its NIC's address for this pod.
    """
    routes = []
    for each in pods:
        there = each.pod.node
        if there.name != node.name:
            number = next(number for number, nic in enumerate(there.nics) if nic.name == each.nic.name)
            network, gateway = IPv4Network(each.endpoint.address), there.nics[number].address
            routes.append(Route(network=network, gateway=gateway, interface=node.nics[number].name))
    return routes
