"""Chart a series of results: points with intervals in order of time, levels, and changes. Pure."""

from __future__ import annotations

from typing import Final

from tare.compare import wording
from tare.compare.history import CellHistory, History
from tare.model import Verdict
from tare.report import units
from tare.report.plots.charts import NEUTRAL, Axis, Chart, Dots, Line, Ranges, padded
from tare.report.plots.overhead import VERDICT_COLOURS

BLUE: Final = VERDICT_COLOURS[Verdict.NOT_JUDGED]
TICKS: Final = 4


def chart(series: CellHistory, history: History) -> Chart:
    """Return the chart of a series: results are equally far apart, values are logs; points have titles with them."""
    y, places = _values(series), range(len(series.points))
    levels = [
        Line(x=(first - 0.4, end - 0.6), y=(mean, mean), colour=NEUTRAL, width=2) for first, end, mean in series.levels
    ]
    intervals = Ranges(
        at=places,
        low=[point.log.low for point in series.points],
        high=[point.log.high for point in series.points],
        colour=BLUE,
        width=1.5,
        upright=True,
    )
    points = Dots(
        x=places,
        y=[point.log.value for point in series.points],
        colour=BLUE,
        size=8,
        texts=tuple(
            f"{_name(history, point.result)}: {series.interval(point.log)}, n = {point.log.n}"
            for point in series.points
        ),
    )
    return Chart(
        height=280,
        x=_dates(series, history),
        y=y,
        marks=(*levels, *_changes(series, y), intervals, points),
        legend=True,
        wide=True,
    )


def _name(history: History, result: int) -> str:
    reading = history.readings[result]
    return f"{wording.below(reading.path, history.folder)}, {wording.date(reading.began_unix_s)} UTC"


def _dates(series: CellHistory, history: History) -> Axis:
    last = len(series.points) - 1
    low, high = padded(-0.5, last + 0.5)
    ticks = tuple(
        (number, wording.date(history.readings[series.points[number].result].began_unix_s))
        for number in sorted({0, last // 2, last})
    )
    return Axis(low=low, high=high, ticks=ticks, grid=False)


def _values(series: CellHistory) -> Axis:
    """Return an axis with all points, and the intervals as far as they are not much wider than the points' range."""
    logs = [point.log.value for point in series.points]
    low, high = min(logs), max(logs)
    room = max(high - low, 0.05)
    lowest = min([low, *(max(point.log.low, low - room) for point in series.points)])
    highest = max([high, *(min(point.log.high, high + room) for point in series.points)])
    low, high = padded(lowest, highest, 0.06)
    places = [low + (high - low) * (number + 0.5) / TICKS for number in range(TICKS)]
    return Axis(low=low, high=high, ticks=tuple((place, series.text(place)) for place in places))


def _changes(series: CellHistory, y: Axis) -> list[Line]:
    """Return an upright line for each change; the legend says how large it is."""
    lines = []
    for step in series.steps:
        kind, verdict = ("slower", Verdict.COSTS) if step.ratio.value > 0 else ("faster", Verdict.GAINS)
        at, name = step.at - 0.5, f"{kind} by {units.percent(step.ratio.value)}"
        lines.append(Line(x=(at, at), y=(y.low, y.high), colour=VERDICT_COLOURS[verdict], dash="dash", name=name))
    return lines
