"""The table of comparisons: each environment against the baseline on each metric, the baseline's own values included.

Every ratio stands beside the baseline's absolute value, and every estimate has its interval and its number of rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tare.model import Cell, Comparison, Estimate, FailureRate, MeanCost, MetricInfo, Summary, Verdict
from tare.report.frames.cells import NOT_RUN
from tare.report.frames.columns import CELL, Columns, Row, Table, count, estimate, number, text, truth, values_of
from tare.report.frames.source import Source, row_name


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """A comparison with its cell, its metric and the baseline's comparison; `info` is None if no metric is known."""

    summary: Summary
    cell: Cell
    comparison: Comparison
    info: MetricInfo | None
    base: Comparison | None

    @property
    def environment(self) -> str:
        """Return the name of the row."""
        return self.comparison.environment

    @property
    def rate(self) -> Estimate | None:
        """Return the rate of the typical launch."""
        return self._rate(self.comparison.absolute_s)

    @property
    def mean(self) -> MeanCost | None:
        """Return the cost of the mean launch."""
        return self.comparison.mean

    @property
    def failures(self) -> FailureRate | None:
        """Return how many launches failed."""
        return self.comparison.failures

    @property
    def base_rate(self) -> Estimate | None:
        """Return the rate of the baseline's typical launch."""
        return self._rate(self.base.absolute_s if self.base else None)

    def _rate(self, cost: Estimate | None) -> Estimate | None:
        info = self.info
        if cost is None or info is None or not info.is_rate or min(cost.value, cost.low, cost.high) <= 0:
            return None
        return cost.per(info.done_per_sample)


COLUMNS: Final[Columns[CellComparison]] = {
    **CELL,
    text("baseline", "environment that it is compared with"): lambda c: c.summary.baseline,
    text("metric", "key of the metric; missing if no launch of the group has reported one"): lambda c: (
        c.info and c.info.key
    ),
    text("label", "name of the metric in reports"): lambda c: c.info and c.info.label,
    text("kind", "`cost` or `rate`"): lambda c: c.info and c.info.kind.value,
    text("statistic", "how the mean's cost is computed from the samples"): lambda c: c.info and c.info.statistic,
    count("message_bytes", "bytes per rank and operation", "B"): lambda c: c.info and c.info.message_bytes,
    text("verdict", "verdict on the typical launch"): lambda c: c.comparison.verdict.value,
    number("within", "fraction", "margin for which `no cost` is shown"): lambda c: c.comparison.within,
    text("reason", "reason of the verdict, or why there is none"): lambda c: c.comparison.reason,
    truth("over_limit", "whether the mean's overhead is above the study's limit"): lambda c: c.comparison.over_limit,
    number("limit", "fraction", "limit of the study; missing if it states none"): lambda c: c.summary.limit,
    number("margin", "fraction", "margin of the study"): lambda c: c.summary.margin,
    number("confidence", "fraction", "confidence of the intervals"): lambda c: c.summary.confidence,
    **estimate(
        "overhead",
        "fraction",
        "overhead of the typical launch, geometric mean over rounds; + is slower",
        lambda c: c.comparison.overhead,
    ),
    **estimate(
        "adjusted_overhead",
        "fraction",
        "the same with the adjusted interval, which decides the verdict",
        lambda c: c.comparison.simultaneous,
    ),
    number("at_most", "fraction", "upper bound of `overhead`, one-sided, 95 %; 0 for a gain"): lambda c: (
        c.comparison.at_most
    ),
    **estimate(
        "added_s",
        "s",
        "added time of the typical launch, arithmetic mean over rounds",
        lambda c: c.comparison.added_s,
    ),
    **estimate("cost_s", "s", "cost of the typical launch", lambda c: c.comparison.absolute_s),
    **estimate(
        "base_cost_s", "s", "cost of the baseline's typical launch", lambda c: c.base.absolute_s if c.base else None
    ),
    **estimate("rate", "`rate_unit`", "rate of the typical launch, if the metric is a rate", lambda c: c.rate),
    **estimate("base_rate", "`rate_unit`", "rate of the baseline's typical launch", lambda c: c.base_rate),
    text("rate_unit", "unit of the rates"): lambda c: c.info.rate_unit if c.info and c.rate else None,
    **estimate(
        "median_ratio",
        "1",
        "ratio of the medians, 1 = equal, with its BCa bootstrap interval",
        lambda c: c.comparison.median_ratio,
    ),
    **estimate(
        "mean_overhead",
        "fraction",
        "overhead of the mean, which programs pay; `limit` refers to it",
        lambda c: c.mean.overhead if c.mean else None,
    ),
    number("mean_at_most", "fraction", "upper bound of `mean_overhead`, one-sided, 95 %; 0 for a gain"): lambda c: (
        c.mean and c.mean.at_most
    ),
    truth(
        "mean_significant", "whether the adjusted interval of `mean_overhead` excludes zero; of A/A: if it differs"
    ): lambda c: c.mean and c.mean.significant,
    **estimate("mean_cost_s", "s", "mean cost", lambda c: c.comparison.mean_absolute_s),
    **estimate(
        "base_mean_cost_s", "s", "mean cost of the baseline", lambda c: c.base.mean_absolute_s if c.base else None
    ),
    **estimate("loop_s", "s", "mean of back-to-back operations, as in IMB", lambda c: c.comparison.loop_s),
    **estimate("base_loop_s", "s", "the same of the baseline", lambda c: c.base.loop_s if c.base else None),
    number("median_s", "s", "median of the iterations"): lambda c: c.comparison.median_s,
    number("p99_s", "s", "99th percentile of the iterations"): lambda c: c.comparison.p99_s,
    count("launches", "launches of which failures are counted"): lambda c: c.failures and c.failures.launches,
    count("failed", "launches that failed or timed out"): lambda c: c.failures and c.failures.failed,
    number("failed_share_low", "fraction", "lower end of the 95 % interval of the share that fails"): lambda c: (
        c.failures and c.failures.low
    ),
    number("failed_share_high", "fraction", "upper end of the 95 % interval of the share that fails"): lambda c: (
        c.failures and c.failures.high
    ),
    count("repeated", "launches that were repeated because of the machine's state"): lambda c: (
        c.comparison.repeats and c.comparison.repeats.repeated
    ),
    number("p_value", "1", "p value of the difference"): lambda c: c.comparison.p_value,
    number("p_holm", "1", "p value, adjusted for the table (Holm)"): lambda c: c.comparison.p_holm,
    number(
        "misses", "fraction", "largest share of launches with a cost that these rounds may all have missed"
    ): lambda c: c.comparison.misses,
    count("more_rounds", "rounds that a verdict still needs, estimated"): lambda c: c.comparison.more_rounds,
}

