"""Say what was traced of a cell beside its baseline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tare.run.trace.record import Trace

MOST: Final = 4
"""Most reasons, softirqs, and calls of a rank that are named: those with the largest figures."""


def lines_of(traces: Sequence[Trace], group: str, environment: str, baseline: str) -> Iterator[str]:
    """Yield lines on a cell, whose figures are followed by the baseline's; nothing if one of both was not traced."""
    of = {each.environment: each for each in traces if each.group == group and each.launches}
    here, base = of.get(environment), of.get(baseline)
    if here is None or base is None:
        return
    yield f"traced by bpftrace, per launch, and in the baseline ({here.launches} and {base.launches} launches):"
    launches = here.launches, base.launches
    yield from _line("packets dropped on this machine", here.dropped, base.dropped, launches, _count)
    yield from _line("softirqs of this machine", here.softirq_s, base.softirq_s, launches, _seconds)
    for rank in sorted(here.calls.keys() | base.calls.keys(), key=lambda name: (len(name), name)):
        who = f"rank {rank}" if rank.isdigit() else "processes that are no rank"
        calls, others = here.calls.get(rank, {}), base.calls.get(rank, {})
        total = f"{_count(sum(calls.values()) / launches[0])}, {_count(sum(others.values()) / launches[1])}"
        yield from _line(f"system calls of {who}: {total}", calls, others, launches, _count)


def _line(
    what: str,
    here: Mapping[str, float],
    base: Mapping[str, float],
    launches: tuple[int, int],
    shown: Callable[[float], str],
) -> Iterator[str]:
    """Yield a line with the largest figures per launch."""
    means = {
        name: (here.get(name, 0) / launches[0], base.get(name, 0) / launches[1]) for name in here.keys() | base.keys()
    }
    largest = sorted(means, key=lambda name: (-max(means[name]), name))[:MOST]
    named = "; ".join(f"{name} {shown(means[name][0])}, {shown(means[name][1])}" for name in largest)
    yield f"  {what}: {named or 'none'}" if ":" not in what else f"  {what} ({named or 'none'})"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{1e3 * value:.1f} ms"
