"""Judge the rows of the table: intervals, Holm over the table, the verdict of every comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from tare.analysis import stats
from tare.analysis.stats import RoundPairs
from tare.analysis.summary.rows import Row
from tare.model import (
    Comparison,
    Estimate,
    FailureRate,
    MeanCost,
    Plan,
    Repeats,
    Role,
    Study,
    Verdict,
)

NOT_NORMAL: Final = 0.01
"""p of the normality test below which the rank-based test is reported in addition (rule of metrics 6)."""

NOT_ESTIMATED: Final = "not estimated: its interval is wider than a hundredfold"
MEAN_DIFFERS: Final = "no verdict on the mean, because the baseline's mean differs from itself (A/A)"

Column = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """The result of the tests over the whole table for one comparison."""

    p_value: float
    p_holm: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A/A in a column: its plain interval, and whether A/A differs from zero (then nothing is decided).

    `mean_differs` is of the mean: then nothing is decided on means.
    """

    floor: Estimate | None = None
    differs: bool = False
    mean_differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTable:
    """All comparisons, and the columns in which the baseline, or the baseline's mean, differs from itself."""

    comparisons: tuple[Comparison, ...]
    self_differs: tuple[Column, ...] = ()
    self_mean_differs: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """The context for judging a row: the study, the look, and the results of the whole table by index of the row."""

    study: Study
    look: stats.Look
    tests: Mapping[int, _Test] = field(default_factory=dict)
    over_limit: frozenset[int] = frozenset()
    columns: Mapping[Column, _Column] = field(default_factory=dict)
    failures: Mapping[int, FailureRate] = field(default_factory=dict)

    @property
    def confidence(self) -> float:
        """Return the confidence of the intervals that are shown."""
        return self.study.repetition.confidence

    def level(self, alpha: float) -> float:
        """Return the confidence of a decision at this look, where `alpha` is the error over all looks."""
        return 1.0 - alpha * self.look.share


def compare(plan: Plan, table: Sequence[Row], reruns: Mapping[str, int], look: stats.Look) -> JudgedTable:
    """Judge every row; Holm is applied to all judged comparisons of the table, and separately to those of A/A."""
    judge = _judge_of(plan.study, table, look)
    comparisons = []
    for index, row in enumerate(table):
        plain = _plain(row, judge, reruns.get(row.cell.key, 0), judge.failures.get(index))
        if row.pairs is None or row.means is None:
            comparisons.append(plain)
            continue
        comparisons.append(_judged(plain, row, row.pairs, row.means, judge, index))
    differs = tuple(column for column, state in judge.columns.items() if state.differs)
    means = tuple(column for column, state in judge.columns.items() if state.mean_differs and not state.differs)
    return JudgedTable(comparisons=tuple(comparisons), self_differs=differs, self_mean_differs=means)


# --- tests over the whole table ----------------------------------------------------------------------------------


def _judge_of(study: Study, table: Sequence[Row], look: stats.Look) -> _Judge:
    judge = _Judge(study=study, look=look)
    judged = {index: row for index, row in enumerate(table) if row.info.judged and row.pairs is not None}
    self_rows = {index: row for index, row in judged.items() if row.cell.role is Role.SELF}
    others = {index: row for index, row in judged.items() if row.cell.role is Role.ENVIRONMENT}
    level = judge.level(stats.SELF_ALPHA)
    tests = _holm({index: row.pairs for index, row in self_rows.items()}, level)
    means = _holm({index: row.means for index, row in self_rows.items() if not _is_same(row)}, level)
    columns = {
        row.column: _Column(
            floor=stats.paired_t(row.pairs.logs, judge.confidence),
            differs=_differs(tests.get(index), row.pairs, level),
            mean_differs=_differs(means.get(index), row.means, level),
        )
        for index, row in self_rows.items()
        if row.pairs is not None
    }
    judge = replace(judge, columns=columns)
    return replace(
        judge,
        tests=tests | _holm({index: row.pairs for index, row in others.items()}, judge.level(1.0 - judge.confidence)),
        over_limit=_over_limit(others, judge),
        failures=_failures(table, judge),
    )


