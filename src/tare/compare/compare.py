"""Judge how costs and overheads changed from one result to others, and name the differences that could explain it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final

from tare.analysis import stats
from tare.compare.differences import FactDifference
from tare.compare.kinds import KINDS, Moves
from tare.compare.reading import CellCosts, CellMetric, ComparedResults
from tare.errors import RefusedError
from tare.model import Estimate, Verdict
from tare.report import units

WORDS: Final[Mapping[Verdict, str]] = {
    Verdict.NO_COST: "same",
    Verdict.COSTS: "slower",
    Verdict.GAINS: "faster",
    Verdict.INCONCLUSIVE: "undecided",
}
LISTED: Final = 8
"""Cells of each result that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRatio:
    """A ratio of the other result to the first, minus one, with its interval and the verdict on it.

    `simultaneous` has the interval that decides, adjusted for the whole table (Holm). `within` is the margin for which
    "same" was shown. `first` and `second` are the two values as text, with units.
    """

    ratio: Estimate
    simultaneous: Estimate
    verdict: Verdict
    within: float | None
    p_value: float
    p_holm: float
    reason: str
    first: str
    second: str
    n: tuple[int, int]

    @property
    def word(self) -> str:
        """Return the verdict in one word."""
        return WORDS[self.verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """One metric of one cell in two results: how its cost changed, and how its overhead did (None for the baseline).

    `missing` says for each result why it has no figures, or how many launches have none. `could` are the differences
    between the two results that could explain a change of either.
    """

    place: CellMetric
    label: str
    measures: Moves
    is_baseline: bool
    cost: JudgedRatio | None
    overhead: JudgedRatio | None
    missing: tuple[str, str] = ("", "")
    could: tuple[FactDifference, ...] = ()

    @property
    def changed(self) -> bool:
        """Tell whether the cost or the overhead is slower or faster."""
        return any(
            each is not None and each.verdict in {Verdict.COSTS, Verdict.GAINS} for each in (self.cost, self.overhead)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The first result against another one, by their indices; `only` has the places that one of them lacks."""

    first: int
    second: int
    changes: tuple[CellChange, ...]
    only: tuple[tuple[CellMetric, ...], tuple[CellMetric, ...]]

    def by_group(self) -> Iterator[tuple[str, list[CellChange]]]:
        """Yield the changes of each group."""

        def group(change: CellChange) -> str:
            return change.place.group

        for name, members in groupby(sorted(self.changes, key=group), key=group):
            yield name, list(members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """A comparison of results: all that the terminal, JSON and HTML show."""

    readings: tuple[ComparedResults, ...]
    labels: tuple[str, ...]
    differences: tuple[FactDifference, ...]
    expected: frozenset[str]
    pairs: tuple[Pair, ...]
    margin: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _RatioTest:
    """One test of the table, before it is judged; `logs` are the moments of the log ratio of other to first."""

    logs: stats.Moments
    p_value: float
    n: tuple[int, int]
    texts: tuple[str, str]


_Key = tuple[int, CellMetric, str]


def across(
    readings: Sequence[ComparedResults],
    labels: Sequence[str],
    found: Sequence[FactDifference],
    expected: frozenset[str],
) -> Across:
    """Compare the first result with each other one.

    For each metric of each common cell: the ratio of typical costs, exp(mean of logs in the other - mean of logs in the
    first), and the ratio of overheads, which is the same with each round's log ratio to its own baseline; both with
    Welch's intervals (`tare.analysis.stats.two_sample`). Holm's adjustment is over all ratios of all results together.
    Verdicts are those of a report (`tare.analysis.stats.verdict`) with the first result's margin. Raises `RefusedError`
    if two results have no common cell.
    """
    check_common(readings, labels)
    first = readings[0]
    pairs = range(1, len(readings))
    tests = {key: test for index in pairs for key, test in _tests(first, readings[index], index)}
    ordered = [test.p_value for test in tests.values()]
    adjusted = dict(
        zip(
            tests, zip(stats.holm(ordered), stats.holm_confidences(ordered, first.confidence), strict=True), strict=True
        )
    )
    judged = {key: _judge(test, *adjusted[key], first) for key, test in tests.items()}
    return Across(
        readings=tuple(readings),
        labels=tuple(labels),
        differences=tuple(found),
        expected=expected,
        pairs=tuple(_pair(readings, index, judged, found) for index in pairs),
        margin=first.margin,
        confidence=first.confidence,
    )


def check_common(readings: Sequence[ComparedResults], labels: Sequence[str]) -> None:
    """Raise `RefusedError` if a result has no metric of a cell in common with the first; it lists the cells of each."""
    first = readings[0]
    for second, label in zip(readings[1:], labels[1:], strict=True):
        if not first.costs.keys() & second.costs.keys():
            raise RefusedError(
                f"{labels[0]} ({first.path}) and {label} ({second.path}) have no cell with a metric in common: "
                f"{labels[0]} has {_cells(first)}; {label} has {_cells(second)}",
                remedy="name results of one study file, or give workloads, placements and environments the same names",
            )


def _cells(reading: ComparedResults) -> str:
    more = f" and {len(reading.groups) - LISTED} more" if len(reading.groups) > LISTED else ""
    return ", ".join(islice(reading.groups, LISTED)) + more if reading.groups else "no cells"


# --- tests --------------------------------------------------------------------------------------------------------


def _tests(first: ComparedResults, second: ComparedResults, index: int) -> Iterator[tuple[_Key, _RatioTest]]:
    """Yield the tests of two results that can be computed: costs, and overheads over the same baseline."""
    for place, one in first.costs.items():
        other = second.costs.get(place)
        if other is None:
            continue
        if cost := _test(one.logs, other.logs, one.text, first.confidence):
            yield (index, place, "cost"), cost
        if one.overheads is None or other.overheads is None or first.baseline != second.baseline:
            continue
        if overhead := _test(one.overheads, other.overheads, overhead_text, first.confidence):
            yield (index, place, "overhead"), overhead


def _test(
    one: stats.FloatArray, other: stats.FloatArray, text: Callable[[float], str], confidence: float
) -> _RatioTest | None:
    logs = stats.two_sample(one, other)
    p_value = stats.paired_p(logs)
    if p_value is None or stats.estimated(stats.paired_t(logs, confidence)) is None:
        return None
    return _RatioTest(
        logs=logs, p_value=p_value, n=(one.size, other.size), texts=(text(float(one.mean())), text(float(other.mean())))
    )


def overhead_text(log_ratio: float) -> str:
    """Return an overhead, given as a log ratio, as `+16 %`."""
    return units.percent(growth(log_ratio))


def growth(log_ratio: float) -> float:
    """Return how much more a log ratio means, as a finite fraction."""
    return math.expm1(min(log_ratio, 700.0))


def _judge(test: _RatioTest, p_holm: float, level: float, first: ComparedResults) -> JudgedRatio:
    judgement = stats.verdict(
        test.logs,
        margin=first.margin,
        confidence=first.confidence,
        adjusted=level,
        equivalence=1.0 - 2.0 * (1.0 - first.confidence),
    )
    ratio, simultaneous = stats.paired_t(test.logs, first.confidence), stats.paired_t(test.logs, level)
    if ratio is None or simultaneous is None:
        raise ValueError("a test without an interval")  # _test returns none of these
    return JudgedRatio(
        ratio=ratio,
        simultaneous=simultaneous,
        verdict=judgement.verdict,
        within=judgement.within,
        p_value=test.p_value,
        p_holm=p_holm,
        reason=judgement.reason,
        first=test.texts[0],
        second=test.texts[1],
        n=test.n,
    )


# --- pairs --------------------------------------------------------------------------------------------------------


def _pair(
    readings: Sequence[ComparedResults],
    index: int,
    judged: Mapping[_Key, JudgedRatio],
    found: Sequence[FactDifference],
) -> Pair:
    first, second = readings[0], readings[index]
    relevant = [difference for difference in found if difference.between(0, index)]
    changes = [
        _change(place, (one, second.costs[place]), judged, index)
        for place, one in first.costs.items()
        if place in second.costs
    ]
    only = tuple(
        tuple(place for place in these.costs if place not in others.costs)
        for these, others in ((first, second), (second, first))
    )
    return Pair(
        first=0,
        second=index,
        changes=tuple(_explained(change, relevant, first.baseline) for change in changes),
        only=(only[0], only[1]),
    )


def _change(
    place: CellMetric, both: tuple[CellCosts, CellCosts], judged: Mapping[_Key, JudgedRatio], index: int
) -> CellChange:
    one, other = both
    return CellChange(
        place=place,
        label=one.info.label,
        measures=one.measures | other.measures,
        is_baseline=one.is_baseline,
        cost=judged.get((index, place, "cost")),
        overhead=judged.get((index, place, "overhead")),
        missing=(_missing(one), _missing(other)),
    )


def _missing(costs: CellCosts) -> str:
    """Return why a result has no figures, or how many of its launches have none; "" if all have."""
    if costs.reason:
        return f"no figures: {costs.reason}"
    return f"{costs.failed} of {costs.launches} launches have no figure" if costs.failed else ""


def _explained(change: CellChange, found: Sequence[FactDifference], baseline: str) -> CellChange:
    """Return the change with the differences that could explain it.

    What concerns other environments alone cannot. If the cost changed and the overhead is the same, then the baseline
    changed alike, so the cause concerns both of them. A change of overhead may come from the baseline's side too.
    """
    if not change.changed:
        return change
    own = change.place.environment
    moved = change.overhead is not None and change.overhead.verdict in {Verdict.COSTS, Verdict.GAINS}
    alike = change.overhead is not None and change.overhead.verdict is Verdict.NO_COST

    def concerns(difference: FactDifference) -> bool:
        users = difference.environments
        if not users:
            return True
        if alike:
            return own in users and baseline in users
        return own in users or (moved and baseline in users)

    could = [each for each in found if KINDS[each.kind].moves & change.measures and concerns(each)]
    return replace(change, could=tuple(could))
