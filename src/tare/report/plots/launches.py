"""Plot every launch: by environment, and in order of execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tare.analysis.stats.resampling import quantiles
from tare.report.frames.source import NumberedTrial
from tare.report.plots import takeaways
from tare.report.plots.charts import Axis, Box, Chart, Dots, Floats, Mark, Rule, linear_axis, log_axis, padded, row_axis
from tare.report.plots.figures import Drawing, n_text
from tare.report.plots.styles import Style
from tare.report.view import MetricColumn

MANY: Final = 30
"""From this many launches of one environment, points are drawn smaller."""
MOST_ROUNDS: Final = 40
"""With more rounds than this, their starts are not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The launches of one environment that have the metric: place in the run, round (from 1), typical cost."""

    orders: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    costs_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedLaunches:
    """The launches of a column by environment, their costs as drawn, shape (n,), and the axis of costs."""

    by_row: Mapping[str, Points]
    drawn: Mapping[str, Floats]
    axis: Axis
    unit_size: float


def points(column: MetricColumn, rows: Sequence[str], runs: Sequence[NumberedTrial]) -> PlottedLaunches:
    """Return the launches of a column that count, and how they are drawn."""
    result = {name: Points() for name in rows}
    key, group = column.info.key, column.info.group
    for run in runs:
        if run.group == group and (metric := run.metrics.get(key)) is not None and run.completed:
            of_row = result.get(run.environment) or result.setdefault(run.environment, Points())
            of_row.orders.append(run.number)
            of_row.rounds.append(run.trial.key.round + 1)
            of_row.costs_s.append(metric.typical_s)
    size, unit = column.axis([cost_s for one in result.values() for cost_s in one.costs_s])
    shown = column.shown if column.is_rate else float
    drawn = {name: np.array([shown(cost_s) for cost_s in one.costs_s]) / size for name, one in result.items()}
    return PlottedLaunches(
        by_row=result, drawn=drawn, axis=_value_axis(column, list(drawn.values()), unit), unit_size=size
    )


def _value_axis(column: MetricColumn, drawn: Sequence[Floats], suffix: str) -> Axis:
    values = np.concatenate(drawn) if drawn else np.zeros(0)
    title = f"{column.info.label}, {suffix}"
    if not values.size:
        return linear_axis(0.0, 1.0, title)
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > 5:
        return log_axis(*padded(low, high, log=True), title)
    return linear_axis(*padded(low, high), title)


def figures(column: MetricColumn, plotted: PlottedLaunches, style: Mapping[str, Style]) -> tuple[Drawing, ...]:
    """Return the plots of a column's launches."""
    return launches(column, plotted, style), order(column, plotted, style)


def launches(column: MetricColumn, plotted: PlottedLaunches, style: Mapping[str, Style]) -> Drawing:
    """Plot every launch of every environment as a point over the box of its quartiles."""
    marks: list[Mark] = [*_baseline(column, plotted, upright=True)]
    for row, (name, one) in enumerate(plotted.by_row.items()):
        values = plotted.drawn[name]
        if values.size:
            look = style[name]
            marks.append(Box(row=row, values=_box(values), colour=look.colour))
            size = 5.5 if values.size <= MANY else 3.5
            y = [row + 0.5 * (number * 0.618 % 1 - 0.5) for number in range(len(one.orders))]
            marks.append(Dots(x=values, y=y, colour=look.colour, symbol=look.symbol, size=size))
    counts = [len(one.orders) for one in plotted.by_row.values() if one.orders]
    return Drawing(
        ident=f"launches-{column.ident}",
        title=takeaways.spread(column, {name: one.costs_s for name, one in plotted.by_row.items()}),
        caption="Points: launches as measured (typical iteration); boxes: quartiles; whiskers: up to 1.5 times the "
        "interquartile range. Dashed: baseline. "
        f"{n_text(counts, 'launches')}.",
        chart=Chart(
            height=62 + 27 * len(plotted.by_row), x=plotted.axis, y=row_axis(tuple(plotted.by_row)), marks=tuple(marks)
        ),
    )


def _box(values: Floats) -> tuple[float, float, float, float, float]:
    """Return the ends of the whiskers and the quartiles, in ascending order."""
    first, middle, third = quantiles(values, (0.25, 0.5, 0.75))
    reach = 1.5 * (third - first)
    inside = values[(values >= first - reach) & (values <= third + reach)]
    return float(inside.min()), first, middle, third, float(inside.max())


def _baseline(column: MetricColumn, plotted: PlottedLaunches, *, upright: bool) -> list[Mark]:
    if column.base_s is None:
        return []
    return [Rule(at=column.shown(column.base_s) / plotted.unit_size, dash="dash", upright=upright)]


def order(column: MetricColumn, plotted: PlottedLaunches, style: Mapping[str, Style]) -> Drawing:
    """Plot every launch in order of execution, so that drifts and steps are visible."""
    starts = _round_starts(plotted.by_row)
    marks: list[Mark] = [*starts, *_baseline(column, plotted, upright=False)]
    for name, one in plotted.by_row.items():
        if one.orders:
            look = style[name]
            size = 7.0 if len(one.orders) <= MANY else 4.0
            dots = Dots(
                x=one.orders, y=plotted.drawn[name], colour=look.colour, symbol=look.symbol, size=size, name=name
            )
            marks.append(dots)
    orders = [number for one in plotted.by_row.values() for number in one.orders]
    x = linear_axis(*padded(min(orders, default=0), max(orders, default=1), 0.02), "launch, in order of execution")
    return Drawing(
        ident=f"order-{column.ident}",
        title=takeaways.order(one.rounds for one in plotted.by_row.values()),
        caption="A slope or step that all environments share is caused by the machine, not by a container. "
        f"{'Vertical lines: start of a round. ' if starts else ''}Dashed: baseline. n = {len(orders):,} launches.",
        chart=Chart(height=320, x=replace(x, grid=False), y=plotted.axis, marks=tuple(marks), legend=True),
    )


def _round_starts(by_row: Mapping[str, Points]) -> list[Mark]:
    first: dict[int, int] = {}
    for one in by_row.values():
        for number, at in zip(one.rounds, one.orders, strict=True):
            first[number] = min(at, first.get(number, at))
    if len(first) > MOST_ROUNDS:
        return []
    return [Rule(at=at - 0.5, faint=True) for at in sorted(first.values())]