def _differs(test: _Test | None, pairs: RoundPairs | None, level: float) -> bool:
    """Tell whether a test of A/A rejects at this level."""
    return test is not None and pairs is not None and pairs.logs.n >= stats.MIN_ROUNDS and test.p_holm <= 1.0 - level


def _holm(rows: Mapping[int, RoundPairs | None], confidence: float) -> dict[int, _Test]:
    """Return the p values of some rows' pairs by index, adjusted by Holm's method, with the confidence of each."""
    p_values = {
        index: p for index, pairs in rows.items() if pairs is not None and (p := stats.paired_p(pairs.logs)) is not None
    }
    ordered = list(p_values.values())
    return {
        index: _Test(p_value=p, p_holm=p_holm, confidence=level)
        for (index, p), p_holm, level in zip(
            p_values.items(), stats.holm(ordered), stats.holm_confidences(ordered, confidence), strict=True
        )
    }


def _over_limit(rows: Mapping[int, Row], judge: _Judge) -> frozenset[int]:
    """Return the rows whose mean overhead is significantly above the study's limit."""
    limit = judge.study.limit
    if limit is None or judge.look.pending:
        return frozenset()
    series = [row.means.logs for row in rows.values() if row.means is not None]
    over = stats.over_limit(series, limit, judge.level(1.0 - judge.confidence))
    columns = judge.columns
    return frozenset(
        index
        for (index, row), beyond in zip(rows.items(), over, strict=True)
        if beyond and not row.cell.placement.oversubscribe and not (column := _of(columns, row)).differs
        if not column.mean_differs
    )


def _of(columns: Mapping[Column, _Column], row: Row) -> _Column:
    return columns.get(row.column, _Column())


def _failures(table: Sequence[Row], judge: _Judge) -> dict[int, FailureRate]:
    """Return the failure rate of every row with launches, and the environments' tests against the baseline (Holm)."""
    cells = {row.cell.key: (len(row.series.failed), row.series.launches) for row in table}
    bases = {row.cell.group: row.cell.key for row in table if row.cell.role is Role.BASELINE}
    p_values = {
        key: stats.more_often_p(*cells[key], *cells[bases[row.cell.group]])
        for row in table
        if (key := row.cell.key) in cells and row.cell.role is Role.ENVIRONMENT and row.cell.group in bases
    }
    adjusted = dict(zip(p_values, stats.holm(list(p_values.values())), strict=True))
    error = 1.0 - judge.level(stats.FAILURES_ALPHA)
    rates = {}
    for index, row in enumerate(table):
        failed, launches = cells[row.cell.key]
        if launches:
            low, high = stats.share_interval(failed, launches, judge.confidence)
            more = not judge.look.pending and adjusted.get(row.cell.key, 1.0) <= error
            p_value = p_values.get(row.cell.key)
            rates[index] = FailureRate(failed=failed, launches=launches, low=low, high=high, p_value=p_value, more=more)
    return rates


# --- one row -----------------------------------------------------------------------------------------------------


def _plain(row: Row, judge: _Judge, reruns: int, failures: FailureRate | None) -> Comparison:
    """Return a row without comparison: its launches, its absolute cost, and, if it is blocked, the reason."""
    metrics = [row.series.counted[block].metric for block in sorted(row.series.counted)]
    rounds, typical, means = row.costs
    loops = [metric.loop_s for metric in metrics if metric.loop_s is not None]

    def mean(costs: Sequence[float]) -> Estimate | None:
        if row.blocked is not None or len(costs) < len(rounds) or min(costs, default=0.0) <= 0.0:
            return None
        return stats.mean_cost(stats.round_means(rounds, costs)[1], judge.confidence)

    medians_s, p99s = [metric.median_s for metric in metrics], [metric.p99_s for metric in metrics]
    p99 = stats.median_by_ranks(p99s, judge.confidence)
    verdict, reason = row.blocked or (
        Verdict.BASELINE,
        _join("" if row.series.launches else "no complete block yet", row.series.reason),
    )
    if verdict is Verdict.INVALID and failures is not None and failures.more:
        verdict = Verdict.FAILS
    return Comparison(
        metric=row.info.key,
        environment=row.name,
        group=row.info.group,
        verdict=verdict,
        reason=reason,
        absolute_s=mean(typical),
        mean_absolute_s=mean(means),
        loop_s=mean(loops),
        failures=failures,
        rounds=rounds,
        values_s=typical,
        means_s=means,
        median_s=median(medians_s) if metrics else None,
        p99_s=p99.value if p99 else median(p99s) if p99s else None,
        p99_interval_s=(p99.low, p99.high) if p99 else None,
        reruns=reruns,
        misses=stats.missed_share(len(metrics)) if metrics else None,
    )


