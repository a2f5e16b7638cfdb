"""The rows of the table: a planned cell and a metric, paired with the baseline of its group, not yet judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tare.analysis import stats
from tare.analysis.stats import Block, RoundPairs
from tare.analysis.summary.costs import Costs, CostTable
from tare.analysis.summary.select import Selection, metric_infos, select
from tare.analysis.summary.series import Series, series_of
from tare.analysis.summary.state import NOTHING, Adjustment, Cost, StatesOfTrials, Values, adjustment_of, difference
from tare.analysis.summary.work import other_work
from tare.model import Cell, MetricInfo, Plan, Role, Trial, Verdict

SELF_SUFFIX: Final = " (A/A)"
Reasons = tuple[Mapping[str, str], Mapping[str, str]]
"""Why cells are unavailable, and why they did other work than the baseline, by their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One planned (cell, metric) before it is judged.

    `costs_s` are the typical costs of the launches that count, adjusted for the machine's state by `adjustment`.
    `pairs` are of them, `means` of the mean launch, as measured. Both are None if nothing can be compared. `views` are
    further pairings with which a verdict must hold. `every` is the log ratio over all launches if some were repeated.
    `blocked` is the verdict of a row without figures, with its reason.
    """

    cell: Cell
    info: MetricInfo
    name: str
    series: Series
    base: Series = field(default_factory=Series)
    adjustment: Adjustment = NOTHING
    costs_s: Mapping[Block, float] = field(default_factory=dict)
    note: str = ""
    pairs: RoundPairs | None = None
    means: RoundPairs | None = None
    every: stats.FloatArray | None = None
    views: stats.Views = field(default_factory=stats.Views)
    blocked: tuple[Verdict, str] | None = None

    @property
    def column(self) -> tuple[str, str]:
        """Return its column: group and metric."""
        return self.info.group, self.info.key

    @property
    def costs(self) -> Costs:
        """Return the costs of the launches that count, in the order of their blocks."""
        blocks = sorted(self.series.counted)
        return Costs(
            rounds=tuple(block[0] for block in blocks),
            values_s=tuple(self.costs_s[block] for block in blocks),
            means_s=tuple(self.series.counted[block].metric.value for block in blocks),
        )


class PairedRows(NamedTuple):
    """The trials of a study that count, its columns, and its rows, paired by round."""

    selection: Selection
    infos: tuple[MetricInfo, ...]
    rows: tuple[Row, ...]

    @property
    def costs(self) -> CostTable:
        """Return what the launches of each row cost."""
        return {(row.info.group, row.name, row.info.key): row.costs for row in self.rows}


def paired_rows(plan: Plan, trials: Sequence[Trial]) -> PairedRows:
    """Return the table of a study, not yet judged."""
    selection = select(plan, trials)
    infos = metric_infos(plan, selection)
    return PairedRows(selection, infos, rows(plan, selection, infos))


def self_name(plan: Plan) -> str:
    """Return the name of the A/A row, "" if there is none; it always differs from the baseline's name."""
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
    of_group: dict[str, list[Cell]] = {info.group: [] for info in infos}
    infos_of: dict[str, list[MetricInfo]] = {}
    for cell in cells:
        of_group.setdefault(cell.group, []).append(cell)
    for info in infos:
        infos_of.setdefault(info.group, []).append(info)
    by_key = {
        (cell.key, info.key): series_of(selection, cell.key, info.key)
        for info in infos
        for cell in of_group[info.group]
    }
    states: StatesOfTrials = {}
    others = other_work(plan, selection)
    adjustments = {
        (info.group, info.key): adjustment_of(
            info.group, info.key, [by_key[cell.key, info.key] for cell in of_group[info.group]], states
        )
        for info in infos
    }
    baselines = {cell.group: cell for cell in plan.cells if cell.role is Role.BASELINE}
    comparisons = sum(len(of_group[info.group]) - 1 for info in infos)
    adjusted = {
        (cell.key, info.key): _adjusted(by_key[cell.key, info.key], adjustments[info.group, info.key])
        for info in infos
        for cell in of_group[info.group]
    }
    result = []
    for cell in cells:
        base = baselines.get(cell.group)
        for info in infos_of.get(cell.group, ()):
            row = Row(
                cell=cell,
                info=info,
                name=names[cell.key],
                series=by_key[cell.key, info.key],
                base=by_key[base.key, info.key] if base else Series(),
            )
            own, other = adjusted[cell.key, info.key], adjusted[base.key, info.key] if base else _Adjusted()
            result.append(_paired(row, base, (plan.unavailable, others), own, other, comparisons))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Adjusted:
    """What launches of a cell that count cost in a column, by block, and the machine's states during them."""

    adjustment: Adjustment = NOTHING
    costs_s: Mapping[Block, float] = field(default_factory=dict)
    means_s: Mapping[Block, float] = field(default_factory=dict)
    states: Values = field(default_factory=dict)


