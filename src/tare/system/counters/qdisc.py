"""Read what the queues of interfaces dropped and held back (queueing disciplines, tc-stats; linux/gen_stats.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tare.system.counters.netlink import ATTRIBUTE, Message, attributes, listed, text_of

KIND: Final = 1
OPTIONS: Final = 2
STATS2: Final = 7
QUEUE_STATS: Final = 3
TCMSG: Final = struct.Struct("=BxxxiIII")
QUEUE: Final = struct.Struct("=IIIII")
"""struct gnet_stats_queue: packets and bytes that wait, drops, requeues, overlimits."""
ROOT: Final = 0xFFFFFFFF
BACKLOG: Final = "qdisc_backlog_bytes"
"""What waits now: a state that does not only grow."""
FQ_CODEL_LIMIT: Final = 2
KEPT: Final = "queues"
NO_QUEUE: Final = ATTRIBUTE.pack(ATTRIBUTE.size + 8, KIND) + b"noqueue\0"
"""The attribute `KIND` of an interface without a queue, where nothing waits."""
TOTALS: Final = (BACKLOG, "qdisc_drops", "qdisc_requeues", "qdisc_overlimits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queueing discipline of an interface; `limit` is in its own unit, packets or bytes, 0 if it is not known."""

    interface: int
    kind: str
    is_root: bool
    drops: int = 0
    overlimits: int = 0
    requeues: int = 0
    backlog_bytes: int = 0
    limit: int = 0


def parse(messages: Iterable[Message]) -> tuple[Queue, ...]:
    """Return the queues of a dump (`netlink.GET_QDISCS`)."""
    found = []
    for header, given in messages:
        _, index, _handle, parent, _ = TCMSG.unpack_from(header)
        backlog, drops, requeues, overlimits = _counts(given)
        kind = text_of(given.get(KIND))
        found.append(
            Queue(
                interface=index,
                kind=kind,
                is_root=parent == ROOT,
                drops=drops,
                overlimits=overlimits,
                requeues=requeues,
                backlog_bytes=backlog,
                limit=limit_of(kind, given.get(OPTIONS, b"")),
            )
        )
    return tuple(found)


def _counts(given: Mapping[int, bytes]) -> tuple[int, int, int, int]:
    """Return waiting bytes, drops, requeues and overlimits from a message's attributes."""
    stats = attributes(given.get(STATS2, b"")).get(QUEUE_STATS, b"")
    _, backlog, drops, requeues, overlimits = QUEUE.unpack_from(stats.ljust(QUEUE.size, b"\0"))
    return backlog, drops, requeues, overlimits


def limit_of(kind: str, options: bytes) -> int:
    """Return the limit in a queue's options, 0 if this kind is not known here."""
    if kind in {"pfifo", "bfifo"} and len(options) >= 4:
        return int(struct.unpack_from("=I", options)[0])
    if kind == "netem" and len(options) >= 8:
        return int(struct.unpack_from("=I", options, 4)[0])
    if kind == "fq_codel" and len(value := attributes(options).get(FQ_CODEL_LIMIT, b"")) >= 4:
        return int(struct.unpack_from("=I", value)[0])
    return 0


def totals(answer: bytes) -> dict[str, int]:
    """Return the counters of a namespace's queues, summed over interfaces, from the answer to `netlink.GET_QDISCS`.

    An interface counts with its largest queue, because a queue with others inside also counts what they drop. Nothing
    is returned if there was no answer.
    """
    return totals_in(listed(answer)) if answer else {}


def kept_in(answer: bytes) -> dict[str, int]:
    """Return how many queues there are that can keep or drop packets, from the answer to `netlink.GET_QDISCS`."""
    every = listed(answer)
    return {KEPT: sum(NO_QUEUE not in message for message in every)} if answer else {KEPT: 1}


def totals_in(dump: Iterable[bytes]) -> dict[str, int]:
    """Return the counters of a namespace's queues, summed over interfaces, from the messages of a dump.

    An interface counts with its largest queue, because a queue with others inside also counts what they drop.
    """
    largest: dict[int, tuple[int, ...]] = {}
    for interface, counts in map(_counts_in, dump):
        known = largest.get(interface)
        largest[interface] = counts if known is None else tuple(map(max, known, counts))
    sums = map(sum, zip(*largest.values(), strict=True)) if largest else (0,) * len(TOTALS)
    return dict(zip(TOTALS, sums, strict=True))


@lru_cache(maxsize=1024)
def _counts_in(message: bytes) -> tuple[int, tuple[int, int, int, int]]:
    """Return a queue's interface and counts; most queues are idle, so that their messages are those of last time."""
    index: int = TCMSG.unpack_from(message)[1]
    return index, _counts(attributes(message[TCMSG.size :]))
