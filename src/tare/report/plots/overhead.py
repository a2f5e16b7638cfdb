"""Plot overheads with their intervals: by environment, and against message size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Comparison, Estimate, Summary, Verdict
from tare.report import units
from tare.report.plots import takeaways
from tare.report.plots.figures import (
    BAND,
    NEUTRAL,
    Drawing,
    Spec,
    band,
    category_axis,
    log_ticks,
    n_text,
    rounded,
    vertical,
)
from tare.report.plots.styles import BASE_COLOUR, Style
from tare.report.verdicts import VERDICT_STYLES, mark
from tare.report.view import Column

VERDICT_COLOURS: Final[Mapping[Verdict, str]] = {
    Verdict.NO_COST: "#1f9d72",
    Verdict.COSTS: "#d1442e",
    Verdict.GAINS: "#2f7fd6",
    Verdict.INCONCLUSIVE: "#b48a08",
    Verdict.FAILS: "#8b63d1",
    Verdict.NOISE_FLOOR: BASE_COLOUR,
    Verdict.NOT_JUDGED: "#2f7fd6",
}
_LOG_FROM: Final = 3.0
_RATIO_TICKS: Final = (0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


def forest(column: Column, rows: Sequence[str], summary: Summary) -> Drawing:
    """Plot each environment's overhead with its interval against zero, the noise floor and the margin."""
    drawn = {name: cell for name in rows if (cell := column.cells.get(name)) and cell.overhead}
    scale = _OverheadScale.of(list(drawn.values()), summary.margin)
    traces = [_outer_trace(drawn, scale), *_verdict_traces(drawn, scale, column)]
    shown = [name for name in rows if name != summary.baseline]
    layout: Spec = {
        "height": 96 + 36 * len(rows),
        "margin": {"l": 8, "r": 118, "t": 8, "b": 44},
        "showlegend": False,
        "xaxis": scale.axis | {"title": {"text": "overhead against " + summary.baseline}},
        "yaxis": category_axis(shown),
        "shapes": _bounds(column, summary, scale),
        "annotations": [_row_label(name, column.cells.get(name), column) for name in shown],
    }
    near = _near_zero(scale, summary)
    counts = n_text([cell.overhead.n for cell in drawn.values() if cell.overhead], "rounds")
    confidence = f"{summary.confidence * 100:g} %"
    limit = f"; dotted: limit {units.percent(summary.limit, sign=False)}" if summary.limit is not None else ""
    return Drawing(
        ident=f"forest-{column.ident}",
        title=takeaways.overhead(column, rows, summary),
        caption=f"Thick: {confidence} interval; thin: interval adjusted for the table (Holm) and for looks. Grey band: "
        f"noise floor (A/A); dashed: margin ±{units.percent(summary.margin, sign=False)}{limit}. {counts}.",
        spec={"data": traces, "layout": layout} | ({"near": near} if near else {}),
        has_near=near is not None,
    )


def _near_zero(scale: _OverheadScale, summary: Summary) -> list[float] | None:
    """Return the range of the zoomed view, or None if the full range is not much wider than the margin."""
    reach = 4 * summary.margin * 100
    low, high = scale.axis.get("range", (0.0, 0.0))
    return [-reach, reach] if high - low > 4 * reach else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OverheadScale:
    """The axis of overheads: linear in per cent, or logarithmic in ratios if an overhead is many-fold."""

    logarithmic: bool
    axis: Spec

    @classmethod
    def of(cls, cells: Sequence[Comparison], margin: float) -> _OverheadScale:
        bounds = [bound for cell in cells if cell.overhead for bound in (cell.overhead.low, cell.overhead.high)]
        low, high = min([-2 * margin, *bounds]), max([2 * margin, *bounds])
        pad = 0.04 * (high - low)
        if high <= _LOG_FROM:
            axis: Spec = {"range": [(low - pad) * 100, (high + pad) * 100], "ticksuffix": " %", "zeroline": True}
            return cls(logarithmic=False, axis=axis)
        ticks = [tick for tick in _RATIO_TICKS if (1 + low) * 0.8 <= tick <= (1 + high) * 1.3]
        texts = [f"×{tick:g}" if tick >= 2 else f"{units.percent(tick - 1)}" for tick in ticks]
        return cls(logarithmic=True, axis={"type": "log", "tickvals": ticks, "ticktext": texts})

    def at(self, overhead: float) -> float:
        return float(f"{(1 + overhead) if self.logarithmic else overhead * 100:.5g}")


def _errors(estimates: Sequence[Estimate], scale: _OverheadScale, width: float, colour: str) -> Spec:
    return {
        "type": "data",
        "symmetric": False,
        "array": [scale.at(e.high) - scale.at(e.value) for e in estimates],
        "arrayminus": [scale.at(e.value) - scale.at(e.low) for e in estimates],
        "thickness": width,
        "width": 0,
        "color": colour,
    }


