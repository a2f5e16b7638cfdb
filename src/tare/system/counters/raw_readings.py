"""Keep what sources contained at several moments, and parse it when the launch between them has ended.

Launches in turns are read dozens of times between their shares of work. Then files are read and nothing else. What
others did between the sections of a launch is subtracted from each source's numbers, before they are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from tare.system.counters import conntrack, interfaces, qdisc
from tare.system.counters.interfaces import Counts
from tare.system.counters.scheduling import TIMES, USAGE
from tare.system.counters.sources import Content, CounterSource, Numbers, Parse
from tare.system.counters.values import CounterValues, Key, Moment, Scope, joined, joined_counts, joined_numbers, merged
from tare.system.node import Watch

STATES: Final[tuple[str, ...]] = (conntrack.ENTRIES, qdisc.BACKLOG)
THROTTLED: Final = "throttled_s"


class SourceRole(Enum):
    """What the numbers of a source are."""

    COUNTERS = "counters and states of a scope"
    QUEUES = "counters and states of queues"
    INTERFACES = "columns of interfaces"
    THROTTLING = "counters of a cgroup that a quota stops"
    MACHINE = "counters and CPU times of a machine"
    USAGE = "CPU time of the node's jobs"


class LayoutEntry(NamedTuple):
    """A source that is read for a node, what parses it, and what its numbers belong to."""

    source: CounterSource
    parse: Parse
    scope: Scope
    role: SourceRole = SourceRole.COUNTERS


class NodeReading(Protocol):
    """A reading of one node."""

    @property
    def job_s(self) -> float:
        """Return the CPU time of the node's jobs."""

    def values(self) -> CounterValues:
        """Return the values that were read."""

    def joined(self, sections: Sequence[tuple[Any, Any]]) -> tuple[CounterValues, CounterValues]:
        """Return the values before and after sections, each of two readings of this node (`values.joined`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLayout:
    """What is read of a node: `entries`, of which the first `shared` are read for launches in turns, too.

    The first `of_node` of them, the node's network namespace, do not change while no launch uses a lab's node.
    `without_queue` are the indices of the entries that list the queues of shared namespaces which had none.
    """

    machine: str
    entries: tuple[LayoutEntry, ...]
    of_node: int
    shared: int
    without_queue: tuple[int, ...]
    watches: Mapping[Scope, tuple[Watch, ...]]
    node_sources: tuple[CounterSource, ...] = field(init=False)
    shared_sources: tuple[CounterSource, ...] = field(init=False)
    other_sources: tuple[CounterSource, ...] = field(init=False)
    interfaces: tuple[int, ...] = field(init=False)
    """The indices of the entries that are columns of interfaces."""

    def __post_init__(self) -> None:
        sources = tuple(entry.source for entry in self.entries)
        rows = tuple(at for at, entry in enumerate(self.entries) if entry.role is SourceRole.INTERFACES)
        object.__setattr__(self, "node_sources", sources[: self.of_node])
        object.__setattr__(self, "shared_sources", sources[self.of_node : self.shared])
        object.__setattr__(self, "other_sources", sources[self.of_node :])
        object.__setattr__(self, "interfaces", rows)


@dataclass(slots=True, kw_only=True)
class RawReading:
    """A reading of a node that is not parsed: the contents of the first entries of its layout, or of all.

    `counts` are those of the watches that are no file of a network namespace, with `unread` as in `CounterValues`.
    `given_s` is the CPU time of the node's jobs where they have no cgroup.
    """

    layout: ReadingLayout
    contents: Sequence[Content]
    counts: Mapping[Key, Counts] = field(default_factory=dict)
    unread: Mapping[Key, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    given_s: float | None = None

    @property
    def job_s(self) -> float:
        """Return the CPU time of the node's jobs."""
        if self.given_s is not None:
            return self.given_s
        pairs = zip(self.layout.entries, self.contents, strict=False)
        return sum(content.parsed(entry.parse)[USAGE] for entry, content in pairs if entry.role is SourceRole.USAGE)

    @property
    def is_throttling_known(self) -> bool:
        """Return whether the kernel reports how long it stopped a cgroup."""
        pairs = zip(self.layout.entries, self.contents, strict=False)
        return any(e.role is SourceRole.THROTTLING and THROTTLED in content.parsed(e.parse) for e, content in pairs)

    def numbers(self) -> list[Numbers]:
        """Return the numbers of the entries that were read."""
        return [content.parsed(entry.parse) for entry, content in zip(self.layout.entries, self.contents, strict=False)]

    def values(self) -> CounterValues:
        """Return the values that were read."""
        return _values_of(self, self.numbers())

    def joined(self, sections: Sequence[tuple[RawReading, RawReading]]) -> tuple[CounterValues, CounterValues]:
        """Return the values before and after sections; those of one layout are joined before they are parsed."""
        if all(each.layout is self.layout for pair in sections for each in pair):
            return _joined_taken(sections)
        return joined([(a.values(), b.values()) for a, b in sections])


