"""`fake` and `fake-slow`: networks whose cost is known, for the `fake` runtime; nothing is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from tare.node import Endpoint, Nic, Node, Pod
from tare.wiring.plug import Wiring

FACTORS: Final[Mapping[str, float]] = {"198.51.100.0/24": 1.0, "203.0.113.0/24": 1.5}
"""What every time is multiplied by, by the subnet that tells the fake MPI which network it is on."""


class FakeNetwork:
    """Give an address that stands for a known cost."""

    product = "rebuilt from nothing: it stands for a known cost, in tests"
    wiring = Wiring.NODE
    owns_nic = False
    reaches_outside = True
    pods_share_nic = False

    def __init__(self, name: str, subnet: str) -> None:
        self.name = name
        self._base = subnet.rsplit(".", 1)[0]

    def probe(self) -> str | None:
        return None

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None if runtime == "fake" else f"{self.name} is a network of the fake runtime, not of {runtime}"

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ()

    def on_node(self, node: Node, nic: Nic) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        yield Endpoint(address=f"{self._base}.{pod.node.index + 1}", prefix=24, interface="fake0", mtu=1500)
