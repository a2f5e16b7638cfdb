"""Draw a series of results as inline SVG: points with intervals in order of time, levels, and changes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from tare.compare import wording
from tare.compare.history import CellHistory, History
from tare.report import units

WIDTH: Final = 920.0
HEIGHT: Final = 280.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 16.0, 26.0, 34.0
TICKS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _PointScale:
    """The position of a point: results are equally far apart, values are on a logarithmic axis."""

    count: int
    low: float
    high: float

    def x(self, number: float) -> float:
        step = (WIDTH - LEFT - RIGHT) / max(1, self.count)
        return round(LEFT + step * (number + 0.5), 1)

    def y(self, log: float) -> float:
        part = (min(max(log, self.low), self.high) - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM), 1)


def plot(series: CellHistory, history: History) -> Markup:
    """Return the plot of a series. Texts are escaped; points and changes have titles with their values."""
    scale = _scale(series)
    title = f"{wording.series_name(series)}, over {len(series.points)} results"
    parts = [f'<svg class="series" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img"><title>{escape(title)}</title>']
    parts += [*_axes(series, scale, history), *_levels(series, scale), *_points(series, scale, history)]
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - numbers, fixed text, and texts that are escaped


def _scale(series: CellHistory) -> _PointScale:
    """Return a scale with all points, and the intervals as far as they are not much wider than the points' range."""
    logs = [point.log.value for point in series.points]
    low, high = min(logs), max(logs)
    room = max(high - low, 0.05)
    lowest = min([low, *(max(point.log.low, low - room) for point in series.points)])
    highest = max([high, *(min(point.log.high, high + room) for point in series.points)])
    edge = 0.06 * max(highest - lowest, 0.02)
    return _PointScale(count=len(logs), low=lowest - edge, high=highest + edge)


def _axes(series: CellHistory, scale: _PointScale, history: History) -> list[str]:
    parts = []
    for number in range(TICKS):
        log = scale.low + (scale.high - scale.low) * (number + 0.5) / TICKS
        y = scale.y(log)
        parts.append(f'<path class="grid" d="M{LEFT:g} {y}H{WIDTH - RIGHT:g}"/>')
        parts.append(f'<text x="{LEFT - 8:g}" y="{y + 4:g}" text-anchor="end">{escape(series.text(log))}</text>')
    last = len(series.points) - 1
    for number in sorted({0, last // 2, last}):
        date = wording.date(history.readings[series.points[number].result].began_unix_s)
        anchor = "start" if number == 0 and last else "end" if number == last and last else "middle"
        parts.append(f'<text x="{scale.x(number)}" y="{HEIGHT - 10:g}" text-anchor="{anchor}">{escape(date)}</text>')
    return parts


def _levels(series: CellHistory, scale: _PointScale) -> list[str]:
    parts = []
    for first, end, mean in series.levels:
        parts.append(f'<path class="level" d="M{scale.x(first - 0.4)} {scale.y(mean)}H{scale.x(end - 0.6)}"/>')
    for step in series.steps:
        kind = "slower" if step.ratio.value > 0 else "faster"
        x = scale.x(step.at - 0.5)
        parts.append(f'<path class="change {kind}" d="M{x} {TOP:g}V{HEIGHT - BOTTOM:g}"/>')
        label = f"{kind} by {units.percent(step.ratio.value)}"
        side, anchor = (x - 5, "end") if step.at > len(series.points) / 2 else (x + 5, "start")
        parts.append(f'<text class="{kind}" x="{side:g}" y="{TOP - 8:g}" text-anchor="{anchor}">{escape(label)}</text>')
    return parts


def _points(series: CellHistory, scale: _PointScale, history: History) -> list[str]:
    parts = []
    for number, point in enumerate(series.points):
        x, reading = scale.x(number), history.readings[point.result]
        name = f"{wording.below(reading.path, history.folder)}, {wording.date(reading.began_unix_s)} UTC"
        text = f"{name}: {series.interval(point.log)}, n = {point.log.n}"
        parts.append(f"<g><title>{escape(text)}</title>")
        parts.append(f'<path class="interval" d="M{x} {scale.y(point.log.low)}V{scale.y(point.log.high)}"/>')
        parts.append(f'<circle class="point" cx="{x}" cy="{scale.y(point.log.value)}" r="4"/></g>')
    return parts