@dataclass(frozen=True, slots=True)
class ParsedReading:
    """A reading of a node that parsed it itself."""

    given: CounterValues

    @property
    def job_s(self) -> float:
        """Return the CPU time of the node's jobs."""
        return self.given.job_s

    def values(self) -> CounterValues:
        """Return the values that were read."""
        return self.given

    def joined(self, sections: Sequence[tuple[ParsedReading, ParsedReading]]) -> tuple[CounterValues, CounterValues]:
        """Return the values before and after sections."""
        return joined([(a.given, b.given) for a, b in sections])


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """A reading of several nodes at a moment."""

    moment: Moment
    nodes: tuple[NodeReading, ...]

    def values(self) -> CounterValues:
        """Return the values of all nodes together."""
        return merged([each.values() for each in self.nodes], self.moment)

    @property
    def ours_s(self) -> float:
        """Return the CPU time of the study and of tare."""
        return self.moment.ours_s(sum(each.job_s for each in self.nodes))


def joined_readings(sections: Sequence[tuple[CounterReading, CounterReading]]) -> tuple[CounterValues, CounterValues]:
    """Return the values before and after all sections, without what grew between them (`values.joined`)."""
    first, end = sections[0][0], sections[-1][1]
    pairs = [
        node.joined([(before.nodes[at], after.nodes[at]) for before, after in sections])
        for at, node in enumerate(first.nodes)
    ]
    before = merged([pair[0] for pair in pairs], first.moment)
    after = merged([pair[1] for pair in pairs], end.moment)
    ours_s = before.ours_s + sum(b.ours_s - a.ours_s for a, b in sections)
    return before, replace(after, ours_s=ours_s)


def _joined_taken(sections: Sequence[tuple[RawReading, RawReading]]) -> tuple[CounterValues, CounterValues]:
    """Return two readings of a node; what was not read in every section grew between the first and the last."""
    first, end = sections[0][0], sections[-1][1]
    every = [each for pair in sections for each in pair]
    common = min(len(each.contents) for each in every)
    start, numbers = first.numbers(), end.numbers()
    for at, entry in enumerate(end.layout.entries[:common]):
        pairs = [(a.contents[at], b.contents[at]) for a, b in sections]
        kept = {name: numbers[at][name] for name in STATES if name in numbers[at]}
        numbers[at] = joined_numbers(start[at], numbers[at], _changes(pairs, entry.parse)) | kept
    job_s = None if first.given_s is None else first.given_s + sum(b.job_s - a.job_s for a, b in sections)
    unread = {key: why for each in every for key, why in each.unread.items()}
    last = replace(
        end,
        counts=joined_counts([(a.counts, b.counts) for a, b in sections]),
        unread=unread,
        lacking=tuple(dict.fromkeys(name for each in every for name in each.lacking)),
        given_s=job_s,
    )
    values = _values_of(last, numbers)
    if not all(each.is_throttling_known for each in every):
        values = replace(values, throttled_s=None)
    return first.values(), values


def _changes(pairs: Sequence[tuple[Content, Content]], parse: Parse) -> list[tuple[Numbers, Numbers]]:
    """Return the numbers before and after each section in which a source's content changed, or could not be read."""
    return [(a.parsed(parse), b.parsed(parse)) for a, b in pairs if a is not b or not a.data]


def _values_of(taken: RawReading, numbers: Sequence[Numbers]) -> CounterValues:
    """Put the numbers of a node's entries together, each in the scope of its entry."""
    layout = taken.layout
    found, growing, states = dict(taken.counts), dict[Scope, dict[str, float]](), dict[Scope, dict[str, float]]()
    machine: Numbers = {}
    job_s, throttled = 0.0, list[float]()
    for entry, own in zip(layout.entries, numbers, strict=False):
        if entry.role is SourceRole.USAGE:
            job_s += own[USAGE]
            continue
        scope = growing.setdefault(entry.scope, {})
        if entry.role is SourceRole.INTERFACES:
            watches = layout.watches[entry.scope]
            found.update(_counts_of(layout.machine, watches, own))
            scope.update(interfaces.lost(own, {watch.interface for watch in watches}))
            continue
        if entry.role is SourceRole.MACHINE:
            machine = own
        elif entry.role is SourceRole.THROTTLING and THROTTLED in own:
            throttled.append(own[THROTTLED])
        scope.update(own)
    for scope_of, values in growing.items():
        if present := {name: values.pop(name) for name in STATES if name in values}:
            states[scope_of] = present
        for name in TIMES:
            values.pop(name, None)
    return CounterValues(
        interfaces=found,
        unread=taken.unread,
        growing=growing,
        states=states,
        lacking=taken.lacking,
        machine=layout.machine,
        busy_s=machine.get("busy_s", 0.0),
        steal_s=machine.get("steal_s", 0.0),
        softirq_s=machine.get("softirq_s", 0.0),
        job_s=job_s if taken.given_s is None else taken.given_s,
        throttled_s=sum(throttled) if throttled else None,
    )


def _counts_of(machine: str, watches: Iterable[Watch], columns: Numbers) -> dict[Key, Counts]:
    """Return the traffic of the watches of a network namespace whose interfaces exist."""
    pairs = ((watch, interfaces.counts_in(columns, watch.interface)) for watch in watches)
    return {(machine, watch.pid, watch.interface): counts for watch, counts in pairs if counts is not None}
