"""Define counter values at one moment, put those of several nodes together, and join those of several sections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tare.system.counters.interfaces import Counts
from tare.system.node import Node, Watch
from tare.system.node.cgroups import Group

Key = tuple[str, int, str]
"""An interface: machine, process in its network namespace, name."""
Scope = tuple[str, str, str]
"""What counts together: machine, place (a host's name, or `machine NAME`), and the namespace, cgroup or source."""
Growing = Mapping[Scope, Mapping[str, float]]
MACHINE: Final = "machine"
THIS_MACHINE: Final = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWatch:
    """What is watched of one host (a node, or a pod on it): interfaces, a process in its namespaces, its cgroups.

    `groups` are those of its job's processes and containers.
    """

    node: Node
    pid: int
    watches: tuple[Watch, ...]
    host: str = ""
    groups: tuple[Group, ...] = ()

    @property
    def place(self) -> str:
        """Return the host's name in results."""
        return self.host or self.node.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment at which counters are read, with the CPU times of all processes of the study and of tare itself.

    Readings with the same `number` are of the same moment: nothing of the study runs between them. Number 0 is always a
    moment of its own. From moment `since` on, only launches work on the nodes of a lab, and whenever one pauses or
    ends, the nodes that it used are read; 0 if that is not known.
    """

    number: int = 0
    since: int = 0
    site_s: float = 0.0
    tare_s: float = field(default_factory=time.process_time)

    def ours_s(self, job_s: float) -> float:
        """Return the CPU time of the study and of tare, which is at least that of the jobs."""
        return max(self.site_s, job_s) + self.tare_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterValues:
    """Counter values at one moment, of one node or of several; `machine` is the one that the CPU times are of.

    `unread` has the watched interfaces whose counters may not be read, with the reason. `growing` are counters that
    only grow, `states` are values that do not, both by scope. `lacking` names sources that cannot be read, with the
    reason.
    """

    interfaces: Mapping[Key, Counts] = field(default_factory=dict)
    unread: Mapping[Key, str] = field(default_factory=dict)
    growing: Growing = field(default_factory=dict)
    states: Growing = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    machine: str = ""
    busy_s: float = 0.0
    steal_s: float = 0.0
    softirq_s: float = 0.0
    job_s: float = 0.0
    ours_s: float = 0.0
    throttled_s: float | None = None


def place_of_machine(name: str) -> str:
    """Return the place of what is only counted for a whole machine; "" is this one."""
    return f"{MACHINE} {name or THIS_MACHINE}"


def merged(nodes: Sequence[CounterValues], moment: Moment) -> CounterValues:
    """Return the values of several nodes together; nodes on one machine have its CPU times in common.

    The CPU times are those of the machine's first node that read them. Those of the study in `moment` include the job
    and its launcher.
    """
    machines = list({each.machine: each for each in reversed(nodes) if each.busy_s}.values())
    job_s = sum(each.job_s for each in nodes)
    throttled = [each.throttled_s for each in nodes if each.throttled_s is not None]
    return CounterValues(
        interfaces={key: values for each in nodes for key, values in each.interfaces.items()},
        unread={key: why for each in nodes for key, why in each.unread.items()},
        growing={scope: values for each in nodes for scope, values in each.growing.items()},
        states={scope: values for each in nodes for scope, values in each.states.items()},
        lacking=tuple(dict.fromkeys(name for each in nodes for name in each.lacking)),
        busy_s=sum(each.busy_s for each in machines),
        steal_s=sum(each.steal_s for each in machines),
        softirq_s=sum(each.softirq_s for each in machines),
        job_s=job_s,
        ours_s=moment.ours_s(job_s),
        throttled_s=sum(throttled) if throttled else None,
    )


def joined(sections: Sequence[tuple[CounterValues, CounterValues]]) -> tuple[CounterValues, CounterValues]:
    """Return two readings whose difference is the growth during all sections, without the time between the sections.

    What was not read in every section grew between the first reading and the last: nobody else uses it.
    """
    first, end = sections[0][0], sections[-1][1]
    unread: dict[Key, str] = {}
    for pair in sections:
        for each in pair:
            unread |= each.unread
    last = CounterValues(
        interfaces=joined_counts([(a.interfaces, b.interfaces) for a, b in sections]),
        unread=unread,
        growing={
            scope: joined_numbers(
                first.growing[scope],
                end.growing[scope],
                [(a.growing.get(scope, {}), b.growing.get(scope, {})) for a, b in sections],
            )
            for scope in end.growing
            if scope in first.growing
        },
        states=end.states,
        lacking=tuple(dict.fromkeys(name for pair in sections for each in pair for name in each.lacking)),
        machine=end.machine,
        busy_s=_sum(sections, "busy_s"),
        steal_s=_sum(sections, "steal_s"),
        softirq_s=_sum(sections, "softirq_s"),
        job_s=_sum(sections, "job_s"),
        ours_s=_sum(sections, "ours_s"),
        throttled_s=None
        if any(each.throttled_s is None for pair in sections for each in pair)
        else _sum(sections, "throttled_s"),
    )
    return first, last


def _sum(sections: Sequence[tuple[CounterValues, CounterValues]], name: str) -> float:
    """Return the value of the first reading and the growth during the sections."""
    grown: float = sum(getattr(after, name) - getattr(before, name) for before, after in sections)
    start: float = getattr(sections[0][0], name)
    return start + grown


def joined_counts(sections: Sequence[tuple[Mapping[Key, Counts], Mapping[Key, Counts]]]) -> dict[Key, Counts]:
    """Return the first counts of interfaces and what they grew during all sections (see `joined`)."""
    found: dict[Key, Counts] = {}
    first, end = sections[0][0], sections[-1][1]
    for key in first.keys() & end.keys():
        if all(key in before and key in after for before, after in sections):
            columns = zip(first[key], *(_grown(before[key], after[key]) for before, after in sections), strict=True)
            found[key] = tuple(map(sum, columns))  # type: ignore[assignment]
        else:
            found[key] = end[key]
    return found


def joined_numbers(
    first: Mapping[Any, float],
    end: Mapping[Any, float],
    sections: Sequence[tuple[Mapping[Any, float], Mapping[Any, float]]],
) -> dict[Any, float]:
    """Return the first numbers and what they grew during sections.

    Sections in which nothing changed may be left out. A number that is missing in one is the one at the end.
    """
    found = {}
    for name in end:
        if name in first:
            try:
                found[name] = first[name] + sum([after[name] - before[name] for before, after in sections])
            except KeyError:
                found[name] = end[name]
    return found


def _grown(before: Iterable[int], after: Iterable[int]) -> list[int]:
    return [b - a for a, b in zip(before, after, strict=True)]


def growth(before: CounterValues, after: CounterValues) -> dict[Scope, dict[str, Any]]:
    """Return what grew between two readings by scope; what was not read before, or did not grow, is left out."""
    found = {}
    for scope, values in after.growing.items():
        start = before.growing.get(scope, {})
        grown = {name: value - start.get(name, value) for name, value in values.items()}
        if kept := {name: value for name, value in grown.items() if value > 0}:
            found[scope] = kept
    return found
