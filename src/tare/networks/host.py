"""`host`: the node's own network; nothing is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tare.networks.plug import Wiring, carriers, silent
from tare.node import Endpoint, Nic, Node, Pod


class HostNetwork:
    """Use the node's data NIC as it is."""

    name = "host"
    wiring = Wiring.NODE
    owns_nic = False
    reaches_outside = True

    def probe(self) -> str | None:
        return None

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str) -> tuple[str, ...]:
        return ("--network", "host")

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
