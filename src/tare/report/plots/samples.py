"""Plot the samples within launches: cumulative distributions, and gaps between messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from tare.report import units
from tare.report.plots import takeaways
from tare.report.plots.charts import NEUTRAL, Area, Axis, Chart, Line, Mark, log_axis, padded
from tare.report.plots.figures import Drawing, n_text
from tare.report.plots.histograms import Curve, LogHistogram, MetricSamples, gap_columns
from tare.report.plots.styles import Style
from tare.report.view import MetricColumn

CURVE_POINTS: Final = 240


def figures(
    column: MetricColumn, sampled: MetricSamples, style: Mapping[str, Style], baseline: str
) -> Iterator[Drawing]:
    """Yield the plots of a column's samples, none if it has none."""
    if sampled.main is None:
        return
    curves = {name: one.curve(CURVE_POINTS) for name, one in sampled.mains.items()}
    yield ecdf(column, curves, style, baseline, is_gap="gap" in sampled.main)
    sides = gap_columns(sampled.sides)
    if sides and sampled.main == sides[0]:
        both = {
            name: {side: of_row[side] for side in sides if side in of_row}
            for name, of_row in sampled.of_row.items()
            if of_row
        }
        yield gaps(column, both, style, baseline)


def ecdf(
    column: MetricColumn, curves: Mapping[str, Curve], style: Mapping[str, Style], baseline: str, *, is_gap: bool
) -> Drawing:
    """Plot the fraction of samples that do not exceed a time, and below it the tail on the scale of nines."""
    unit = units.time_unit(max((curve.at(0.5) for curve in curves.values()), default=1.0))
    title = f"{'gap between messages' if is_gap else 'time of one iteration'}, {unit.suffix}"
    low, high = _ends(curves, 0.001, unit.size)
    highest = _ends(curves, 0.0, unit.size)[1]
    body, tail = (
        tuple(
            Line(
                x=curve.values_s / unit.size,
                y=_nines(curve) if nines else curve.fractions,
                colour=style[name].colour,
                dash=style[name].dash,
                step=True,
                name=name,
            )
            for name, curve in curves.items()
        )
        for nines in (False, True)
    )
    fractions = tuple((step / 4, f"{25 * step} %") for step in range(5))
    chart = Chart(
        height=320,
        x=_log_axis(low, high, title),
        y=Axis(low=0.0, high=1.02, ticks=fractions, title="fraction of samples"),
        marks=body,
        legend=True,
    )
    counts = [curve.n for curve in curves.values()]
    return Drawing(
        ident=f"ecdf-{column.ident}",
        title=takeaways.tail(column, curves, baseline, "gaps" if is_gap else "iterations"),
        caption="Samples of all launches, pooled for this plot only; verdicts do not use them. Times are within 0.2 % "
        f"of the exact quantile. {n_text(counts, 'samples')}.",
        chart=chart,
        closer=replace(chart, x=_log_axis(low, highest, title), y=_nines_axis(tail), marks=tail),
        closer_name="Tail",
    )


def _nines(curve: Curve) -> list[float]:
    """Return the fractions on the scale of nines, on which 99 % and 99.9 % are one step apart."""
    fractions = curve.fractions.tolist()
    last = 0.3 - math.log10(1 - fractions[-2]) if len(fractions) > 1 else 1.0
    return [-math.log10(1 - fraction) if fraction < 1 else last for fraction in fractions]


def _nines_axis(lines: tuple[Line, ...]) -> Axis:
    top = max((max(line.y) for line in lines), default=1.0)
    steps = range(int(top) + 1)
    ticks = tuple((step, f"{100 * (1 - 10.0**-step):.{max(0, step - 2)}f} %" if step else "0 %") for step in steps)
    return Axis(low=0.0, high=top * 1.03, ticks=ticks, title="fraction of samples")


def _ends(curves: Mapping[str, Curve], outside: float, scale: float) -> tuple[float, float]:
    """Return the times outside which at most this fraction of any curve lies, at either end."""
    lowest = min((curve.at(outside) for curve in curves.values()), default=scale)
    return lowest / scale, max((curve.at(1 - outside) for curve in curves.values()), default=scale) / scale


def _log_axis(low: float, high: float, title: str) -> Axis:
    low = max(low, 1e-12)
    return log_axis(*padded(low, max(high, low * 1.001), 0.02, log=True), title)


Gaps = Mapping[str, Mapping[str, LogHistogram]]
"""Histograms by environment and column, the receive side's column first."""


def gaps(column: MetricColumn, histograms: Gaps, style: Mapping[str, Style], baseline: str) -> Drawing:
    """Plot the distribution of gaps between messages: one row per environment, one shape per side."""
    names = list(histograms)
    curves = {
        name: {side: histogram.curve() for side, histogram in sides.items()} for name, sides in histograms.items()
    }
    all_curves = [curve for sides in curves.values() for curve in sides.values()]
    low, high = min(curve.at(1e-3) for curve in all_curves), max(curve.at(1 - 1e-3) for curve in all_curves)
    unit = units.time_unit(all_curves[0].at(0.5))
    marks: list[Mark] = []
    for index, name in enumerate(names):
        floor = len(names) - 1 - index
        for number, histogram in enumerate(histograms[name].values()):
            marks += _ridge(histogram, (low, high), unit.size, floor, style[name] if number == 0 else None)
    ticks = tuple((float(len(names) - 1 - index), name) for index, name in enumerate(names))
    receive = {name: next(iter(sides.values())) for name, sides in curves.items()}
    return Drawing(
        ident=f"gaps-{column.ident}",
        title=takeaways.gaps(receive, baseline),
        caption="Filled: gaps at the receiver; dotted: at the sender. The height is the square root of the share, so "
        "that rare gaps stay visible; the outermost 0.1 % at either end are not shown. "
        f"{n_text([curve.n for curve in receive.values()], 'gaps')}.",
        chart=Chart(
            height=80 + 40 * len(names),
            x=_log_axis(low / unit.size, high / unit.size, f"gap between messages, {unit.suffix}"),
            y=Axis(low=-0.15, high=len(names), ticks=ticks, grid=False),
            marks=tuple(marks),
            wide=True,
        ),
    )


def _ridge(
    histogram: LogHistogram, ends: tuple[float, float], size: float, floor: float, filled: Style | None
) -> Iterator[Mark]:
    """Yield the shape of one histogram that stands on `floor`: a filled one in its style, otherwise a dotted line."""
    centres, shares = histogram.density(*ends)
    x = np.asarray(centres, dtype=np.float64) / size
    peak = float(shares.max()) or 1.0
    heights = floor + 0.88 * np.sqrt(shares / peak)
    if filled is not None:
        yield Area(x=x.tolist(), low=[floor] * x.size, high=heights.tolist(), colour=filled.colour)
        yield Line(x=x, y=heights, colour=filled.colour, width=1.6)
    else:
        yield Line(x=x, y=heights, colour=NEUTRAL, width=1.2, dash="dot")
    yield Line(x=[float(x[0]), float(x[-1])], y=[floor, floor], colour=NEUTRAL, width=0.6)
