"""Compare counters before and after a launch: traffic, what grew at which place, and what else used the machine.

Counters are cumulative, so that no burst is missed. Everything here works on values; `reader` reads them on a node.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tare.model import InterfaceTraffic
from tare.model.trial import MOST_BACK_S
from tare.system.counters.values import CounterValues, HostWatch, Key, growth
from tare.system.node import Node, Watch

DIGITS: Final = 6
"""Significant digits of a stored number: results have 20,000 trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadInterface:
    """A watched interface whose counters may not be read, and why."""

    node: str
    interface: str
    role: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a launch did to its nodes: traffic by interface, the growth of counters, and what else used the machine.

    `unread` and `lacking` are what could not be read; `said_bytes` is the size of the launch's output, which the
    control network carries.
    """

    traffic: tuple[InterfaceTraffic, ...] = ()
    unread: tuple[UnreadInterface, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    by_place: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    lacking: str = ""
    said_bytes: int = 0

    @property
    def resent(self) -> float:
        """Return the number of TCP segments that were sent again."""
        return self.counters.get("TcpRetransSegs", 0.0)


def observed(
    places: Iterable[HostWatch], before: CounterValues, after: CounterValues, *, said_bytes: int = 0
) -> Observed:
    """Return what a launch did between two readings."""
    places = tuple(places)
    return Observed(
        traffic=traffic(places, before, after),
        unread=unread(places, before, after),
        counters=counters(before, after),
        by_place=by_place(before, after),
        noise=noise(before, after),
        lacking=lacking(before, after),
        said_bytes=said_bytes,
    )


def key_of(node: Node, watch: Watch) -> Key:
    """Return the key of a watch's counters among the interfaces of all nodes."""
    return node.machine, watch.pid, watch.interface


def traffic(places: Iterable[HostWatch], before: CounterValues, after: CounterValues) -> tuple[InterfaceTraffic, ...]:
    """Return the traffic of each watched interface between two readings.

    Hosts on one machine may share an adapter's port; its traffic is then divided equally among them.
    """
    places = tuple(places)
    sharing = Counter(key_of(place.node, watch) for place in places for watch in place.watches)
    found = []
    for place in places:
        for watch in place.watches:
            key = key_of(place.node, watch)
            if key not in before.interfaces or key not in after.interfaces:
                continue
            pairs = zip(before.interfaces[key], after.interfaces[key], strict=True)
            values = [(b - a) // sharing[key] for a, b in pairs]
            found.append(
                InterfaceTraffic(
                    node=place.place,
                    interface=watch.interface,
                    role=watch.role,
                    rx_bytes=values[0],
                    rx_packets=values[1],
                    tx_bytes=values[2],
                    tx_packets=values[3],
                )
            )
    return tuple(found)


def unread(places: Iterable[HostWatch], before: CounterValues, after: CounterValues) -> tuple[UnreadInterface, ...]:
    """Return the watched interfaces whose counters may not be read before or after a launch."""
    why_of = {**before.unread, **after.unread}
    if not why_of:
        return ()
    return tuple(
        UnreadInterface(
            node=place.place, interface=watch.interface, role=watch.role, why=why_of[key_of(place.node, watch)]
        )
        for place in places
        for watch in place.watches
        if key_of(place.node, watch) in why_of
    )


def counters(before: CounterValues, after: CounterValues) -> dict[str, float]:
    """Return the growth of counters, summed over places; only those that grew."""
    return _summed(growth(before, after).values())


def by_place(before: CounterValues, after: CounterValues) -> dict[str, dict[str, float]]:
    """Return the growth of counters by place, and the states at the end; only what is not zero."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for scope, values in (*growth(before, after).items(), *after.states.items()):
        found.setdefault(scope[1], []).append(values)
    summed = {place: _summed(values) for place, values in found.items()}
    return {place: values for place, values in sorted(summed.items()) if values}


def lacking(before: CounterValues, after: CounterValues) -> str:
    """Return which counters could not be read and why, "" if all could."""
    return ", ".join(sorted({*before.lacking, *after.lacking}))


def _summed(every: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for values in every:
        for name, value in values.items():
            total[name] = total.get(name, 0) + value
    return {name: _rounded(value) for name, value in sorted(total.items()) if value}


def _rounded(value: float) -> float:
    """Return a number with `DIGITS` significant digits if it is not whole."""
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")


def noise(before: CounterValues, after: CounterValues) -> dict[str, float]:
    """Return the number of cores and the CPU seconds between two readings: background load, job, steal, softirq.

    Background load excludes the study's processes and tare itself. It also excludes softirq: a kernel that accounts
    interrupt time separately attributes it to no process, and most of it is caused by the job's own messages (with an
    overlay more than without). `throttled_s` is present if the kernel reports how long it throttled containers. A
    CPU time that ran backwards is a negative number, which is refused where trials are stored.
    """
    busy_s = after.busy_s - before.busy_s
    job_s, ours_s = after.job_s - before.job_s, after.ours_s - before.ours_s
    softirq_s = after.softirq_s - before.softirq_s
    found = {
        "cores": float(os.cpu_count() or 0),
        "background_s": busy_s if busy_s < -MOST_BACK_S else max(0.0, busy_s - softirq_s - ours_s),
        "job_s": job_s,
        "steal_s": after.steal_s - before.steal_s,
        "softirq_s": softirq_s,
    }
    if before.throttled_s is not None and after.throttled_s is not None:
        found["throttled_s"] = after.throttled_s - before.throttled_s
    return found
