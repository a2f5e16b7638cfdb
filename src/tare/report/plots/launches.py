"""Plot every launch: by environment, and in order of execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tare.report.plots import takeaways
from tare.report.plots.figures import Drawing, Spec, category_axis, n_text, rounded, vertical
from tare.report.plots.styles import Style
from tare.report.runs import ShownLaunch
from tare.report.view import Column

MANY: Final = 30
"""From this many launches of one environment, points are drawn smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The launches of one environment that have the metric: place in the run, round (from 1), typical cost."""

    orders: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    costs_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plotted:
    """The launches of a column by environment, their costs as drawn, and the axis of costs with its unit."""

    by_row: Mapping[str, Points]
    drawn: Mapping[str, list[float]]
    axis: Spec
    unit_size: float
    unit: str


def points(column: Column, rows: Sequence[str], runs: Sequence[ShownLaunch]) -> Plotted:
    """Return the launches of a column that count."""
    result = {name: Points() for name in rows}
    key, group = column.info.key, column.info.group
    for run in runs:
        if run.completed and run.group == group and (metric := run.metrics.get(key)) is not None:
            of_row = result.get(run.environment) or result.setdefault(run.environment, Points())
            of_row.orders.append(run.order)
            of_row.rounds.append(run.trial.key.round + 1)
            of_row.costs_s.append(metric.typical_s)
    size, unit = column.axis([cost_s for one in result.values() for cost_s in one.costs_s])
    shown = {name: [column.shown(cost_s) for cost_s in one.costs_s] for name, one in result.items()}
    return Plotted(
        by_row=result,
        drawn={name: rounded(values, size) for name, values in shown.items()},
        axis=_value_axis(column, [value for values in shown.values() for value in values], unit),
        unit_size=size,
        unit=unit,
    )


def _value_axis(column: Column, values: Sequence[float], suffix: str) -> Spec:
    positive = [value for value in values if value > 0]
    spread = max(positive) / min(positive) if positive else 1.0
    logarithmic = spread > 5 and len(positive) == len(values)
    return {"title": {"text": f"{column.info.label}, {suffix}"}} | ({"type": "log"} if logarithmic else {})


def launches(column: Column, rows: Sequence[str], plotted: Plotted, style: Mapping[str, Style]) -> Drawing:
    """Plot every launch of every environment as a point over the box of its quartiles."""
    traces: list[Spec] = []
    for name, one in plotted.by_row.items():
        look = style[name]
        traces.append(
            {
                "type": "box",
                "orientation": "h",
                "name": name,
                "x": plotted.drawn[name],
                "y0": name,
                "text": one.rounds,
                "boxpoints": "all",
                "jitter": 0.7,
                "pointpos": 0,
                "marker": {
                    "color": look.colour,
                    "size": 5 if len(one.orders) <= MANY else 3,
                    "opacity": 0.75,
                    "symbol": look.symbol,
                },
                "line": {"color": look.colour, "width": 1.3},
                "fillcolor": "rgba(128,140,155,0.12)",
                "hovertemplate": "%{y}<br>%{x} " + plotted.unit + "<br>round %{text}<extra></extra>",
            }
        )
    layout: Spec = {
        "height": 96 + 36 * len(rows),
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "showlegend": False,
        "xaxis": plotted.axis,
        "yaxis": category_axis(rows),
        "shapes": _baseline_line(column, plotted.unit_size, upright=True),
    }
    counts = [len(one.orders) for one in plotted.by_row.values() if one.orders]
    return Drawing(
        ident=f"launches-{column.ident}",
        title=takeaways.spread(column, {name: one.costs_s for name, one in plotted.by_row.items()}),
        caption="Points: launches as measured (typical iteration); boxes: quartiles; whiskers: up to 1.5 times the "
        "interquartile range. Dashed: baseline. "
        f"{n_text(counts, 'launches')}.",
        spec={"data": traces, "layout": layout},
    )


def _baseline_line(column: Column, scale: float, *, upright: bool) -> list[Spec]:
    if column.base_s is None:
        return []
    at = rounded([column.shown(column.base_s)], scale)[0]
    line = vertical(at, "dash")
    if upright:
        return [line]
    return [line | {"x0": 0, "x1": 1, "xref": "paper", "y0": at, "y1": at, "yref": "y"}]


def order(column: Column, plotted: Plotted, style: Mapping[str, Style]) -> Drawing:
    """Plot every launch in order of execution, so that drifts and steps are visible."""
    traces: list[Spec] = []
    for name, one in plotted.by_row.items():
        look = style[name]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": one.orders,
                "y": plotted.drawn[name],
                "text": one.rounds,
                "marker": {
                    "color": look.colour,
                    "size": 7 if len(one.orders) <= MANY else 4,
                    "symbol": look.symbol,
                    "opacity": 0.85,
                },
                "hovertemplate": f"{name}<br>%{{y}} {plotted.unit}<br>launch %{{x}}, round %{{text}}<extra></extra>",
            }
        )
    starts = _round_starts(plotted.by_row)
    n = sum(len(one.orders) for one in plotted.by_row.values())
    layout: Spec = {
        "height": 330,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "xaxis": {"title": {"text": "launch, in order of execution"}, "showgrid": False},
        "yaxis": plotted.axis | {"automargin": True},
        "shapes": [*starts, *_baseline_line(column, plotted.unit_size, upright=False)],
    }
    return Drawing(
        ident=f"order-{column.ident}",
        title=takeaways.order(one.rounds for one in plotted.by_row.values()),
        caption="A slope or step that all environments share is caused by the machine, not by a container. "
        f"{'Vertical lines: start of a round. ' if starts else ''}Dashed: baseline. n = {n:,} launches.",
        spec={"data": traces, "layout": layout},
    )


def _round_starts(by_row: Mapping[str, Points]) -> list[Spec]:
    first: dict[int, int] = {}
    for one in by_row.values():
        for number, at in zip(one.rounds, one.orders, strict=True):
            first[number] = min(at, first.get(number, at))
    if len(first) > 40:
        return []
    line = {"width": 1, "color": "rgba(128,140,155,0.25)"}
    return [vertical(at - 0.5, "solid") | {"line": line} for at in sorted(first.values())]
