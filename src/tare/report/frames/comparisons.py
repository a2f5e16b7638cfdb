"""The table of comparisons: each environment against the baseline on each metric, the baseline's own values included.

Every ratio stands beside the baseline's absolute value, and every estimate has its interval and its number of rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tare.model import Cell, Comparison, Estimate, MetricInfo, Summary, Verdict
from tare.report.frames.cells import NOT_RUN
from tare.report.frames.columns import Row, Table, count, estimate, estimate_values, number, text, truth
from tare.report.frames.source import Source, row_name

COLUMNS: Final = (
    text("cell", "key of the cell"),
    text("group", "cells that are compared with each other: workload and placement"),
    text("environment", "environment; the second baseline of A/A has a name of its own"),
    text("role", "`baseline`, `a/a` or `environment`"),
    text("baseline", "environment that it is compared with"),
    text("metric", "key of the metric; missing if no launch of the group has reported one"),
    text("label", "name of the metric in reports"),
    text("kind", "`cost` or `rate`"),
    text("statistic", "how the mean's cost is computed from the samples"),
    count("message_bytes", "bytes per rank and operation", "B"),
    text("verdict", "verdict on the typical launch"),
    number("within", "fraction", "margin for which `no cost` is shown"),
    text("reason", "reason of the verdict, or why there is none"),
    truth("over_limit", "whether the mean's overhead is above the study's limit"),
    number("limit", "fraction", "limit of the study; missing if it states none"),
    number("margin", "fraction", "margin of the study"),
    number("confidence", "fraction", "confidence of the intervals"),
    *estimate("overhead", "fraction", "overhead of the typical launch, geometric mean over rounds; + is slower"),
    *estimate("adjusted_overhead", "fraction", "the same with the adjusted interval, which decides the verdict"),
    number("at_most", "fraction", "upper bound of `overhead`, one-sided, 95 %; 0 for a gain"),
    *estimate("added_s", "s", "added time of the typical launch, arithmetic mean over rounds"),
    *estimate("cost_s", "s", "cost of the typical launch"),
    *estimate("base_cost_s", "s", "cost of the baseline's typical launch"),
    *estimate("rate", "`rate_unit`", "rate of the typical launch, if the metric is a rate"),
    *estimate("base_rate", "`rate_unit`", "rate of the baseline's typical launch"),
    text("rate_unit", "unit of the rates"),
    *estimate("median_ratio", "1", "ratio of the medians, 1 = equal, with its BCa bootstrap interval"),
    *estimate("mean_overhead", "fraction", "overhead of the mean, which programs pay; `limit` refers to it"),
    number("mean_at_most", "fraction", "upper bound of `mean_overhead`, one-sided, 95 %; 0 for a gain"),
    truth("mean_significant", "whether the adjusted interval of `mean_overhead` excludes zero; of A/A: if it differs"),
    *estimate("mean_cost_s", "s", "mean cost"),
    *estimate("base_mean_cost_s", "s", "mean cost of the baseline"),
    *estimate("loop_s", "s", "mean of back-to-back operations, as in IMB"),
    *estimate("base_loop_s", "s", "the same of the baseline"),
    number("median_s", "s", "median of the iterations"),
    number("p99_s", "s", "99th percentile of the iterations"),
    count("launches", "launches of which failures are counted"),
    count("failed", "launches that failed or timed out"),
    number("failed_share_low", "fraction", "lower end of the 95 % interval of the share that fails"),
    number("failed_share_high", "fraction", "upper end of the 95 % interval of the share that fails"),
    count("repeated", "launches that were repeated because of the machine's state"),
    number("p_value", "1", "p value of the difference"),
    number("p_holm", "1", "p value, adjusted for the table (Holm)"),
    number("misses", "fraction", "largest share of launches with a cost that these rounds may all have missed"),
    count("more_rounds", "rounds that a verdict still needs, estimated"),
    text("causes", "causes that `tare explain` names, then mechanisms seen in launches, with their remedies"),
    text("unproven", "what is not proven of the treatment"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """A comparison with its cell, its metric and the baseline's comparison; `info` is None if no metric is known."""

    cell: Cell
    comparison: Comparison
    info: MetricInfo | None
    base: Comparison | None

    @property
    def rate(self) -> Estimate | None:
        """Return the rate of the typical launch."""
        return self._rate(self.comparison.absolute_s)

    @property
    def base_rate(self) -> Estimate | None:
        """Return the rate of the baseline's typical launch."""
        return self._rate(self.base.absolute_s if self.base else None)

    def _rate(self, cost: Estimate | None) -> Estimate | None:
        info = self.info
        if cost is None or info is None or not info.is_rate or min(cost.value, cost.low, cost.high) <= 0:
            return None
        return cost.per(info.done_per_sample)


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
            yield CellComparison(cell=cell, comparison=none, info=None, base=None)


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in the order of the report."""
    summary = source.summary
    causes, gaps = _texts(summary)
    for each in cell_comparisons(source):
        place = each.cell.group, each.comparison.environment
        yield (
            *_identity(each, summary),
            *_typical(each),
            *_mean(each),
            *_counts(each.comparison),
            "; ".join(filter(None, (*_proven_causes(each, summary), causes.get(place, "")))),
            gaps.get(place, ""),
        )


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


def _identity(each: CellComparison, summary: Summary) -> Row:
    cell, item, info = each.cell, each.comparison, each.info
    return (
        cell.key,
        cell.group,
        item.environment,
        cell.role.value,
        summary.baseline,
        *((info.key, info.label, info.kind.value, info.statistic, info.message_bytes) if info else (None,) * 5),
        item.verdict.value,
        item.within,
        item.reason,
        item.over_limit,
        summary.limit,
        summary.margin,
        summary.confidence,
    )


def _typical(each: CellComparison) -> Row:
    item, base = each.comparison, each.base
    return (
        *estimate_values(item.overhead),
        *estimate_values(item.simultaneous),
        item.at_most,
        *estimate_values(item.added_s),
        *estimate_values(item.absolute_s),
        *estimate_values(base.absolute_s if base else None),
        *estimate_values(each.rate),
        *estimate_values(each.base_rate),
        each.info.rate_unit if each.info and each.rate else None,
        *estimate_values(item.median_ratio),
    )


def _mean(each: CellComparison) -> Row:
    item, base, mean = each.comparison, each.base, each.comparison.mean
    return (
        *estimate_values(mean.overhead if mean else None),
        mean.at_most if mean else None,
        mean.significant if mean else None,
        *estimate_values(item.mean_absolute_s),
        *estimate_values(base.mean_absolute_s if base else None),
        *estimate_values(item.loop_s),
        *estimate_values(base.loop_s if base else None),
    )


def _counts(item: Comparison) -> Row:
    failures, repeats = item.failures, item.repeats
    return (
        item.median_s,
        item.p99_s,
        *((failures.launches, failures.failed, failures.low, failures.high) if failures else (None,) * 4),
        repeats.repeated if repeats else None,
        item.p_value,
        item.p_holm,
        item.misses,
        item.more_rounds,
    )


TABLE: Final = Table(
    name="comparisons",
    meaning="One row per environment and metric, also of the baseline and A/A; a cell without metrics has one row.",
    columns=COLUMNS,
    rows=rows,
)