def _outer_trace(drawn: Mapping[str, Comparison], scale: _OverheadScale) -> Spec:
    wide = {name: cell.simultaneous for name, cell in drawn.items() if cell.simultaneous}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [scale.at(estimate.value) for estimate in wide.values()],
        "y": list(wide),
        "marker": {"size": 1, "color": NEUTRAL},
        "error_x": _errors(list(wide.values()), scale, 1.5, NEUTRAL),
        "hoverinfo": "skip",
    }


def _verdict_traces(drawn: Mapping[str, Comparison], scale: _OverheadScale, column: Column) -> list[Spec]:
    traces: list[Spec] = []
    for verdict, colour in VERDICT_COLOURS.items():
        cells = {name: cell for name, cell in drawn.items() if cell.verdict is verdict}
        estimates = [cell.overhead for cell in cells.values() if cell.overhead]
        if not estimates:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": verdict.value,
                "x": [scale.at(estimate.value) for estimate in estimates],
                "y": list(cells),
                "marker": {
                    "size": 9,
                    "color": colour,
                    "symbol": _verdict_symbol(verdict),
                    "line": {"color": "rgba(255,255,255,0.9)", "width": 1},
                },
                "error_x": _errors(estimates, scale, 5, colour),
                "text": [_hover(cell, column) for cell in cells.values()],
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return traces


def _verdict_symbol(verdict: Verdict) -> str:
    return {
        Verdict.COSTS: "triangle-up", Verdict.GAINS: "triangle-down", Verdict.INCONCLUSIVE: "diamond",
    }.get(verdict, "circle")  # fmt: skip


def _hover(cell: Comparison, column: Column) -> str:
    lines = [f"{cell.environment}: {cell.verdict.value}"]
    if cell.overhead:
        lines.append(f"overhead {units.overhead_interval(cell.overhead)}, n = {cell.overhead.n}")
    if cell.simultaneous:
        lines.append(f"adjusted interval {units.overhead_interval(cell.simultaneous).bounds}")
    if cell.added_s:
        lines.append(f"added {column.added(cell.added_s)}")
    if cell.absolute_s:
        lines.append(f"absolute {column.absolute(cell.absolute_s)}")
    return "<br>".join(lines)


def _row_label(name: str, cell: Comparison | None, column: Column) -> Spec:
    annotation: Spec = {
        "xref": "paper", "x": 1.0, "xanchor": "left", "y": name, "showarrow": False, "xshift": 8, "align": "left",
    }  # fmt: skip
    if cell is None or cell.overhead is None:
        verdict = cell.verdict if cell else Verdict.UNAVAILABLE
        return annotation | {"text": f"{VERDICT_STYLES[verdict].symbol} {verdict.value}"}
    added_s = cell.added_s if column.leads_with_time and cell.added_s else None
    text = column.added(added_s).main if added_s else units.overhead_interval(cell.overhead).main
    return annotation | {"text": f"{mark(cell.verdict, cell.within)} {text}"}


def _bounds(column: Column, summary: Summary, scale: _OverheadScale) -> list[Spec]:
    shapes: list[Spec] = []
    if column.noise and column.noise.overhead:
        shapes.append(band(scale.at(column.noise.overhead.low), scale.at(column.noise.overhead.high)))
    shapes += [vertical(scale.at(bound), "dash") for bound in (-summary.margin, summary.margin)]
    shapes.append(vertical(scale.at(0.0), "solid"))
    if summary.limit is not None:
        shapes.append(vertical(scale.at(summary.limit), "dot"))
    return shapes


# --- against message size ---------------------------------------------------------------------------------------


def by_size(
    columns: Sequence[Column], rows: Sequence[str], style: Mapping[str, Style], link_bytes_per_s: float = 0.0
) -> Drawing:
    """Plot the absolute cost or rate against message size; lines connect points along this ordered axis only.

    Bandwidths have the link's rate as a line, if the study sets one.
    """
    first = columns[0]
    costs = [
        cell.absolute_s.value for column in columns for cell in column.cells.values() if cell.absolute_s is not None
    ]
    scale, suffix = first.axis(costs)
    traces: list[Spec] = []
    for name in rows:
        points = [
            (column, cell.absolute_s) for column in columns if (cell := column.cells.get(name)) and cell.absolute_s
        ]
        drawn = [(column, cost, column.shown(cost.value) / scale) for column, cost in points]
        bounds = [
            sorted((column.shown(cost.low) / scale, column.shown(cost.high) / scale)) for column, cost, _ in drawn
        ]
        traces.append(
            _size_trace(name, style[name], [column for column, _, _ in drawn], [value for _, _, value in drawn], bounds)
            | {"hovertemplate": f"{name}<br>%{{x}} B: %{{y:.4g}} {suffix}<extra></extra>"}
        )
    quantity = "bandwidth" if first.is_rate else "time"
    counts = [cost.n for column in columns for cell in column.cells.values() if (cost := cell.absolute_s)]
    n = n_text(counts, "rounds")
    layout = _size_layout(columns, {"type": "log", "title": {"text": f"{quantity}, {suffix}"}} | _ticks(traces))
    bound = ""
    if first.is_rate and first.info.rate_unit == "B/s" and link_bytes_per_s:
        layout["shapes"] = [_horizontal(rounded([link_bytes_per_s], scale)[0], "dot")]
        bound = f"Dotted: rate of the link, {units.rate(link_bytes_per_s, 'B/s')}. "
    return Drawing(
        ident=f"sizes-{first.ident}",
        title=takeaways.range_of_sizes(columns),
        caption=f"Points: means over rounds with their intervals. Both axes are logarithmic. {bound}{n}.",
        spec={"data": [trace for trace in traces if trace["x"]], "layout": layout},
    )


