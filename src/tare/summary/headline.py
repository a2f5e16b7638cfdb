"""State in one sentence what each environment costs, and which cost nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.cluster import CLUSTERS
from tare.model import Comparison, Estimate, MetricInfo, MetricKind, Plan, Verdict
from tare.model.text import counted, rate_scale, three_digits
from tare.stats import MIN_ROUNDS

DECIDED = (Verdict.COSTS, Verdict.GAINS, Verdict.NO_COST)
NOT_COMPARED = (Verdict.BASELINE, Verdict.NOISE_FLOOR, Verdict.NOT_JUDGED)
BLOCKED = (Verdict.INVALID, Verdict.NOT_COMPARABLE, Verdict.UNAVAILABLE)
LISTED = 4
COSTLIEST = 6
"""Most environments with a cost that get a clause each; the others are listed by name."""
TIMES_FROM: Final = 9.0
"""Overhead (as a fraction) from which a multiple is easier to read than a percentage."""
MANY_ROUNDS: Final = 200
"""Above this many rounds the advice is to check whether the machine is quiet, not to add rounds."""


def _location(cluster: str) -> str:
    """Return the sentence's first words: the cluster that it is about."""
    return CLUSTERS[cluster].location if cluster in CLUSTERS else f"On this {cluster} cluster"


def headline(plan: Plan, infos: Sequence[MetricInfo], comparisons: Sequence[Comparison], pending: str = "") -> str:
    """Return the sentence: a clause for each environment, the most expensive first, equal ones together.

    Which environments are named, and as what, is decided over the table as a whole. Each figure is that of one cell of
    the table, with the same interval and n, and with the baseline's absolute value. `pending` is the reason why there
    are no verdicts yet.
    """
    judged = [item for item in comparisons if item.verdict not in NOT_COMPARED]
    where = _location(plan.study.cluster)
    writer = _Writer(plan, infos, comparisons)
    if pending or not any(item.verdict in DECIDED or item.verdict is Verdict.FAILS for item in judged):
        return f"{where} {'; '.join([pending or _undecided(judged), *writer.so_far(judged)])}."
    return f"{where} {'; '.join(writer.clauses(_findings(judged)))}."


def _undecided(judged: Sequence[Comparison]) -> str:
    if not judged:
        return "nothing is compared with the baseline"
    blocked = [item for item in judged if item.verdict in BLOCKED]
    if len(blocked) == len(judged):
        return (
            f"nothing could be compared: {blocked[0].environment} is {blocked[0].verdict.value} ({blocked[0].reason})"
        )
    n = max(len(set(item.rounds)) for item in judged)
    needed = [item.more_rounds for item in judged if item.more_rounds is not None]
    more = f"; {_more(max(needed), n)}" if needed else ""
    return f"nothing is decided after {counted(n, 'round')}{more}"


def _more(rounds: int, done: int) -> str:
    if rounds > MANY_ROUNDS and done < MIN_ROUNDS:
        return f"a verdict needs at least {MIN_ROUNDS}"
    if rounds > MANY_ROUNDS:
        return f"launches differ too much for a verdict within {MANY_ROUNDS} more (is the machine quiet? tare doctor)"
    return f"about {rounds} more are needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Findings:
    """The judged comparisons of one environment."""

    name: str
    items: tuple[Comparison, ...]

    def of(self, *verdicts: Verdict) -> list[Comparison]:
        """Return the comparisons with one of these verdicts, the largest difference first."""
        return sorted((item for item in self.items if item.verdict in verdicts), key=_size, reverse=True)

    @property
    def largest(self) -> float:
        """Return the size of its largest cost, as a logarithm; 0 if it has none."""
        return max((_size(item) for item in self.of(Verdict.COSTS)), default=0.0)

    @property
    def bound(self) -> float:
        """Return the upper end of its intervals on metrics without a proven cost; infinite if not known."""
        known = [item.overhead for item in self.of(Verdict.NO_COST, Verdict.INCONCLUSIVE)]
        return max((one.high if one is not None else math.inf for one in known), default=math.inf)


def _findings(judged: Sequence[Comparison]) -> list[_Findings]:
    names = dict.fromkeys(item.environment for item in judged)
    return [_Findings(name=name, items=tuple(item for item in judged if item.environment == name)) for name in names]


