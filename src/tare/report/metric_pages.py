"""Build the HTML report's page of each metric: its plots and its table of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Comparison, Estimate, Summary
from tare.report import remarks, units
from tare.report.cells import percent_up
from tare.report.plots import launches, overhead, samples
from tare.report.plots.figures import Drawing
from tare.report.plots.styles import Style
from tare.report.runs import ShownLaunch
from tare.report.samples import Histograms, columns_of, gap_columns, main_column, row_key
from tare.report.verdicts import mark
from tare.report.view import Column, TableGroup

CURVE_POINTS: Final = 240
FIGURES: Final = (
    "typical", "mean", "loop (back to back)", "p99", "added", "overhead", "adjusted interval", "at most",
    "mean overhead", "mean at most", "ratio of medians (BCa)", "p (Holm)", "overhead over all launches",
)  # fmt: skip
"""The columns of a metric's table of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesRow:
    """A row of a metric's table of values: the verdict's symbol, the number of rounds, and the values by column."""

    mark: str
    n: str
    figures: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPage:
    """The plots and the table of values of one metric."""

    column: Column
    figures: tuple[Drawing, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, Comparison, ValuesRow], ...]
    states: tuple[str, ...]
    open: bool


def metric_page(
    column: Column,
    group: TableGroup,
    summary: Summary,
    runs: Sequence[ShownLaunch],
    histograms: Histograms,
    style: Mapping[str, Style],
    is_open: bool,
) -> MetricPage:
    """Return the page of one metric; it has plots of samples if the histograms contain any."""
    points = launches.points(column, group.rows, runs)
    figures = [
        overhead.forest(column, group.rows, summary),
        launches.launches(column, group.rows, points, style),
        launches.order(column, points, style),
        *_sample_figures(column, group, summary, histograms, style),
    ]
    values = _values(column, group)
    filled = {name for _, _, row in values for name, text in row.figures.items() if text}
    return MetricPage(
        column=column,
        figures=tuple(figures),
        columns=tuple(name for name in FIGURES if name in filled),
        values=values,
        states=remarks.state_texts(column, summary),
        open=is_open,
    )


def _sample_figures(
    column: Column, group: TableGroup, summary: Summary, histograms: Histograms, style: Mapping[str, Style]
) -> list[Drawing]:
    names = {row_key(group.name, name): name for name in group.rows}
    keys = {(metric, side) for row, metric, side in histograms if row in names}
    stored, sides_of_metric = columns_of(column.info.key, keys)
    main = main_column(sides_of_metric)
    if main is None:
        return []
    histograms_of = {
        name: {
            side: histograms[row, stored, side]
            for metric, side in keys
            if metric == stored and (row, stored, side) in histograms
        }
        for row, name in names.items()
    }
    curves = {name: sides[main].curve(CURVE_POINTS) for name, sides in histograms_of.items() if main in sides}
    figures = [samples.ecdf(column, curves, style, summary.baseline, is_gap="gap" in main)]
    gaps = gap_columns(side for metric, side in keys if metric == stored)
    if gaps and main == gaps[0]:
        both = {
            name: {side: sides[side] for side in gaps if side in sides}
            for name, sides in histograms_of.items()
            if sides
        }
        figures.append(samples.gaps(column, both, style, summary.baseline))
    return figures


def _values(column: Column, group: TableGroup) -> tuple[tuple[str, Comparison, ValuesRow], ...]:
    rows = ((name, column.cells.get(name)) for name in group.rows)
    return tuple((name, cell, _value_texts(column, cell)) for name, cell in rows if cell is not None)


def _value_texts(column: Column, cell: Comparison) -> ValuesRow:
    """Return the texts of one row; the table omits columns that are empty in all rows."""

    def absolute(cost: Estimate | None) -> str:
        return "" if cost is None else str(column.absolute(cost))

    def overhead(ratio: Estimate | None) -> str:
        return "" if ratio is None else str(units.overhead_interval(ratio))

    def bound(most: float | None) -> str:
        return "" if most is None else percent_up(most)

    figures = (
        absolute(cell.absolute_s),
        absolute(cell.mean_absolute_s),
        absolute(cell.loop_s),
        "" if cell.p99_s is None else units.seconds(cell.p99_s),
        str(column.added(cell.added_s)) if cell.added_s else "",
        overhead(cell.overhead),
        units.overhead_interval(cell.simultaneous).bounds if cell.simultaneous else "",
        bound(cell.at_most),
        overhead(cell.mean.overhead) if cell.mean else "",
        bound(cell.mean.at_most) if cell.mean else "",
        units.ratio_interval(cell.median_ratio) if cell.median_ratio else "",
        units.p_value(cell.p_holm) if cell.p_holm is not None else "",
        overhead(cell.repeats.overhead) if cell.repeats and cell.repeats.repeated else "",
    )
    return ValuesRow(
        mark=mark(cell.verdict, cell.within),
        n=str(cell.absolute_s.n) if cell.absolute_s else "",
        figures=dict(zip(FIGURES, figures, strict=True)),
    )
