"""Sum up what the interfaces of launches carried, without an object for each interface of each launch. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tare.model import InterfaceTraffic
from tare.store.parts import LazySequence, Part
from tare.store.shared import VARYING

_COUNTS: Final = len(VARYING[InterfaceTraffic])


class Carried(NamedTuple):
    """What an interface carried during a launch, both directions together."""

    node: str
    role: str
    packets: int
    volume_bytes: int


def carried(traffic: Sequence[InterfaceTraffic], *, but: str) -> Iterator[Carried]:
    """Yield what each interface of a launch carried, except those of the role `but`.

    The launches of large results are alike except for their counts; then only these are read.
    """
    if not isinstance(traffic, LazySequence) or traffic.part.gaps != _COUNTS * traffic.part.length:
        yield from (_sum(item) for item in traffic if item.role != but)
        return
    counts = str(traffic.values).split(" ")  # they were checked when the line was read
    for node, role, packets_in, packets_out, bytes_in, bytes_out in _places(traffic.part, but):
        yield Carried(
            node,
            role,
            int(counts[packets_in]) + int(counts[packets_out]),
            int(counts[bytes_in]) + int(counts[bytes_out]),
        )


def _sum(item: InterfaceTraffic) -> Carried:
    return Carried(item.node, item.role, item.rx_packets + item.tx_packets, item.rx_bytes + item.tx_bytes)


@lru_cache(maxsize=1024)
def _places(part: Part, but: str) -> tuple[tuple[str, str, int, int, int, int], ...]:
    """Return node and role of each interface, and the places of its counts among the values, of which all vary."""
    made: tuple[InterfaceTraffic, ...] = part.made(" ".join(map(str, range(part.gaps))))  # so a count is its own place
    return tuple(
        (item.node, item.role, item.rx_packets, item.tx_packets, item.rx_bytes, item.tx_bytes)
        for item in made
        if item.role != but
    )
