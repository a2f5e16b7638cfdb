"""Plot what distributions show besides their centres: one figure and one sentence for each pattern that was found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tare.analysis.stats import lag1_bound
from tare.model import Pattern, PatternKind, Summary
from tare.report.frames.source import NumberedTrial
from tare.report.plots import takeaways
from tare.report.plots.charts import NEUTRAL, Chart, Dots, Line, Mark, Rule, linear_axis, padded, row_axis
from tare.report.plots.figures import Drawing, n_text
from tare.report.plots.histograms import LogHistogram
from tare.report.plots.launches import PlottedLaunches
from tare.report.plots.styles import Style
from tare.report.view import MetricColumn


def of_launches(
    column: MetricColumn,
    summary: Summary,
    runs: Sequence[NumberedTrial],
    plotted: PlottedLaunches,
    style: Mapping[str, Style],
) -> Iterator[Drawing]:
    """Yield a figure for each kind of pattern of launches, and for modes."""
    found = [one for one in summary.patterns if (one.group, one.metric) == (column.info.group, column.info.key)]
    drifts = [one for one in found if one.kind is PatternKind.DRIFT]
    if drifts:
        yield _drift(column, drifts, summary, plotted, style)
    tails = [one for one in found if one.kind is PatternKind.TAIL]
    if tails:
        yield _tail(column, tails, summary, runs, style)
    for modes in summary.modes:
        if (modes.group, modes.metric) == (column.info.group, column.info.key):
            separated = f", separated by {modes.separated_by}" if modes.separated_by else ""
            yield _modes(column, modes.centres, separated, plotted, style)


def of_iterations(
    column: MetricColumn, found: Sequence[Pattern], histograms: Mapping[str, LogHistogram], style: Mapping[str, Style]
) -> Iterator[Drawing]:
    """Yield a figure for a warm-up that is not reached, and one for dependent iterations."""
    here = [one for one in found if one.metric == column.info.key]
    starts = [one for one in here if one.kind is PatternKind.WARM_UP]
    if starts:
        yield _warm_up(column, starts, histograms, style)
    dependences = [one for one in here if one.kind is PatternKind.DEPENDENCE]
    if dependences:
        yield _dependence(column, dependences, histograms, style)


def _sentences(column: MetricColumn, found: Sequence[Pattern], baseline: str) -> str:
    """Return the sentence of the largest pattern, and the number of others of its kind."""
    largest = max(found, key=lambda one: abs(one.value))
    others = len(found) - 1
    more = f" {others} more {'row shows' if others == 1 else 'rows show'} the same." if others else ""
    return takeaways.pattern(largest, column.info.label, baseline) + more


def _relative(costs_s: Sequence[float]) -> list[float]:
    """Return costs in per cent around their median."""
    middle = float(np.median(costs_s))
    return [100 * (cost_s / middle - 1) for cost_s in costs_s]


def _drift(
    column: MetricColumn,
    found: Sequence[Pattern],
    summary: Summary,
    plotted: PlottedLaunches,
    style: Mapping[str, Style],
) -> Drawing:
    marks: list[Mark] = [Rule(at=0.0, upright=False)]
    values: list[float] = []
    orders = [number for one in plotted.by_row.values() for number in one.orders]
    ends = (min(orders, default=0), max(orders, default=1))
    for name, one in plotted.by_row.items():
        if one.orders:
            look = style[name]
            y = _relative(one.costs_s)
            values += y
            marks.append(Dots(x=one.orders, y=y, colour=look.colour, symbol=look.symbol, size=5, name=name))
    for pattern in found:
        half = 50 * math.expm1(pattern.value)
        colour = style[pattern.environment].colour if pattern.environment else NEUTRAL
        marks.append(Line(x=list(ends), y=[-half, half], colour=colour, dash="dash", width=2.4))
    return Drawing(
        ident=f"drift-{column.ident}",
        title=_sentences(column, found, summary.baseline),
        caption="Points: launches, relative to the median of their environment. Dashed: the trend (Sen's slope; Mann "
        f"and Kendall's test, adjusted for the table). n = {found[0].n:,} rounds.",
        chart=Chart(
            height=320,
            x=linear_axis(*padded(*ends, 0.02), "launch, in order of execution"),
            y=linear_axis(*padded(min(values, default=0), max(values, default=1)), "typical cost", " %", signed=True),
            marks=tuple(marks),
            legend=True,
        ),
    )


def _tail(
    column: MetricColumn,
    found: Sequence[Pattern],
    summary: Summary,
    runs: Sequence[NumberedTrial],
    style: Mapping[str, Style],
) -> Drawing:
    ratios: dict[str, list[float]] = {}
    for run in runs:
        metric = run.metrics.get(column.info.key) if run.completed and run.group == column.info.group else None
        if metric is not None and metric.p99_s and metric.median_s:
            ratios.setdefault(run.environment, []).append(metric.p99_s / metric.median_s)
    names = [name for name in column.cells if name in ratios]
    return Drawing(
        ident=f"tail-{column.ident}",
        title=_sentences(column, found, summary.baseline),
        caption="Points: the 99th percentile of a launch's iterations over their median. Paired t test of its "
        f"logarithm, adjusted for the table. {n_text([len(ratios[name]) for name in names], 'launches')}.",
        chart=_dots_by_row(names, ratios, style, "99th percentile / median"),
    )


def _modes(
    column: MetricColumn, centres: Sequence[float], separated: str, plotted: PlottedLaunches, style: Mapping[str, Style]
) -> Drawing:
    values = {name: _relative(one.costs_s) for name, one in plotted.by_row.items() if one.costs_s}
    chart = _dots_by_row(list(values), values, style, "typical cost against the environment's median, %")
    rules = tuple(Rule(at=100 * (centre - 1), dash="dash") for centre in centres)
    return Drawing(
        ident=f"modes-{column.ident}",
        title=f"Launches of {column.info.label} fall into several modes{separated}.",
        caption="Points: launches as measured; dashed: the centres of the modes (of costs adjusted for the machine's "
        f"state). {n_text([len(of_row) for of_row in values.values()], 'launches')}.",
        chart=replace(chart, marks=(*rules, *chart.marks)),
    )


def _warm_up(
    column: MetricColumn, found: Sequence[Pattern], histograms: Mapping[str, LogHistogram], style: Mapping[str, Style]
) -> Drawing:
    marks: list[Mark] = [Rule(at=0.0, upright=False)]
    values, counts = [0.0], []
    for pattern in found:
        profiles = histograms[pattern.environment].order.profiles
        look = style[pattern.environment]
        y = [100 * math.expm1(float(value)) for value in np.mean(profiles, axis=0)]
        tenths = list(range(1, len(y) + 1))
        marks.append(Line(x=tenths, y=y, colour=look.colour, dash=look.dash))
        marks.append(Dots(x=tenths, y=y, colour=look.colour, symbol=look.symbol, size=6, name=pattern.environment))
        values += y
        counts.append(len(profiles))
    return Drawing(
        ident=f"warm-up-{column.ident}",
        title=_sentences(column, found, ""),
        caption="Each tenth of the iterations, in order: its median against that of the last nine, mean over launches. "
        f"{n_text(counts, 'launches')}.",
        chart=Chart(
            height=300,
            x=linear_axis(0.5, 10.5, "tenth of the iterations"),
            y=linear_axis(*padded(min(values), max(values)), "time of an iteration", " %", signed=True),
            marks=tuple(marks),
            legend=True,
        ),
    )


def _dependence(
    column: MetricColumn, found: Sequence[Pattern], histograms: Mapping[str, LogHistogram], style: Mapping[str, Style]
) -> Drawing:
    lags = {name: histogram.order.lags.tolist() for name, histogram in histograms.items() if histogram.order.lags.size}
    chart = _dots_by_row(list(lags), lags, style, "correlation of an iteration with the one before")
    least = min(histogram.order.iterations for name, histogram in histograms.items() if name in lags)
    rules = tuple(Rule(at=bound, dash="dash") for bound in (-lag1_bound(least), lag1_bound(least)))
    return Drawing(
        ident=f"dependence-{column.ident}",
        title=_sentences(column, found, ""),
        caption="Points: launches (correlation of ranks at lag 1). Dashed: the bound that one in twenty launches with "
        f"{least:,} independent iterations exceeds. {n_text([len(of_row) for of_row in lags.values()], 'launches')}.",
        chart=replace(chart, marks=(*rules, *chart.marks)),
    )


def _dots_by_row(
    names: Sequence[str], values: Mapping[str, Sequence[float]], style: Mapping[str, Style], title: str
) -> Chart:
    """Return a chart with a row of points for each environment."""
    every = [value for name in names for value in values[name]]
    return Chart(
        height=62 + 27 * len(names),
        x=linear_axis(*padded(min(every, default=0.0), max(every, default=1.0)), title),
        y=row_axis(names),
        marks=tuple(
            Dots(
                x=values[name],
                y=[row + 0.5 * (number * 0.618 % 1 - 0.5) for number in range(len(values[name]))],
                colour=style[name].colour,
                symbol=style[name].symbol,
                size=5,
            )
            for row, name in enumerate(names)
        ),
    )