def _paired(row: Row, base: Cell | None, why_not: Reasons, own: _Adjusted, other: _Adjusted, tests: int) -> Row:
    """Return the row with its pairs, or with the reason why it has none; `tests` is the number of comparisons."""
    blocked = _blocked(row.cell, row.series, *why_not)
    if row.cell.role is Role.BASELINE or blocked is not None:
        return replace(row, blocked=blocked, adjustment=own.adjustment, costs_s=own.costs_s)
    if without_base := _without_baseline(row, base, why_not[0]):
        return replace(row, blocked=without_base, costs_s=NOTHING.costs_s(row.series))
    note = _state_note(own.states, other.states, tests)
    used, costs, base_costs = own.adjustment, own.costs_s, other.costs_s
    if note:
        used, costs, base_costs = NOTHING, NOTHING.costs_s(row.series), NOTHING.costs_s(row.base)
    every = None
    if row.series.repeated or row.base.repeated:
        every = stats.all_launches(_every(row.series, used.cost_s), _every(row.base, used.cost_s))
    return replace(
        row,
        adjustment=used,
        costs_s=costs,
        note=note,
        pairs=stats.pair_rounds(costs, base_costs),
        means=stats.pair_rounds(own.means_s, other.means_s),
        every=every,
        views=_views(row, costs, base_costs, every),
    )


def _adjusted(series: Series, adjustment: Adjustment) -> _Adjusted:
    return _Adjusted(adjustment, adjustment.costs_s(series), series.means_s, adjustment.values(series))


def _every(series: Series, cost_s: Cost) -> dict[Block, list[float]]:
    return {block: [cost_s(block, reading) for reading in readings] for block, readings in series.every.items()}


def _state_note(own: Values, base: Values, tests: int) -> str:
    """Return a note if the machine's state differs between a row and its baseline, so that nothing is adjusted for.

    The environment itself may have caused the difference, so it must stay in the cost. The test has an error of
    STATE_ALPHA over the whole table (Bonferroni). A looser test would drop the adjustment where the states differ by
    chance, which is where the verdict's error rate depends on it.
    """
    for name, values in own.items():
        p_value = stats.paired_p(difference(values, base[name]))
        if p_value is not None and p_value * tests < stats.STATE_ALPHA:
            differs = f"{name} differs from the baseline's (p = {p_value:.1g})"
            return f"{differs}, so figures are not adjusted for the machine's state"
    return ""


def _views(
    row: Row, costs: Mapping[Block, float], base: Mapping[Block, float], every: stats.FloatArray | None
) -> stats.Views:
    """Return the pairings with which a verdict must hold as well: all launches, and failed ones at the time limit.

    Launches that time out are the slow ones. So "no cost" or a gain must also hold if the failed launches are as slow
    as they can have been, and a failure of the baseline must not turn into a cost of the environment.
    """
    shared = () if every is None else (every,)
    if not (row.series.failed or row.base.failed):
        return stats.Views(equal=shared, above=shared, below=shared)
    worst = dict(costs) | _at_limit(row, row.series.failed, row.base)
    base_worst = dict(base) | _at_limit(row, row.base.failed, row.series)
    both = stats.pair_rounds(worst, base_worst).log_ratios
    return stats.Views(
        equal=(*shared, both),
        above=(*shared, stats.pair_rounds(costs, base_worst).log_ratios),
        below=(*shared, stats.pair_rounds(worst, base).log_ratios),
    )


def _at_limit(row: Row, failed: Iterable[Block], other: Series) -> dict[Block, float]:
    """Return for each failed launch its cost if it had run until the time limit, from the other side's launch there."""
    limit_s = row.cell.workload.time_limit_s
    costs = {}
    for block in failed:
        if reading := other.counted.get(block):
            times = limit_s / reading.trial.elapsed_s if reading.trial.elapsed_s > 0 else 1.0
            costs[block] = reading.metric.typical_s * max(1.0, times)
    return costs


def _without_baseline(row: Row, base: Cell | None, unavailable: Mapping[str, str]) -> tuple[Verdict, str] | None:
    """Return the verdict and the reason of a row that has figures while its baseline has none."""
    if base is None:
        return Verdict.UNAVAILABLE, "no baseline is planned for this cell"
    if blocked := _blocked(base, row.base, unavailable):
        verdict, reason = blocked
        return verdict, f"the baseline {base.environment.name} is {verdict.value}: {reason}"
    return None


def _blocked(
    cell: Cell, series: Series, unavailable: Mapping[str, str], others: Mapping[str, str] = {}
) -> tuple[Verdict, str] | None:
    if cell.key in unavailable:
        return Verdict.UNAVAILABLE, unavailable[cell.key]
    if series.unavailable:
        return Verdict.UNAVAILABLE, series.unavailable
    if cell.key in others:
        return Verdict.NOT_COMPARABLE, others[cell.key]
    return (Verdict.INVALID, series.reason) if series.invalid else None
