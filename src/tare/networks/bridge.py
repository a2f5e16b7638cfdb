"""`bridge`: a veth into a Linux bridge that holds the data NIC, as in papers/001.

CNI's bridge plug-in makes the veths. tare makes the bridge first, because no CNI plug-in adds a NIC to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tare.errors import InfrastructureError
from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import config, endpoint, probe_cni, wire_by_cni, without_address
from tare.system.namespaces import index_of, netlink
from tare.system.node import Endpoint, Nic, Node, Pod


class Bridge(Network):
    """Wire a pod through a bridge in its node."""

    name = "bridge"
    product = "Linux's bridge itself, with the veths that CNI's own bridge plug-in makes"
    passes_node = False

    def probe(self) -> str | None:
        return probe_cni("bridge", "static")

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        with without_address(node, nic), _bridge(node, nic):
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        bridge = bridge_name(nic)
        with wire_by_cni(pod, config("bridge", nic, bridge=bridge, isGateway=False, ipMasq=False, mtu=nic.mtu)):
            yield endpoint(pod, nic.address, nic.prefix, "veth of the pod", (pod.node.pid, nic.name, "data NIC"))


def bridge_name(nic: Nic) -> str:
    """Return the name of the bridge that holds a NIC."""
    return f"tarebr-{nic.name}"[:15]


@contextmanager
def _bridge(node: Node, nic: Nic) -> Iterator[None]:
    """Keep a bridge up with the NIC as a port and with its MAC address, which pods coming and going do not change."""
    name = bridge_name(nic)
    with netlink(node.pid) as route:
        port = index_of(route, nic.name)
        address = route.get_links(port)[0].get_attr("IFLA_ADDRESS")
        route.link("add", ifname=name, kind="bridge", mtu=nic.mtu, address=address)
        bridge = index_of(route, name)
        route.link("set", index=port, master=bridge, state="up")
        route.link("set", index=bridge, state="up")
    try:
        yield
    finally:
        with suppress(InfrastructureError, FileNotFoundError), netlink(node.pid) as route:
            route.link("del", index=index_of(route, name))
