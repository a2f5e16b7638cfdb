"""State in one sentence what a plot shows. Values come from the summary, or are quantiles of the plotted data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tare.analysis.stats.resampling import quantiles
from tare.model import Comparison, Pattern, PatternKind, Summary, Verdict
from tare.report import units
from tare.report.plots.histograms import Curve
from tare.report.view import MetricColumn


def overhead(column: MetricColumn, rows: Sequence[str], summary: Summary) -> str:
    """State the environment that costs most, and how many show no cost."""
    references = (summary.baseline, summary.self_name)
    cells = [cell for name in rows if (cell := column.cells.get(name)) and name not in references]
    judged = [cell for cell in cells if cell.overhead]
    if not judged or column.baseline is None or column.baseline.absolute_s is None:
        return f"No environment could be compared with {summary.baseline} on {column.info.label}."
    base = column.absolute(column.baseline.absolute_s).main
    costly = [cell for cell in judged if cell.verdict is Verdict.COSTS]
    within = [cell.within or summary.margin for cell in judged if cell.verdict is Verdict.NO_COST]
    free = len(within)
    margin = units.percent(max(within, default=summary.margin), sign=False)
    rest = (
        f"{free} of {len(judged)} cost no more than {margin}" if free else f"none is shown to cost less than {margin}"
    )
    if costly:
        worst = max(costly, key=lambda cell: cell.overhead.value if cell.overhead else 0.0)
        return f"{worst.environment} costs most, {_cost(worst, column)} on {summary.baseline}'s {base}; {rest}."
    if free == len(judged):
        return f"No environment costs more than {margin} of {summary.baseline}'s {base}."
    return f"No environment is shown to cost anything on {summary.baseline}'s {base}; {rest}."


def _cost(cell: Comparison, column: MetricColumn) -> str:
    ratio = units.overhead_interval(cell.overhead).main if cell.overhead else ""
    if column.leads_with_time and cell.added_s:
        return f"{column.added(cell.added_s).main} ({ratio})"
    return f"{ratio} time per byte" if column.is_rate else ratio


def spread(column: MetricColumn, values: Mapping[str, Sequence[float]]) -> str:
    """State the smallest and the largest spread of launches within an environment."""
    widths: dict[str, float] = {}
    for name, costs in values.items():
        if len(costs) >= 4:
            low, middle, high = quantiles(np.asarray(costs), (0.25, 0.5, 0.75))
            widths[name] = (high - low) / middle if middle else 0.0
    if not widths:
        return f"Too few launches of {column.info.label} to compare their spread."
    widest = max(widths, key=lambda name: widths[name])
    least = min(widths, key=lambda name: widths[name])
    return (
        f"The interquartile range of launches is {units.percent(widths[least], sign=False)} of the median ({least}) "
        f"to {units.percent(widths[widest], sign=False)} ({widest})."
    )


def order(rounds: Iterable[Sequence[int]]) -> str:
    """State the number of launches and rounds in the plot; `rounds` are those of each environment's launches."""
    all_rounds = [number for of_row in rounds for number in of_row]
    return f"All {len(all_rounds):,} launches of {len(set(all_rounds)):,} rounds in order of execution."


def tail(column: MetricColumn, curves: Mapping[str, Curve], baseline: str, noun: str) -> str:
    """State the 99th percentile of the samples, for the baseline and for the others."""
    if not curves:
        return f"No samples of {column.info.label} were kept."
    times_s = {name: curve.at(0.99) for name, curve in curves.items()}
    return f"99 % of {noun} are within {_base_and_range(times_s, baseline)}."


def gaps(curves: Mapping[str, Curve], baseline: str) -> str:
    """State the range of 98 % of the gaps, for the baseline and for the others."""
    if not curves:
        return "No gaps were kept."
    widths = {name: curve.at(0.99) - curve.at(0.01) for name, curve in curves.items()}
    return f"98 % of gaps lie in a range of {_base_and_range(widths, baseline)}."


def _base_and_range(times_s: Mapping[str, float], baseline: str) -> str:
    others = [value for name, value in times_s.items() if name != baseline]
    base = f"{units.seconds(times_s[baseline])} on {baseline}" if baseline in times_s else ""
    if not others:
        return base
    unit = units.time_unit(min(others)) if min(others) > 0 else units.time_unit(max(others))
    low, high = (units.significant(value / unit.size) for value in (min(others), max(others)))
    reach = f"{low} {unit.suffix}" if low == high else f"{low} to {high} {unit.suffix}"
    return f"{base}, {reach} in other environments" if base else reach


def sizes(columns: Sequence[MetricColumn], rows: Sequence[str]) -> str:
    """State the environment that costs most at the smallest and at the largest message size."""
    ends: list[tuple[str, str]] = []
    for column in (columns[0], columns[-1]):
        costly = [cell for name in rows if (cell := column.cells.get(name)) and cell.verdict is Verdict.COSTS]
        worst = max(costly, key=lambda cell: cell.overhead.value if cell.overhead else 0.0, default=None)
        at = units.size(column.info.message_bytes or 0)
        ends.append((worst.environment, f"{_cost(worst, column)} at {at}") if worst else ("", at))
    (first, at_first), (last, at_last) = ends
    if first == last:
        return f"{first} costs most: {at_first}, {at_last}." if first else "No environment is shown to cost anything."
    return f"{_sentence(first, at_first)}; {_sentence(last, at_last)}."


def _sentence(name: str, cost: str) -> str:
    return f"{name} costs most, {cost}" if name else f"no environment is shown to cost anything at {cost}"


def range_of_sizes(columns: Sequence[MetricColumn]) -> str:
    """State the baseline's cost at the smallest and at the largest message size."""
    ends = [
        f"{column.absolute(cost).main} at {units.size(column.info.message_bytes or 0)}"
        for column in (columns[0], columns[-1])
        if column.baseline and (cost := column.baseline.absolute_s)
    ]
    if len(ends) < 2:
        return "Absolute values over message sizes."
    return f"The baseline ranges from {ends[0]} to {ends[1]}."


def pattern(found: Pattern, label: str, baseline: str) -> str:
    """State a pattern in one sentence."""
    change = units.percent(math.expm1(found.value), sign=True)
    match found.kind:
        case PatternKind.DRIFT if not found.environment:
            return f"All environments drift together on {label}: {change} from the first to the last launch."
        case PatternKind.DRIFT:
            return (
                f"The cost of {found.environment} on {label} drifts against {baseline}: {change} from the first to "
                "the last round."
            )
        case PatternKind.TAIL:
            longer = "longer" if found.value > 0 else "shorter"
            return (
                f"{found.environment} has a {longer} tail than {baseline} on {label}: the 99th percentile, as a "
                f"multiple of the median, differs by {change}."
            )
        case PatternKind.WARM_UP:
            return (
                f"Warm-up is not over on {found.environment}, {label}: the first tenth of iterations takes {change} "
                "against the others; ask for more warm-up iterations."
            )
        case PatternKind.DEPENDENCE:
            return (
                f"Iterations on {found.environment}, {label}, depend on the one before (correlation "
                f"{found.value:.2f}); verdicts compare launches and do not assume independence."
            )