class _Writer:
    """Phrases about comparisons, with the names and the baseline's values that they need."""

    def __init__(self, plan: Plan, infos: Sequence[MetricInfo], comparisons: Sequence[Comparison]) -> None:
        self._study = plan.study
        self._infos: Mapping[tuple[str, str], MetricInfo] = {(info.group, info.key): info for info in infos}
        self._same_label = Counter(info.label for info in infos)
        self._base = {
            (item.group, item.metric): item.absolute_s for item in comparisons if item.verdict is Verdict.BASELINE
        }

    def clauses(self, findings: Sequence[_Findings]) -> list[str]:
        """Return the clauses: costs, gains, failures, no cost, undecided, not compared."""
        costly = sorted((one for one in findings if one.of(Verdict.COSTS)), key=lambda one: -one.largest)
        parts = [self._lead_clause(costly[0])] if costly else []
        parts += [f"{one.name} {self._largest(one.of(Verdict.COSTS))}" for one in costly[1:COSTLIEST]]
        if len(costly) > COSTLIEST:
            parts.append(f"also costly: {_list([one.name for one in costly[COSTLIEST:]])}")
        for one in findings:
            if gains := one.of(Verdict.GAINS):
                parts.append(f"{one.name} {self._largest(gains) if costly else self._effect(gains[0])}")
            if fails := one.of(Verdict.FAILS):
                parts.append(f"{one.name} fails: {fails[0].reason}")
        rest = [one for one in findings if not one.of(Verdict.COSTS, Verdict.GAINS, Verdict.FAILS)]
        parts += self._no_cost_clauses(
            [one for one in rest if one.items and not one.of(Verdict.INCONCLUSIVE, *BLOCKED)]
        )
        parts += self._undecided_clauses([one for one in rest if one.of(Verdict.INCONCLUSIVE)])
        blocked = [one.name for one in rest if one.of(*BLOCKED) and not one.of(Verdict.INCONCLUSIVE)]
        return [*parts, *([f"{_list(blocked)} could not be compared"] if blocked else [])]

    def so_far(self, judged: Sequence[Comparison]) -> Sequence[str]:
        """Return at most one phrase: the largest difference beyond the margin while nothing is decided yet."""
        clear = [item for item in judged if _smallest_difference(item) > math.log1p(self._study.margin)]
        if not clear:
            return ()
        lead = max(clear, key=_smallest_difference)
        return (f"so far {lead.environment} {self._effect(lead)}",)

    def _lead_clause(self, one: _Findings) -> str:
        costs = one.of(Verdict.COSTS)
        tail = f" and {self._largest(costs[1:])}" if len(costs) > 1 else ""
        return f"{one.name} {self._effect(costs[0])}{tail}"

    def _largest(self, items: Sequence[Comparison]) -> str:
        """Return the first of some costs (or gains) with its metric and the baseline's value, and the others' names.

        As "+31 % [+29, +33] on barrier (9.6 µs), n = 10, also on bw (3.1 GB/s)". No ratio stands without its base, n
        and interval.
        """
        first, *others = items
        also = f", also on {_list([self._with_base(item) for item in others])}" if others else ""
        if first.overhead is None:
            return f"{first.verdict.value} on {self._label(first)}{also}"
        return f"{signed(first.overhead)} on {self._with_base(first)}, n = {first.overhead.n}{also}"

    def _with_base(self, item: Comparison) -> str:
        """Return a metric's label with the baseline's absolute value behind it."""
        info, base = self._infos[item.group, item.metric], self._base.get((item.group, item.metric))
        if base is None:
            return self._label(item)
        is_rate = info.kind is MetricKind.RATE and info.done_per_sample > 0 and base.value > 0
        value = _rate(info.done_per_sample / base.value, info.rate_unit) if is_rate else _time(base.value)
        return f"{self._label(item)} ({value})"

    def _no_cost_clauses(self, free: Sequence[_Findings]) -> list[str]:
        if not free:
            return []
        within = max(item.within or self._study.margin for one in free for item in one.items)
        n = min(item.overhead.n for one in free for item in one.items if item.overhead is not None)
        names = _list([one.name for one in free])
        return [f"no cost beyond {_percent(within)} for {names} on any compared metric (n = {n})"]

    def _undecided_clauses(self, open_: Sequence[_Findings]) -> list[str]:
        """Return the undecided environments: first those with a difference that is not significant, then the others."""
        hinted = [one for one in open_ if any(_excludes_zero(item) for item in one.of(Verdict.INCONCLUSIVE))]
        parts = []
        for one in hinted[:LISTED]:
            items = [item for item in one.of(Verdict.INCONCLUSIVE) if _excludes_zero(item)]
            parts.append(f"undecided for {one.name}: {self._largest(items)}")
        rest = [one for one in open_ if one not in hinted]
        if not rest:
            return parts
        bound = max(one.bound for one in rest)
        names = _list([one.name for one in rest])
        most = f", at most {_overhead(bound)}" if 0 <= bound < math.inf else ""
        undecided = sum(len(one.of(Verdict.INCONCLUSIVE)) for one in rest)
        of = sum(len(one.items) for one in rest)
        return [*parts, f"no cost found for {names}{most} ({undecided} of {of} undecided)"]

    def _effect(self, item: Comparison) -> str:
        """Return the effect of an environment on one metric, with the figures of its cell."""
        info = self._infos[item.group, item.metric]
        base, overhead = self._base.get((item.group, item.metric)), item.overhead
        costs = overhead.value >= 0 if overhead is not None else item.verdict is Verdict.COSTS
        if base is None or overhead is None:
            return f"{'costs' if costs else 'gains'} on {self._label(item)}"
        if info.kind is MetricKind.RATE and info.done_per_sample > 0 and item.absolute_s is not None:
            verb = "lowers" if costs else "raises"
            of_base, of_item = (
                _rate(info.done_per_sample / cost.value, info.rate_unit) for cost in (base, item.absolute_s)
            )
            work = "per byte" if info.rate_unit == "B/s" else "for the same work"
            bounds = f"{signed(overhead)} time {work}, n = {overhead.n}"
            return f"{verb} {self._label(item)} from {of_base} to {of_item} ({bounds})"
        if item.added_s is None or (item.added_s.value < 0) is costs:
            return self._largest([item])
        verb, to = ("adds", "to") if costs else ("takes", "off")
        share = f"{signed(overhead)} on {self._study.baseline}'s {_time(base.value)}"
        return f"{verb} {_time_interval(item.added_s, base.value)} ({share}, n = {overhead.n}) {to} {self._label(item)}"

    def _label(self, item: Comparison) -> str:
        label = self._infos[item.group, item.metric].label
        return f"{label} ({item.group})" if self._same_label[label] > 1 else label


