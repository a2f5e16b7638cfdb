"""Plot every launch: by environment, and in order of execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tare.report.plots import takeaways
from tare.report.plots.figures import Drawing, Spec, category_axis, n_text, rounded, vertical
from tare.report.plots.styles import Style
from tare.report.runs import ShownLaunch
from tare.report.view import Column

MANY: Final = 30
"""From this many launches of one environment, points are drawn smaller."""


def _by_environment(column: Column, rows: Sequence[str], runs: Sequence[ShownLaunch]) -> dict[str, list[ShownLaunch]]:
    result: dict[str, list[ShownLaunch]] = {name: [] for name in rows}
    for run in runs:
        if run.completed and run.group == column.info.group and column.info.key in run.metrics:
            result.setdefault(run.environment, []).append(run)
    return result


def _shown(column: Column, runs: Sequence[ShownLaunch], scale: float) -> list[float]:
    return rounded([column.shown(run.metrics[column.info.key].typical_s) for run in runs], scale)


def _value_axis(column: Column, values: Sequence[float], suffix: str) -> Spec:
    positive = [value for value in values if value > 0]
    spread = max(positive) / min(positive) if positive else 1.0
    logarithmic = spread > 5 and len(positive) == len(values)
    return {"title": {"text": f"{column.info.label}, {suffix}"}} | ({"type": "log"} if logarithmic else {})


def launches(column: Column, rows: Sequence[str], runs: Sequence[ShownLaunch], style: Mapping[str, Style]) -> Drawing:
    """Plot every launch of every environment as a point over the box of its quartiles."""
    by_row = _by_environment(column, rows, runs)
    costs_s = [run.metrics[column.info.key].typical_s for members in by_row.values() for run in members]
    scale, suffix = column.axis(costs_s)
    traces: list[Spec] = []
    for name, members in by_row.items():
        look = style[name]
        traces.append(
            {
                "type": "box",
                "orientation": "h",
                "name": name,
                "x": _shown(column, members, scale),
                "y0": name,
                "text": [run.trial.key.round + 1 for run in members],
                "boxpoints": "all",
                "jitter": 0.7,
                "pointpos": 0,
                "marker": {
                    "color": look.colour,
                    "size": 5 if len(members) <= MANY else 3,
                    "opacity": 0.75,
                    "symbol": look.symbol,
                },
                "line": {"color": look.colour, "width": 1.3},
                "fillcolor": "rgba(128,140,155,0.12)",
                "hovertemplate": "%{y}<br>%{x} " + suffix + "<br>round %{text}<extra></extra>",
            }
        )
    layout: Spec = {
        "height": 96 + 36 * len(rows),
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "showlegend": False,
        "xaxis": _value_axis(column, [column.shown(cost_s) for cost_s in costs_s], suffix),
        "yaxis": category_axis(rows),
        "shapes": _baseline_line(column, scale, upright=True),
    }
    counts = [len(members) for members in by_row.values() if members]
    return Drawing(
        ident=f"launches-{column.ident}",
        title=takeaways.spread(
            column,
            {name: [run.metrics[column.info.key].typical_s for run in members] for name, members in by_row.items()},
        ),
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


def order(column: Column, rows: Sequence[str], runs: Sequence[ShownLaunch], style: Mapping[str, Style]) -> Drawing:
    """Plot every launch in order of execution, so that drifts and steps are visible."""
    by_row = _by_environment(column, rows, runs)
    costs_s = [run.metrics[column.info.key].typical_s for members in by_row.values() for run in members]
    scale, suffix = column.axis(costs_s)
    traces: list[Spec] = []
    for name, members in by_row.items():
        look = style[name]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [run.order for run in members],
                "y": _shown(column, members, scale),
                "text": [run.trial.key.round + 1 for run in members],
                "marker": {
                    "color": look.colour,
                    "size": 7 if len(members) <= MANY else 4,
                    "symbol": look.symbol,
                    "opacity": 0.85,
                },
                "hovertemplate": f"{name}<br>%{{y}} {suffix}<br>launch %{{x}}, round %{{text}}<extra></extra>",
            }
        )
    starts = _round_starts(by_row)
    layout: Spec = {
        "height": 330,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "xaxis": {"title": {"text": "launch, in order of execution"}, "showgrid": False},
        "yaxis": _value_axis(column, [column.shown(cost_s) for cost_s in costs_s], suffix) | {"automargin": True},
        "shapes": [*starts, *_baseline_line(column, scale, upright=False)],
    }
    return Drawing(
        ident=f"order-{column.ident}",
        title=takeaways.order(by_row),
        caption="A slope or step that all environments share is caused by the machine, not by a container. "
        f"{'Vertical lines: start of a round. ' if starts else ''}Dashed: baseline. n = {len(costs_s):,} launches.",
        spec={"data": traces, "layout": layout},
    )


def _round_starts(by_row: Mapping[str, Sequence[ShownLaunch]]) -> list[Spec]:
    first: dict[int, int] = {}
    for run in (run for members in by_row.values() for run in members):
        first[run.trial.key.round] = min(run.order, first.get(run.trial.key.round, run.order))
    if len(first) > 40:
        return []
    line = {"width": 1, "color": "rgba(128,140,155,0.25)"}
    return [vertical(at - 0.5, "solid") | {"line": line} for at in sorted(first.values())]
