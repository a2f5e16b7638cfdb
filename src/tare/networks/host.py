"""`host`: the node's own network; nothing is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tare.node import Endpoint, Nic, Node, Pod
from tare.wiring.plug import Wiring, carriers, silent


class HostNetwork:
    """Use the node's data NIC as it is."""

    name = "host"
    product = "the network of the node itself: nothing is made"
    wiring = Wiring.NODE
    owns_nic = False
    reaches_outside = True
    pods_share_nic = False

    def probe(self) -> str | None:
        return None

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "host")

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        pid = pod.node.pid
        yield Endpoint(
            address=nic.address,
            prefix=nic.prefix,
            interface=nic.name,
            mtu=nic.mtu,
            watches=(*carriers((pid, nic.name, "data NIC")), *silent(pid)),
        )