def _size(item: Comparison) -> float:
    return abs(_signed_size(item))


def _signed_size(item: Comparison) -> float:
    return math.log1p(item.overhead.value) if item.overhead and item.overhead.value < math.inf else math.inf


def _excludes_zero(item: Comparison) -> bool:
    """Tell whether the plain interval excludes zero, although nothing is decided."""
    return item.overhead is not None and not item.overhead.low <= 0 <= item.overhead.high


def _smallest_difference(item: Comparison) -> float:
    """Return the smallest difference in the adjusted interval, as a logarithm; 0 if it contains zero."""
    bounds = item.simultaneous
    if bounds is None or bounds.low <= 0 <= bounds.high:
        return 0.0
    return math.log1p(bounds.low) if bounds.low > 0 else -math.log1p(bounds.high)


def _list(names: Sequence[str]) -> str:
    shown = list(names[:LISTED])
    if len(names) > LISTED:
        shown.append(f"{len(names) - LISTED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _overhead(value: float) -> str:
    return f"×{1 + value:,.0f}" if value >= TIMES_FROM else f"{three_digits(100.0 * value, '+')} %"


# The import contract forbids `tare.report.units` here; a sentence needs less than a table.


def _time(seconds: float) -> str:
    size, unit = _unit(seconds)
    return f"{three_digits(seconds / size)} {unit}"


def _time_interval(added: Estimate, base_s: float) -> str:
    """Return an added (or saved) time with its interval in one unit, with the digits of the table."""
    sign = -1.0 if added.value < 0 else 1.0
    bounds = sorted((sign * added.low, sign * added.high))
    largest = max(abs(added.low), abs(added.high))
    size, unit = _unit(base_s if 0.02 <= largest / _unit(base_s)[0] < 1000 else largest)
    half, before = (added.high - added.low) / 2.0 / size, math.floor(math.log10(largest / size)) if largest else 0
    wanted = -math.floor(math.log10(half / 2 * (1 + 1e-9))) if half > 0 else 2 - before
    digits = min(max(0, wanted), max(0, 3 - max(0, before)))
    low, high = (f"{bound / size:.{digits}f}" for bound in bounds)
    return f"{abs(added.value) / size:.{digits}f} {unit} [{low}, {high}]"


def signed(overhead: Estimate) -> str:
    """Return an overhead with its interval, in per cent or as a multiple."""
    if overhead.value >= TIMES_FROM:
        value, low, high = (three_digits(1 + part) for part in (overhead.value, overhead.low, overhead.high))
        return f"×{value} [{low}, {high}]"
    low, value, high = (_per_cent(part) for part in (overhead.low, overhead.value, overhead.high))
    return f"{value} % [{low}, {high}]"


def _per_cent(fraction: float) -> str:
    text = three_digits(round(100.0 * fraction, 3), "+")
    return text if text != "-100" else f"{100.0 * fraction:.9g}"  # a ratio of costs is above zero


def _percent(fraction: float) -> str:
    return f"{three_digits(100.0 * fraction)} %"


def _unit(seconds: float) -> tuple[float, str]:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= size:
            return size, unit
    return 1e-9, "ns"


def _rate(value: float, unit: str) -> str:
    size, suffix = rate_scale(value, unit)
    return f"{three_digits(value / size)} {suffix}"
