"""`ipvlan-l2` and `ipvlan-l3`: an interface on the data NIC with the NIC's own MAC address (CNI ipvlan).

In mode l2 the pod is in the NIC's subnet, and the NIC tells packets apart by their addresses. In mode l3 the node
routes for its pods: they have a separate subnet, and every node has a route to each of them via its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from ipaddress import IPv4Network

from tare.host.kernel_modules import probe_link
from tare.node import Endpoint, Nic, Node, Pod
from tare.wiring.network import Network
from tare.wiring.plug import (
    POD_INTERFACE,
    carriers,
    config,
    in_pod_subnet,
    mtu_of,
    probe_cni,
    silent,
    wire_by_cni,
    without_address,
)
from tare.wiring.routing import Route, add_routes


class Ipvlan(Network):
    """Give the pod an ipvlan interface on the data NIC."""

    has_bridge = False

    def __init__(self, mode: str) -> None:
        self.name = f"ipvlan-{mode}"
        self.product = f"Linux's ipvlan itself in mode {mode}, made by CNI's own ipvlan plug-in"
        self._mode = mode
        self._nodes: tuple[Node, ...] = ()

    @property
    def reaches_outside(self) -> bool:
        return self._mode == "l2"

    def probe(self) -> str | None:
        return probe_cni("ipvlan", "static") or probe_link("ipvlan")

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        self._nodes = tuple(nodes)
        yield

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return without_address(node, nic) if self._mode == "l2" else nullcontext()

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        pod_nic = nic if self._mode == "l2" else in_pod_subnet(nic)
        with ExitStack() as stack:
            stack.enter_context(
                wire_by_cni(pod, config("ipvlan", pod_nic, master=nic.name, mode=self._mode, mtu=nic.mtu))
            )
            if self._mode == "l3":
                self._tell(stack, pod, nic, pod_nic)
            yield Endpoint(
                address=pod_nic.address,
                prefix=pod_nic.prefix,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(
                    *carriers((pod.pid, POD_INTERFACE, "ipvlan"), (pod.node.pid, nic.name, "data NIC")),
                    *silent(pod.pid),
                ),
            )

    def _tell(self, stack: ExitStack, pod: Pod, nic: Nic, pod_nic: Nic) -> None:
        """Add a route to the pod on the other nodes: in mode l3 it does not answer ARP.

        The gateway is the address that the node's NIC keeps, which may differ from the NIC's address for this pod.
        """
        number = next(number for number, other in enumerate(pod.node.nics) if other.name == nic.name)
        gateway = pod.node.nics[number].address
        route = Route(network=IPv4Network(pod_nic.address), gateway=gateway, interface=nic.name)
        for peer in self._nodes:
            if peer.index != pod.node.index:
                over = replace(route, interface=peer.nics[number].name)
                stack.enter_context(add_routes(peer.pid, peer.name, [over]))