def overhead_by_size(
    columns: Sequence[Column], rows: Sequence[str], summary: Summary, style: Mapping[str, Style]
) -> Drawing:
    """Plot the overhead against message size, with margin and noise floor."""
    traces: list[Spec] = []
    counts: list[int] = []
    for name in rows:
        if name in {summary.baseline, summary.self_name}:
            continue
        points = [(column, cell.overhead) for column in columns if (cell := column.cells.get(name)) and cell.overhead]
        bounds = [[overhead.low * 100, overhead.high * 100] for _, overhead in points]
        counts += [overhead.n for _, overhead in points]
        values = [overhead.value * 100 for _, overhead in points]
        traces.append(
            _size_trace(name, style[name], [column for column, _ in points], values, bounds)
            | {"hovertemplate": f"{name}<br>%{{x}} B: %{{y:+.3g}} %<extra></extra>"}
        )
    axis: Spec = {"title": {"text": f"overhead against {summary.baseline}"}, "ticksuffix": " %", "zeroline": False}
    layout = _size_layout(columns, axis)
    layout["shapes"] = [
        _horizontal(0.0, "solid"),
        *(_horizontal(m * 100, "dash") for m in (-summary.margin, summary.margin)),
    ]
    noise = _noise_band(columns, summary)
    return Drawing(
        ident=f"sizes-overhead-{columns[0].ident}",
        title=takeaways.sizes(columns, rows),
        caption=f"Grey: noise floor (A/A); dashed: margin ±{units.percent(summary.margin, sign=False)}. "
        f"{n_text(counts, 'rounds')}.",
        spec={"data": [*noise, *(trace for trace in traces if trace["x"])], "layout": layout},
    )


def _ticks(traces: Sequence[Spec]) -> Spec:
    values = [value for trace in traces for value in trace["y"] if value > 0]
    return log_ticks(min(values), max(values)) if values else {}


def _noise_band(columns: Sequence[Column], summary: Summary) -> list[Spec]:
    floor = [(_size_of(column), cell.overhead) for column in columns if (cell := column.noise) and cell.overhead]
    if not floor:
        return []
    xs = [size for size, _ in floor]
    common: Spec = {"type": "scatter", "mode": "lines", "x": xs, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        common | {"y": [float(f"{e.low * 100:.5g}") for _, e in floor], "showlegend": False},
        common
        | {"y": [float(f"{e.high * 100:.5g}") for _, e in floor], "fill": "tonexty", "fillcolor": BAND}
        | {"name": summary.self_name},
    ]


def _size_of(column: Column) -> int:
    return max(1, column.info.message_bytes or 0)


def _size_trace(
    name: str, look: Style, columns: Sequence[Column], values: Sequence[float], bounds: Sequence[Sequence[float]]
) -> Spec:
    ups = [max(0.0, high - value) for value, (_, high) in zip(values, bounds, strict=True)]
    downs = [max(0.0, value - low) for value, (low, _) in zip(values, bounds, strict=True)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [_size_of(column) for column in columns],
        "y": rounded(values),
        "error_y": {
            "type": "data", "symmetric": False, "array": rounded(ups), "arrayminus": rounded(downs), "width": 3,
            "thickness": 1.5,
        },
        "marker": {"symbol": look.symbol, "size": 7, "color": look.colour},
        "line": {"color": look.colour, "width": 1.6, "dash": look.dash},
    }  # fmt: skip


def _size_layout(columns: Sequence[Column], yaxis: Spec) -> Spec:
    sizes = [_size_of(column) for column in columns]
    kept = sizes[:: -(-len(sizes) // 9)]
    return {
        "height": 360,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "xaxis": {
            "type": "log", "title": {"text": "message size"}, "tickvals": kept,
            "ticktext": [units.size(size) for size in kept],
        },
        "yaxis": yaxis | {"automargin": True},
        "legend": {"traceorder": "normal"},
    }  # fmt: skip


def _horizontal(at: float, dash: str) -> Spec:
    return vertical(0, dash) | {"x0": 0, "x1": 1, "xref": "paper", "y0": at, "y1": at, "yref": "y"}
