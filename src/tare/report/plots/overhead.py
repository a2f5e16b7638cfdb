"""Plot overheads with their intervals: by environment, and against message size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare.model import Comparison, Estimate, Summary, Verdict
from tare.report import units
from tare.report.plots import takeaways
from tare.report.plots.charts import (
    NEUTRAL,
    Area,
    Axis,
    Band,
    Chart,
    Dots,
    Line,
    Mark,
    Ranges,
    Rule,
    linear_axis,
    log_axis,
    padded,
    row_axis,
)
from tare.report.plots.figures import Drawing, n_text
from tare.report.plots.styles import BASE_COLOUR, Style
from tare.report.verdicts import VERDICT_STYLES, mark
from tare.report.view import MetricColumn

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
_SYMBOLS: Final = {
    Verdict.COSTS: "triangle-up", Verdict.GAINS: "triangle-down", Verdict.INCONCLUSIVE: "diamond",
}  # fmt: skip


def forest(column: MetricColumn, rows: Sequence[str], summary: Summary) -> Drawing:
    """Plot each environment's overhead with its interval against zero, the noise floor and the margin."""
    drawn = {name: cell for name in rows if (cell := column.cells.get(name)) and cell.overhead}
    scale = _OverheadScale.of(list(drawn.values()), summary)
    shown = [name for name in rows if name != summary.baseline]
    chart = Chart(
        height=62 + 27 * len(shown),
        x=scale.axis,
        y=row_axis(shown),
        marks=(*_bounds(column, summary, scale), *_intervals(drawn, shown, scale, column)),
        row_texts=tuple((row, _row_text(column.cells.get(name), column)) for row, name in enumerate(shown)),
    )
    near = scale.near(summary)
    closer = None
    if near is not None:
        marks = (*_bounds(column, summary, near), *_intervals(drawn, shown, near, column))
        closer = replace(chart, x=near.axis, marks=marks)
    counts = n_text([cell.overhead.n for cell in drawn.values() if cell.overhead], "rounds")
    confidence = f"{summary.confidence * 100:g} %"
    limit = f"; dotted: limit {units.percent(summary.limit, sign=False)}" if summary.limit is not None else ""
    return Drawing(
        ident=f"forest-{column.ident}",
        title=takeaways.overhead(column, rows, summary),
        caption=f"Thick: {confidence} interval; thin: interval adjusted for the table (Holm) and for looks. Grey band: "
        f"noise floor (A/A); dashed: margin ±{units.percent(summary.margin, sign=False)}{limit}. {counts}.",
        chart=chart,
        closer=closer,
        closer_name="Near zero",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OverheadScale:
    """The axis of overheads: linear in per cent, or logarithmic in ratios if an overhead is many-fold."""

    logarithmic: bool
    axis: Axis

    @classmethod
    def of(cls, cells: Sequence[Comparison], summary: Summary) -> _OverheadScale:
        bounds = [bound for cell in cells if cell.overhead for bound in (cell.overhead.low, cell.overhead.high)]
        finite = [bound for bound in bounds if math.isfinite(bound)]
        low, high = min([-2 * summary.margin, *finite]), max([2 * summary.margin, *finite])
        title = f"overhead against {summary.baseline}"
        if high <= _LOG_FROM:
            return cls(logarithmic=False, axis=_percent_axis(*padded(100 * low, 100 * high), title))
        ticks = tuple(
            (tick, f"×{tick:g}" if tick >= 2 else f"{units.percent(tick - 1)}")
            for tick in _RATIO_TICKS
            if (1 + low) * 0.8 <= tick <= (1 + high) * 1.3
        )
        least, most = padded(max(1 + low, 0.01), 1 + high, log=True)
        return cls(logarithmic=True, axis=Axis(low=least, high=most, ticks=ticks, title=title, log=True))

    def near(self, summary: Summary) -> _OverheadScale | None:
        """Return the scale of the view near zero, or None if the whole range is not much wider than the margin."""
        reach = 4 * summary.margin * 100
        if self.logarithmic or self.axis.high - self.axis.low <= 4 * reach:
            return None
        return _OverheadScale(logarithmic=False, axis=_percent_axis(-reach, reach, self.axis.title))

    def at(self, overhead: float) -> float:
        if not math.isfinite(overhead):
            return self.axis.high * 2 if overhead > 0 else self.axis.low / 2 if self.logarithmic else self.axis.low * 2
        return 1 + overhead if self.logarithmic else overhead * 100


def _percent_axis(low: float, high: float, title: str) -> Axis:
    return linear_axis(low, high, title, " %", signed=True)


def _ranges(estimates: Sequence[tuple[float, Estimate]], scale: _OverheadScale, width: float, colour: str) -> Ranges:
    return Ranges(
        at=[row for row, _ in estimates],
        low=[scale.at(estimate.low) for _, estimate in estimates],
        high=[scale.at(estimate.high) for _, estimate in estimates],
        colour=colour,
        width=width,
    )


def _intervals(
    drawn: Mapping[str, Comparison], shown: Sequence[str], scale: _OverheadScale, column: MetricColumn
) -> Iterator[Mark]:
    """Yield the intervals of all environments, and their points on them, by verdict."""
    row_of = {name: float(row) for row, name in enumerate(shown)}
    wide = [(row_of[name], cell.simultaneous) for name, cell in drawn.items() if cell.simultaneous and name in row_of]
    yield _ranges(wide, scale, 1.4, NEUTRAL)
    for verdict, colour in VERDICT_COLOURS.items():
        cells = [(row_of[name], cell) for name, cell in drawn.items() if cell.verdict is verdict and name in row_of]
        estimates = [(row, cell.overhead) for row, cell in cells if cell.overhead]
        if estimates:
            yield _ranges(estimates, scale, 4.5, colour)
            yield Dots(
                x=[scale.at(estimate.value) for _, estimate in estimates],
                y=[row for row, _ in estimates],
                colour=colour,
                symbol=_SYMBOLS.get(verdict, "circle"),
                size=9,
                texts=tuple(_hover(cell, column) for _, cell in cells),
            )


def _hover(cell: Comparison, column: MetricColumn) -> str:
    lines = [f"{cell.environment}: {cell.verdict.value}"]
    if cell.overhead:
        lines.append(f"overhead {units.overhead_interval(cell.overhead)}, n = {cell.overhead.n}")
    if cell.simultaneous:
        lines.append(f"adjusted interval {units.overhead_interval(cell.simultaneous).bounds}")
    if cell.added_s:
        lines.append(f"added {column.added(cell.added_s)}")
    if cell.absolute_s:
        lines.append(f"absolute {column.absolute(cell.absolute_s)}")
    return "\n".join(lines)


def _row_text(cell: Comparison | None, column: MetricColumn) -> str:
    """Return the verdict and the value that stand on the right of a row."""
    if cell is None or cell.overhead is None:
        verdict = cell.verdict if cell else Verdict.UNAVAILABLE
        return f"{VERDICT_STYLES[verdict].symbol} {verdict.value}"
    added_s = cell.added_s if column.leads_with_time and cell.added_s else None
    text = column.added(added_s).main if added_s else units.overhead_interval(cell.overhead).main
    return f"{mark(cell.verdict, cell.within)} {text}"


def _bounds(column: MetricColumn, summary: Summary, scale: _OverheadScale) -> Iterator[Mark]:
    if column.noise and column.noise.overhead:
        yield Band(low=scale.at(column.noise.overhead.low), high=scale.at(column.noise.overhead.high))
    for bound in (-summary.margin, summary.margin):
        yield Rule(at=scale.at(bound), dash="dash")
    yield Rule(at=scale.at(0.0))
    if summary.limit is not None:
        yield Rule(at=scale.at(summary.limit), dash="dot")


# --- against message size ---------------------------------------------------------------------------------------


def by_size(
    columns: Sequence[MetricColumn], rows: Sequence[str], style: Mapping[str, Style], link_bytes_per_s: float = 0.0
) -> Drawing:
    """Plot the absolute cost or rate against message size; lines connect points along this ordered axis only.

    Bandwidths have the link's rate as a line, if the study sets one.
    """
    first = columns[0]
    costs = [cost for column in columns for cell in column.cells.values() if (cost := cell.absolute_s) is not None]
    scale, suffix = first.axis([cost.value for cost in costs])
    marks: list[Mark] = []
    for name in rows:
        points = [
            (column, cell.absolute_s) for column in columns if (cell := column.cells.get(name)) and cell.absolute_s
        ]
        values = [column.shown(cost.value) / scale for column, cost in points]
        bounds = [sorted((column.shown(cost.low) / scale, column.shown(cost.high) / scale)) for column, cost in points]
        marks += _size_marks(name, style[name], [column for column, _ in points], values, bounds)
    quantity = "bandwidth" if first.is_rate else "time"
    drawn = [value for mark in marks if isinstance(mark, Line) for value in mark.y if value > 0]
    bound = ""
    if first.is_rate and first.info.rate_unit == "B/s" and link_bytes_per_s:
        sizes = [_size_of(column) for column in columns]
        limit = link_bytes_per_s / scale
        marks.append(Line(x=[min(sizes), max(sizes)], y=[limit, limit], colour=NEUTRAL, dash="dot", width=1.2))
        drawn.append(limit)
        bound = f"Dotted: rate of the link, {units.rate(link_bytes_per_s, 'B/s')}. "
    y = log_axis(*padded(min(drawn, default=1.0), max(drawn, default=1.0), log=True), f"{quantity}, {suffix}")
    n = n_text([cost.n for cost in costs], "rounds")
    return Drawing(
        ident=f"sizes-{first.ident}",
        title=takeaways.range_of_sizes(columns),
        caption=f"Points: means over rounds with their intervals. Both axes are logarithmic. {bound}{n}.",
        chart=Chart(height=340, x=_size_axis(columns), y=y, marks=tuple(marks), legend=True),
    )


def overhead_by_size(
    columns: Sequence[MetricColumn], rows: Sequence[str], summary: Summary, style: Mapping[str, Style]
) -> Drawing:
    """Plot the overhead against message size, with margin and noise floor."""
    marks: list[Mark] = [*_noise_area(columns, summary), Rule(at=0.0, upright=False)]
    marks += [Rule(at=bound * 100, dash="dash", upright=False) for bound in (-summary.margin, summary.margin)]
    counts: list[int] = []
    for name in rows:
        if name in {summary.baseline, summary.self_name}:
            continue
        points = [(column, cell.overhead) for column in columns if (cell := column.cells.get(name)) and cell.overhead]
        bounds = [[overhead.low * 100, overhead.high * 100] for _, overhead in points]
        counts += [overhead.n for _, overhead in points]
        values = [overhead.value * 100 for _, overhead in points]
        marks += _size_marks(name, style[name], [column for column, _ in points], values, bounds)
    lines = [value for mark in marks if isinstance(mark, Line) for value in mark.y]
    low, high = min([-200 * summary.margin, *lines]), max([200 * summary.margin, *lines])
    return Drawing(
        ident=f"sizes-overhead-{columns[0].ident}",
        title=takeaways.sizes(columns, rows),
        caption=f"Grey: noise floor (A/A); dashed: margin ±{units.percent(summary.margin, sign=False)}. "
        f"{n_text(counts, 'rounds')}.",
        chart=Chart(
            height=340,
            x=_size_axis(columns),
            y=_percent_axis(*padded(low, high), f"overhead against {summary.baseline}"),
            marks=tuple(marks),
            legend=True,
        ),
    )


def _noise_area(columns: Sequence[MetricColumn], summary: Summary) -> Iterator[Mark]:
    floor = [(_size_of(column), cell.overhead) for column in columns if (cell := column.noise) and cell.overhead]
    if floor:
        yield Area(
            x=[size for size, _ in floor],
            low=[estimate.low * 100 for _, estimate in floor],
            high=[estimate.high * 100 for _, estimate in floor],
            colour=NEUTRAL,
            name=summary.self_name,
        )


def _size_of(column: MetricColumn) -> int:
    return max(1, column.info.message_bytes or 0)


def _size_marks(
    name: str, look: Style, columns: Sequence[MetricColumn], values: Sequence[float], bounds: Sequence[Sequence[float]]
) -> Iterator[Mark]:
    if not values:
        return
    sizes = [_size_of(column) for column in columns]
    yield Ranges(
        at=sizes,
        low=[low for low, _ in bounds],
        high=[high for _, high in bounds],
        colour=look.colour,
        width=1.4,
        upright=True,
    )
    yield Line(x=sizes, y=values, colour=look.colour, dash=look.dash, width=1.6)
    yield Dots(x=sizes, y=values, colour=look.colour, symbol=look.symbol, size=7, name=name)


def _size_axis(columns: Sequence[MetricColumn]) -> Axis:
    sizes = [_size_of(column) for column in columns]
    low, high = padded(min(sizes), max(sizes), log=True)
    ticks = tuple((size, units.size(size)) for size in sizes)
    return Axis(low=low, high=high, ticks=ticks, title="message size", log=True)