TEXTS: Final = (
    text("causes", "causes that `tare explain` names, then mechanisms seen in launches, with their remedies"),
    text("unproven", "what is not proven of the treatment"),
)
"""Columns whose texts are collected over the whole report."""


def cell_comparisons(source: Source) -> Iterator[CellComparison]:
    """Yield the comparisons of a report in its order, then a row for each planned cell that has none."""
    summary = source.summary
    infos = {(info.group, info.key): info for info in summary.metrics}
    cells = {(cell.group, row_name(cell, source.own_name)): cell for cell in summary.cells}
    bases = {(item.group, item.metric): item for item in summary.comparisons if item.environment == summary.baseline}
    seen = set[str]()
    for item in summary.comparisons:
        cell = cells[item.group, item.environment]
        seen.add(cell.key)
        yield CellComparison(
            summary=summary,
            cell=cell,
            comparison=item,
            info=infos.get((item.group, item.metric)),
            base=bases.get((item.group, item.metric)),
        )
    for (group, name), cell in cells.items():
        if cell.key not in seen:
            reason = summary.unavailable.get(cell.key, "")
            verdict = Verdict.UNAVAILABLE if reason else Verdict.INCONCLUSIVE
            none = Comparison(metric="", environment=name, group=group, verdict=verdict, reason=reason or NOT_RUN)
            yield CellComparison(summary=summary, cell=cell, comparison=none, info=None, base=None)


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in the order of the report."""
    summary = source.summary
    causes, gaps = _texts(summary)
    for each in cell_comparisons(source):
        place = each.cell.group, each.environment
        of_cell = "; ".join(filter(None, (*_proven_causes(each, summary), causes.get(place, ""))))
        yield (*values_of(COLUMNS, each), of_cell, gaps.get(place, ""))


def _texts(summary: Summary) -> tuple[Mapping[tuple[str, str], str], Mapping[tuple[str, str], str]]:
    """Return the causes and the gaps in the proof of each cell, as texts."""
    causes: dict[tuple[str, str], list[str]] = {}
    for finding in summary.findings:
        causes.setdefault((finding.group, finding.environment), []).append(f"{finding.kind}: {finding.text}")
    gaps: dict[tuple[str, str], list[str]] = {}
    for gap in summary.proof_gaps:
        gaps.setdefault((gap.group, gap.environment), []).append(gap.text)
    return {key: "; ".join(texts) for key, texts in causes.items()}, {k: "; ".join(texts) for k, texts in gaps.items()}


def _proven_causes(each: CellComparison, summary: Summary) -> Iterator[str]:
    """Yield what `tare explain` names as causes, each with the share that it explains, if that was measured."""
    item = each.comparison
    for cause in summary.causes:
        if (cause.group, cause.environment) == (item.group, item.environment) and item.metric in cause.metrics:
            share = cause.share
            told = f", share {share.value:.2f} [{share.low:.2f}, {share.high:.2f}], n = {share.n}" if share else ""
            yield f"{cause.words} ({'proven' if cause.proven else 'not proven'}{told}): {cause.remedy}"


TABLE: Final = Table(
    name="comparisons",
    meaning="One row per environment and metric, also of the baseline and A/A; a cell without metrics has one row.",
    columns=(*COLUMNS, *TEXTS),
    rows=rows,
)