def _judged(plain: Comparison, row: Row, pairs: RoundPairs, means: RoundPairs, judge: _Judge, index: int) -> Comparison:
    """Return the row with its estimates and its verdict."""
    study, logs, confidence = judge.study, pairs.logs, judge.confidence
    test = judge.tests.get(index)
    mean = _mean(row, means, judge)
    judgement = _judgement(row, pairs, mean, judge, index)
    over = index in judge.over_limit
    overhead = stats.estimated(stats.paired_t(logs, confidence))
    return replace(
        plain,
        verdict=judgement.verdict,
        reason=_join(
            judgement.reason,
            f"above the limit of {_percent(study.limit or 0.0)}" if over else "",
            NOT_ESTIMATED if overhead is None and logs.n > 1 else "",
            MEAN_DIFFERS if _of(judge.columns, row).mean_differs else "",
            _normality_note(pairs),
            row.note,
            row.series.reason,
        ),
        within=judgement.within,
        at_most=stats.at_most(logs, confidence) if overhead is not None else None,
        overhead=overhead,
        simultaneous=stats.estimated(stats.paired_t(logs, test.confidence if test else judge.level(1.0 - confidence))),
        added_s=_added(pairs, confidence),
        median_ratio=stats.bca_ratio_of_medians(pairs.environment_s, pairs.baseline_s, confidence, study.seed),
        mean=mean,
        repeats=_repeats(row, confidence),
        adjusted_for=tuple(state.name for state in row.adjustment.states),
        p_value=test.p_value if test and overhead is not None else None,
        p_holm=test.p_holm if test and overhead is not None else None,
        more_rounds=judgement.more_rounds,
        over_limit=over,
    )


def _added(pairs: RoundPairs, confidence: float) -> Estimate | None:
    """Return the added time; None if its interval includes that more is saved than the baseline takes."""
    added = stats.paired_difference(pairs.environment_s, pairs.baseline_s, confidence)
    return added if added is not None and added.low > -float(pairs.baseline_s.mean()) else None


def _mean(row: Row, means: RoundPairs, judge: _Judge) -> MeanCost | None:
    """Return the cost of the mean launch; None if it equals that of the typical launch.

    It is `significant` only where the baseline's mean does not differ from itself; that of A/A is if it does.
    """
    overhead, bound = stats.estimated(stats.paired_t(means.logs, judge.confidence)), stats.at_most(means.logs)
    if overhead is None or bound is None or _is_same(row):
        return None
    decided = stats.paired_t(means.logs, judge.level(1.0 - judge.confidence))
    is_self, differs = row.cell.role is Role.SELF, _of(judge.columns, row).mean_differs
    excludes = decided is not None and not decided.low <= 0 <= decided.high
    return MeanCost(
        overhead=overhead,
        added_s=_added(means, judge.confidence),
        at_most=bound,
        significant=differs if is_self else excludes and not differs,
    )


def _is_same(row: Row) -> bool:
    """Tell whether the mean launch of a row and its baseline is the typical one."""
    launches = (reading for one in (row.series, row.base) for reading in one.counted.values())
    return not row.adjustment.states and all(each.metric.typical_s == each.metric.value for each in launches)


