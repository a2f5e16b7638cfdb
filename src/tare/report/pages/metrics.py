"""Build the HTML report's page of each metric: its plots and its table of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare.model import Comparison, Estimate, Pattern, Summary
from tare.report import remarks, units
from tare.report.cells import percent_up
from tare.report.frames.source import NumberedTrial
from tare.report.plots import launches, overhead, patterns, samples
from tare.report.plots.figures import Drawing
from tare.report.plots.histograms import MetricSamples
from tare.report.plots.styles import Style
from tare.report.verdicts import mark
from tare.report.view import MetricColumn, TableGroup, first_screen


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesRow:
    """A row of a metric's table of values: the verdict's symbol, the number of rounds, and the values by column."""

    mark: str
    n: str
    figures: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPage:
    """The plots and the table of values of one metric."""

    column: MetricColumn
    figures: tuple[Drawing, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, Comparison, ValuesRow], ...]
    states: tuple[str, ...]
    open: bool


def metric_page(
    column: MetricColumn,
    group: TableGroup,
    summary: Summary,
    runs: Sequence[NumberedTrial],
    sampled: MetricSamples,
    found: Sequence[Pattern],
    style: Mapping[str, Style],
) -> MetricPage:
    """Return the page of one metric; `found` is what the order of iterations shows in its group."""
    plotted = launches.points(column, group.rows, runs)
    figures = (
        overhead.forest(column, group.rows, summary),
        *launches.figures(column, plotted, style),
        *patterns.of_launches(column, summary, runs, plotted, style),
        *samples.figures(column, sampled, style, summary.baseline),
        *patterns.of_iterations(column, found, sampled.mains, style),
    )
    values = _values(column, group)
    filled = {name for _, _, row in values for name, text in row.figures.items() if text}
    names = values[0][2].figures if values else ()
    return MetricPage(
        column=column,
        figures=tuple(figure.drawn() for figure in figures),
        columns=tuple(name for name in names if name in filled),
        values=values,
        states=remarks.state_texts(column, summary),
        open=column in first_screen(group.columns),
    )


def _values(column: MetricColumn, group: TableGroup) -> tuple[tuple[str, Comparison, ValuesRow], ...]:
    rows = ((name, column.cells.get(name)) for name in group.rows)
    return tuple((name, cell, _value_texts(column, cell)) for name, cell in rows if cell is not None)


def _p99(cell: Comparison) -> str:
    """Return the median of the launches' 99th percentiles with its interval, "" if there are too few for one."""
    if cell.p99_s is None or cell.p99_interval_s is None:
        return ""
    low, high = cell.p99_interval_s
    return str(units.time_interval(Estimate(value=cell.p99_s, low=low, high=high, n=len(cell.rounds))))


def _value_texts(column: MetricColumn, cell: Comparison) -> ValuesRow:
    """Return the texts of one row; the table omits columns that are empty in all rows."""

    def absolute(cost: Estimate | None) -> str:
        return "" if cost is None else str(column.absolute(cost))

    def overhead(ratio: Estimate | None) -> str:
        return "" if ratio is None else str(units.overhead_interval(ratio))

    def bound(most: float | None) -> str:
        return "" if most is None else percent_up(most)

    figures = {
        "typical": absolute(cell.absolute_s),
        "mean": absolute(cell.mean_absolute_s),
        "loop (back to back)": absolute(cell.loop_s),
        "p99": _p99(cell),
        "added": str(column.added(cell.added_s)) if cell.added_s else "",
        "overhead": overhead(cell.overhead),
        "adjusted interval": units.overhead_interval(cell.simultaneous).bounds if cell.simultaneous else "",
        "at most (one-sided)": bound(cell.at_most),
        "mean overhead": overhead(cell.mean.overhead) if cell.mean else "",
        "mean at most (one-sided)": bound(cell.mean.at_most) if cell.mean else "",
        "ratio of medians (BCa)": units.ratio_interval(cell.median_ratio) if cell.median_ratio else "",
        "p (Holm)": units.p_value(cell.p_holm) if cell.p_holm is not None else "",
        "overhead over all launches": overhead(cell.repeats.overhead) if cell.repeats and cell.repeats.repeated else "",
    }
    return ValuesRow(
        mark=mark(cell.verdict, cell.within),
        n=str(cell.absolute_s.n) if cell.absolute_s else "",
        figures=figures,
    )
