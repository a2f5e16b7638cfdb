"""`host`: the node's own network; nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import Wiring, carriers, silent
from tare.system.node import Endpoint, Nic, Node, Pod


class HostNetwork(Network):
    """Use the node's data NIC as it is."""

    name = "host"
    product = "the network of the node itself: nothing is made"
    wiring = Wiring.NODE
    owns_nic = False
    pods_share_nic = False
    has_bridge = False
    crosses_subnets = True

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "host")

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        pid = pod.node.pid
        yield Endpoint(
            address=nic.address,
            prefix=nic.prefix,
            interface=nic.name,
            mtu=nic.mtu,
            watches=(*carriers((pid, nic.name, "data NIC")), *(() if pod.node.is_machine else silent(pid))),
        )