def _repeats(row: Row, confidence: float) -> Repeats | None:
    """Return how many launches were repeated, whether more than the baseline's, and the overhead over all launches."""
    if row.every is None:
        return None
    series, base = row.series, row.base
    return Repeats(
        repeated=series.repeated,
        launches=series.made,
        p_value=stats.as_often_p(series.repeated, series.made, base.repeated, base.made),
        overhead=stats.estimated(stats.paired_t(row.every, confidence)),
    )


def _judgement(row: Row, pairs: RoundPairs, mean: MeanCost | None, judge: _Judge, index: int) -> stats.Judgement:
    column = _of(judge.columns, row)
    failures = judge.failures.get(index)
    if not row.info.judged:
        return stats.Judgement(verdict=Verdict.NOT_JUDGED)
    if row.cell.role is Role.SELF:
        return stats.Judgement(verdict=Verdict.NOISE_FLOOR, reason=_self_note(pairs, column))
    if row.cell.placement.oversubscribe:
        return _undecided("ranks share cores (oversubscribed), so no verdict is given")
    if judge.look.pending:
        return _undecided(judge.look.pending)
    if failures is not None and failures.more:
        reason = f"{failures.failed} of {failures.launches} launches failed, more often than the baseline's"
        return stats.Judgement(verdict=Verdict.FAILS, reason=f"{reason} (p = {failures.p_value:.1g})")
    if column.differs:
        return _undecided("the baseline differs from itself (A/A), so this column gets no verdicts")
    return _by_views(row, pairs, mean, judge, index)


def _by_views(row: Row, pairs: RoundPairs, mean: MeanCost | None, judge: _Judge, index: int) -> stats.Judgement:
    """Return the verdict on the typical launch, which must also hold over all launches and with failed ones."""
    test = judge.tests.get(index)
    column = _of(judge.columns, row)

    def verdict(views: stats.Views) -> stats.Judgement:
        return stats.verdict(
            pairs.logs,
            margin=judge.study.margin,
            confidence=judge.confidence,
            adjusted=test.confidence if test else judge.level(1.0 - judge.confidence),
            equivalence=1.0 - 2.0 * (1.0 - judge.confidence) * judge.look.share,
            views=views,
            floor=column.floor,
        )

    judgement = verdict(row.views)
    if judgement.verdict is Verdict.INCONCLUSIVE and row.views.equal:
        alone = verdict(stats.Views())
        if alone.verdict is not Verdict.INCONCLUSIVE:
            failed = row.series.failed or row.base.failed
            condition = "failed launches count at their time limit" if failed else "repeated launches count"
            return replace(judgement, reason=f"{alone.verdict.value}, but not if {condition}")
    if judgement.verdict is Verdict.NO_COST and mean is not None and mean.significant and mean.overhead.low > 0:
        return replace(
            judgement,
            verdict=Verdict.INCONCLUSIVE,
            within=None,
            reason=f"no cost to the typical launch, but the mean is {_percent(mean.overhead.value)} "
            f"[{100 * mean.overhead.low:.2g}, {100 * mean.overhead.high:.2g}] higher",
        )
    return judgement


def _undecided(reason: str) -> stats.Judgement:
    return stats.Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason)


def _self_note(pairs: RoundPairs, column: _Column) -> str:
    if stats.paired_t(pairs.logs, 0.95) is None:
        return f"{pairs.logs.n} rounds: no interval yet"
    return "the baseline differs from itself" if column.differs else ""


def _normality_note(pairs: RoundPairs) -> str:
    """Return a note with a rank-based test if the log ratios do not look normal; the verdict does not depend on it."""
    d = pairs.log_ratios
    shapiro = stats.normality_p(d) if d.size >= stats.MIN_ROUNDS else None
    if shapiro is None or shapiro >= NOT_NORMAL:
        return ""
    ranks = stats.signed_rank_p(d)
    tail = "" if ranks is None else f"; Wilcoxon's signed-rank test: p = {ranks:.2g}"
    return f"log ratios do not look normal (Shapiro-Wilk p = {shapiro:.1g}){tail}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
