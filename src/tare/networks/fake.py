"""`fake` and `fake-slow`: networks of known cost, for the `fake` runtime; nothing is created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Network
from typing import Final

from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import Wiring
from tare.system.node import Endpoint, Nic, Node, Pod

FACTORS: Final[Mapping[str, float]] = {"198.18.0.0/16": 1.0, "198.19.0.0/16": 1.5}
"""The factor by which every time is multiplied, by the subnet from which the fake MPI recognises its network."""


class FakeNetwork(Network):
    """Give an address that stands for a known cost."""

    product = "rebuilt from nothing: it stands for a known cost, in tests"
    wiring = Wiring.NODE
    owns_nic = False
    pods_share_nic = False
    is_fake = True

    def __init__(self, name: str, subnet: str) -> None:
        self.name = name
        self._subnet = IPv4Network(subnet)

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ()

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        address = str(self._subnet[pod.node.index + 1])
        yield Endpoint(address=address, prefix=self._subnet.prefixlen, interface="fake0", mtu=1500)
