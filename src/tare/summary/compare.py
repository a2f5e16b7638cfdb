"""Compare every planned cell with the baseline of its group, metric by metric, as one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

import numpy as np

from tare import stats
from tare.model import (
    Cell,
    Comparison,
    Completed,
    Estimate,
    Failed,
    Interrupted,
    Invalid,
    Metric,
    MetricInfo,
    MetricKind,
    Plan,
    Role,
    Study,
    Trial,
    Unavailable,
    Verdict,
)
from tare.stats import Block, RoundPairs
from tare.summary.select import Selection

SELF_SUFFIX: Final = " (A/A)"
NOT_NORMAL: Final = 0.01
"""p of the normality test below which the rank-based test is reported beside the verdict (rule of metrics 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of one cell over its trials: what is valid by block, and what is not.

    `trials` counts the trials that count (one per whole block), `bad` those without a figure, `reason` says of those
    how many, of how many, and why the first.
    """

    metrics: Mapping[Block, Metric] = field(default_factory=dict)
    trials: int = 0
    bad: int = 0
    reason: str = ""
    unavailable: str = ""

    @property
    def invalid(self) -> bool:
        """Tell whether no trial is valid, or half of them or more are not."""
        return self.trials > 0 and (not self.metrics or 2 * self.bad >= self.trials)

    @property
    def costs_s(self) -> dict[Block, float]:
        """Return the valid costs by block."""
        return {block: metric.value for block, metric in self.metrics.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One planned (cell, metric) before it is judged. `pairs` is absent where nothing can be compared.

    `blocked` is the verdict, with its reason, of a row that has no figures.
    """

    cell: Cell
    info: MetricInfo
    name: str
    series: Series
    pairs: RoundPairs | None = None
    blocked: tuple[Verdict, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adjustment:
    """What the table as a whole says about one of its comparisons."""

    p_value: float
    p_holm: float
    confidence: float
    over_limit: bool


# --- rows and columns -------------------------------------------------------------------------------------------


def metric_infos(plan: Plan, selection: Selection) -> tuple[MetricInfo, ...]:
    """Return the columns: per group, in the order of the plan, every metric that a trial that counts has.

    A group of which nothing completed keeps one column a kernel (or one for its workload), so that its cells are
    listed with their reasons all the same (rule of metrics 2).
    """
    infos: dict[tuple[str, str], MetricInfo] = {}
    for cell in plan.cells:
        for trial in selection.trials[cell.key].values():
            for metric in trial.outcome.metrics if isinstance(trial.outcome, Completed) else ():
                infos.setdefault((cell.group, metric.key), _info(metric, cell.group))
    for cell in plan.cells:
        if all(group != cell.group for group, _ in infos):
            tokens = [kernel.token for kernel in cell.workload.kernels] or [cell.workload.name]
            infos |= {(cell.group, token): _planned_info(token, cell.group) for token in tokens}
    order = list(dict.fromkeys(cell.group for cell in plan.cells))
    return tuple(sorted(infos.values(), key=lambda info: order.index(info.group)))


def _info(metric: Metric, group: str) -> MetricInfo:
    return MetricInfo(
        key=metric.key,
        label=metric.label,
        kind=metric.kind,
        statistic=metric.statistic,
        group=group,
        message_bytes=metric.message_bytes,
        done_per_sample=metric.done_per_sample,
        rate_unit=metric.rate_unit,
        added_first=metric.added_first,
    )


def _planned_info(token: str, group: str) -> MetricInfo:
    return MetricInfo(key=token, label=token, kind=MetricKind.COST, statistic="no trial completed", group=group)


def self_name(plan: Plan) -> str:
    """Return the name of the A/A row, "" without one; never that of the baseline's."""
    for cell in plan.cells:
        if cell.role is Role.SELF:
            name = cell.environment.name
            return f"{name}{SELF_SUFFIX}" if name == plan.study.baseline else name
    return ""


def rows(plan: Plan, selection: Selection, infos: Sequence[MetricInfo]) -> tuple[Row, ...]:
    """Return one row per planned (environment, metric): the baseline first, then A/A, then as the plan lists them."""
    rank = {Role.BASELINE: 0, Role.SELF: 1, Role.ENVIRONMENT: 2}
    names = {cell.key: self_name(plan) if cell.role is Role.SELF else cell.environment.name for cell in plan.cells}
    first = {name: index for index, name in reversed(list(enumerate(names.values())))}
    cells = sorted(plan.cells, key=lambda cell: (rank[cell.role], first[names[cell.key]]))
    baselines = {cell.group: cell for cell in plan.cells if cell.role is Role.BASELINE}
    by_key = {
        (cell.key, info.key): _series(selection.trials[cell.key], info.key)
        for info in infos
        for cell in plan.cells
        if cell.group == info.group
    }
    result = []
    for cell in cells:
        for info in infos:
            if info.group == cell.group:
                base = baselines.get(cell.group)
                result.append(
                    _row(
                        Row(cell=cell, info=info, name=names[cell.key], series=by_key[cell.key, info.key]),
                        base,
                        by_key[base.key, info.key] if base else Series(),
                        plan.unavailable,
                    )
                )
    return tuple(result)


def _series(trials: Mapping[Block, Trial], key: str) -> Series:
    metrics: dict[Block, Metric] = {}
    reasons: list[tuple[str, str]] = []
    unavailable: list[str] = []
    for block, trial in trials.items():
        read = _read(trial, key)
        if isinstance(read, Metric):
            metrics[block] = read
            continue
        reasons.append(read)
        if isinstance(trial.outcome, Unavailable):
            unavailable.append(trial.outcome.reason)
    text = ""
    if reasons:
        words = " or ".join(dict.fromkeys(word for word, _ in reasons))
        text = f"{len(reasons)} of {len(trials)} trials {words}: {reasons[0][1]}"
    gone = unavailable[0] if unavailable and len(unavailable) == len(trials) else ""
    return Series(metrics=metrics, trials=len(trials), bad=len(reasons), reason=text, unavailable=gone)


def _read(trial: Trial, key: str) -> Metric | tuple[str, str]:
    """Return a trial's metric, or one word and one reason why there is no such figure."""
    match trial.outcome:
        case Completed(metrics=metrics):
            for metric in metrics:
                if metric.key == key:
                    if math.isfinite(metric.value) and metric.value > 0:
                        return metric
                    return "invalid", f"a cost of {metric.value:g} s: not positive, the timer did not resolve it"
            return "invalid", "the trial has no such figure"
        case Failed(reason=reason):
            return "failed", reason
        case Invalid(reason=reason):
            return "invalid", reason
        case Unavailable(reason=reason):
            return "unavailable", reason
        case Interrupted(reason=reason):
            return "interrupted", reason
        case _ as never:
            assert_never(never)


def _row(row: Row, base: Cell | None, base_series: Series, unavailable: Mapping[str, str]) -> Row:
    """Return the row with its pairs, or with what keeps it from having any."""
    blocked = _blocked(row.cell, row.series, unavailable)
    pairs = None
    if row.cell.role is not Role.BASELINE and blocked is None:
        if base is None:
            blocked = Verdict.UNAVAILABLE, "no baseline is planned for it"
        elif held := _blocked(base, base_series, unavailable):
            blocked = held[0], f"the baseline {base.environment.name} is {held[0].value}: {held[1]}"
        else:
            pairs = stats.pair_rounds(row.series.costs_s, base_series.costs_s)
    return Row(cell=row.cell, info=row.info, name=row.name, series=row.series, pairs=pairs, blocked=blocked)


def _blocked(cell: Cell, series: Series, unavailable: Mapping[str, str]) -> tuple[Verdict, str] | None:
    if cell.key in unavailable:
        return Verdict.UNAVAILABLE, unavailable[cell.key]
    if series.unavailable:
        return Verdict.UNAVAILABLE, series.unavailable
    return (Verdict.INVALID, series.reason) if series.invalid else None


# --- the table --------------------------------------------------------------------------------------------------


def comparisons(plan: Plan, selection: Selection, table: Sequence[Row]) -> tuple[Comparison, ...]:
    """Judge every row; Holm runs over all comparisons of the table, the A/A's among them."""
    study = plan.study
    confidence = study.repetition.confidence
    adjustments = _adjust(table, stats.decision_confidence(study.repetition), study.limit)
    floors = _noise_floors(table, confidence)
    result = []
    for index, row in enumerate(table):
        plain = _plain(row, confidence, selection.reruns.get(row.cell.key, 0))
        if row.pairs is None:
            result.append(plain)
            continue
        floor = floors.get((row.info.group, row.info.key)) if row.cell.role is Role.ENVIRONMENT else None
        result.append(_judged(plain, row, row.pairs, plan, adjustments.get(index), floor))
    return tuple(result)


def _adjust(table: Sequence[Row], confidence: float, limit: float | None) -> dict[int, _Adjustment]:
    """Return for the rows that have a p value what Holm makes of them; the limit is tested for environments only."""
    p_values = {
        index: p
        for index, row in enumerate(table)
        if row.pairs is not None and (p := stats.paired_p(row.pairs.log_ratios)) is not None
    }
    limited = [index for index in p_values if limit is not None and table[index].cell.role is Role.ENVIRONMENT]
    series = [pairs.log_ratios for index in limited if (pairs := table[index].pairs) is not None]
    over = dict(zip(limited, stats.over_limit(series, limit or 0.0, confidence), strict=True))
    ordered = list(p_values.values())
    return {
        index: _Adjustment(p_value=p, p_holm=p_holm, confidence=level, over_limit=over.get(index, False))
        for (index, p), p_holm, level in zip(
            p_values.items(), stats.holm(ordered), stats.holm_confidences(ordered, confidence), strict=True
        )
    }


def _noise_floors(table: Sequence[Row], confidence: float) -> dict[tuple[str, str], float]:
    floors: dict[tuple[str, str], float] = {}
    for row in table:
        if row.cell.role is Role.SELF and row.pairs is not None:
            estimate = stats.paired_t(row.pairs.log_ratios, confidence)
            floor = stats.noise_floor([estimate] if estimate else [])
            if floor is not None:
                floors[row.info.group, row.info.key] = floor
    return floors


def _plain(row: Row, confidence: float, reruns: int) -> Comparison:
    """Return what a row says by itself: its launches, its absolute cost, and why it is not compared if it is not."""
    blocks = sorted(row.series.metrics)
    metrics = [row.series.metrics[block] for block in blocks]
    values = [metric.value for metric in metrics]
    absolute: Estimate | None = None
    if row.blocked is None:
        absolute = stats.mean_interval(stats.round_means([block[0] for block in blocks], values)[1], confidence)
    if row.blocked is not None:
        verdict, reason = row.blocked
    else:
        verdict = Verdict.BASELINE
        reason = _join("" if row.series.trials else "no whole block yet", row.series.reason)
    return Comparison(
        metric=row.info.key,
        environment=row.name,
        group=row.info.group,
        verdict=verdict,
        reason=reason,
        absolute_s=absolute,
        rounds=tuple(block[0] for block in blocks),
        values_s=tuple(values),
        median_s=float(np.median([metric.median_s for metric in metrics])) if metrics else None,
        p99_s=float(np.median([metric.p99_s for metric in metrics])) if metrics else None,
        reruns=reruns,
    )


def _judged(
    plain: Comparison, row: Row, pairs: RoundPairs, plan: Plan, adjustment: _Adjustment | None, floor: float | None
) -> Comparison:
    """Return the row with its estimates and its verdict."""
    study, d = plan.study, pairs.log_ratios
    confidence = study.repetition.confidence
    adjusted = adjustment.confidence if adjustment else stats.decision_confidence(study.repetition)
    overhead, simultaneous = stats.paired_t(d, confidence), stats.paired_t(d, adjusted)
    judgement = _judge(row, pairs, study, adjusted)
    over = adjustment is not None and adjustment.over_limit and not row.cell.placement.oversubscribe
    return Comparison(
        metric=plain.metric,
        environment=plain.environment,
        group=plain.group,
        verdict=judgement.verdict,
        reason=_join(
            judgement.reason,
            f"beyond the limit of {_percent(study.limit or 0.0)}" if over else "",
            _floor_note(judgement.verdict, overhead, floor),
            _normality_note(pairs),
            row.series.reason,
        ),
        overhead=overhead,
        simultaneous=simultaneous,
        added_s=stats.paired_difference(pairs.environment_s, pairs.baseline_s, confidence),
        median_ratio=stats.bca_ratio_of_medians(pairs.environment_s, pairs.baseline_s, confidence, study.seed),
        absolute_s=plain.absolute_s,
        p_value=adjustment.p_value if adjustment else None,
        p_holm=adjustment.p_holm if adjustment else None,
        more_rounds=judgement.more_rounds,
        rounds=plain.rounds,
        values_s=plain.values_s,
        median_s=plain.median_s,
        p99_s=plain.p99_s,
        dip_p_value=stats.dip_p_value(d),
        reruns=plain.reruns,
        over_limit=over,
    )


def _judge(row: Row, pairs: RoundPairs, study: Study, adjusted: float) -> stats.Judgement:
    d = pairs.log_ratios
    if row.cell.role is Role.SELF:
        simultaneous = stats.paired_t(d, adjusted)
        if simultaneous is None:
            return stats.Judgement(verdict=Verdict.NOISE_FLOOR, reason=f"{d.size} rounds: no interval yet")
        covers = simultaneous.low <= 0 <= simultaneous.high
        return stats.Judgement(verdict=Verdict.NOISE_FLOOR, reason="" if covers else "the baseline differs from itself")
    if row.cell.placement.oversubscribe:
        reason = "ranks share cores (oversubscribed), so no verdict is given"
        return stats.Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason)
    return stats.verdict(
        d,
        margin=study.margin,
        confidence=study.repetition.confidence,
        adjusted=adjusted,
        equivalence=stats.decision_confidence(study.repetition, 0.90),
    )


def _floor_note(verdict: Verdict, overhead: Estimate | None, floor: float | None) -> str:
    if (
        verdict not in {Verdict.COSTS, Verdict.GAINS}
        or overhead is None
        or floor is None
        or abs(overhead.value) > floor
    ):
        return ""
    return f"not larger than the noise floor of {_percent(floor)}"


def _normality_note(pairs: RoundPairs) -> str:
    """Say what a rank-based test finds where the log ratios do not look normal; the verdict does not depend on it."""
    d = pairs.log_ratios
    shapiro = stats.normality_p(d) if d.size >= stats.MIN_ROUNDS else None
    if shapiro is None or shapiro >= NOT_NORMAL:
        return ""
    ranks = stats.signed_rank_p(d)
    tail = "" if ranks is None else f"; by ranks (Wilcoxon) p = {ranks:.2g}"
    return f"log ratios do not look normal (Shapiro-Wilk p = {shapiro:.1g}){tail}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
