"""Follow cells over many results in order of time, and find where their level changed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from tare.analysis import stats
from tare.compare.compare import growth, overhead_text
from tare.compare.differences import FactDifference, differences
from tare.compare.reading import CellCosts, CellMetric, ComparedResults, read
from tare.errors import ResultsError, TareError, UsageError
from tare.model import Estimate
from tare.model.text import printable
from tare.report import units
from tare.store.results import PLAN

DEEPEST: Final = 6
"""Levels of folders below the one that is named in which results are looked for."""
MOST_FOLDERS: Final = 1000
MOST_VISITED: Final = 100_000
MOST_SERIES: Final = 500
"""Most series of one history: with more, the test of each could not reach its share of the error."""
ALPHA: Final = 0.05
"""Probability of a false alarm in a whole history, divided equally among its series (Bonferroni)."""
LISTED: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One result in a series: its index, the mean log over rounds with its interval, and the standard error of that."""

    result: int
    log: Estimate
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """A change of level in a series.

    `at` is the index of the first point of the new level. `ratio` is new to old level, minus one. `differences` are
    those between the results before and after; they could be its cause.
    """

    at: int
    ratio: Estimate
    p_value: float
    differences: tuple[FactDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellHistory:
    """One metric of one cell over the results that have it, in order of time; `what` is `cost` or `overhead`.

    `levels` are (index of the first point, index after the last, mean log), one more than there are steps. `costs` are
    those of the newest result that has any.
    """

    place: CellMetric
    label: str
    what: str
    points: tuple[Point, ...]
    steps: tuple[LevelChange, ...]
    levels: tuple[tuple[int, int, float], ...]
    costs: CellCosts

    def text(self, log: float) -> str:
        """Return a value of the series, given as its log, with its unit."""
        return overhead_text(log) if self.what == "overhead" else self.costs.text(log)

    def interval(self, logs: Estimate) -> str:
        """Return a value of the series and its interval, given as logs, with their unit."""
        if self.what == "cost":
            return self.costs.interval(logs)
        return str(units.overhead_interval(logs.map(growth)))

    def slower_within(self, last: int) -> LevelChange | None:
        """Return the latest change if it is to slower and at one of the last points; None otherwise."""
        step = self.steps[-1] if self.steps else None
        return step if step and step.ratio.value > 0 and step.at >= len(self.points) - last else None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Results in order of time, series over them, and why folders were left out."""

    folder: Path
    readings: tuple[ComparedResults, ...]
    series: tuple[CellHistory, ...]
    left_out: tuple[str, ...]
    alpha: float
    margin: float


def find_results(folder: Path) -> list[Path]:
    """Return the results folders in and below a folder, without following links.

    Raises `ResultsError` if there is no such folder, no results folder in it, or more than MOST_FOLDERS.
    """
    if not folder.is_dir():
        raise ResultsError(f"folder {folder} not found", remedy="name a folder that has results folders")
    found: list[Path] = []
    for number, (place, folders, files) in enumerate(os.walk(folder)):
        depth = len(Path(place).relative_to(folder).parts)
        if PLAN in files:
            found.append(Path(place))
        folders[:] = [] if PLAN in files or depth >= DEEPEST else sorted(folders)
        if len(found) > MOST_FOLDERS or number > MOST_VISITED:
            limit = f"{MOST_FOLDERS} results" if len(found) > MOST_FOLDERS else f"{MOST_VISITED} folders"
            raise ResultsError(f"{folder} has more than {limit}", remedy="name a folder below it")
    if not found:
        raise ResultsError(
            f"{folder} has no results folder, down to {DEEPEST} levels below it",
            remedy="name the folder that `tare run --results` wrote to, or one above it",
        )
    return found


def history(folder: Path, cells: Sequence[str] = (), *, overhead: bool = False, last: int = 100) -> History:
    """Read all results below a folder and return the series of their cells with changes of level.

    `cells` are parts of `GROUP / ENVIRONMENT / METRIC`; a series is shown if it contains one of them (in any case of
    letters), all series if there are none. With `overhead`, the log ratio to the baseline is followed instead of the
    cost. Only the newest `last` results are used. Unreadable folders are left out and named. A change smaller than the
    newest result's margin is not reported. Raises `ResultsError` and `UsageError`.
    """
    readings, left_out = _readings(find_results(folder))
    left_out += (
        [f"{len(readings) - last} older results: only the newest {last} are used"] if len(readings) > last else []
    )
    readings = readings[-last:]
    places = _chosen(readings, cells, overhead)
    alpha = ALPHA / len(places)
    margin = readings[-1].margin
    return History(
        folder=folder,
        readings=tuple(readings),
        series=tuple(_series(readings, place, overhead, alpha, margin) for place in places),
        left_out=tuple(left_out),
        alpha=ALPHA,
        margin=margin,
    )


def _readings(folders: Sequence[Path]) -> tuple[list[ComparedResults], list[str]]:
    readings, left_out = [], []
    for each in folders:
        try:
            readings.append(read(each))
        except TareError as error:
            left_out.append(printable(error.message))
    if not readings:
        raise ResultsError(f"no results folder can be read: {left_out[0]}", remedy="restore it from a copy")
    return sorted(readings, key=lambda each: (each.began_unix_s, str(each.path))), left_out


def _chosen(readings: Sequence[ComparedResults], cells: Sequence[str], overhead: bool) -> list[CellMetric]:
    """Return the places with figures that were asked for, in the order of the newest result that has them."""
    known = [
        place
        for place in dict.fromkeys(place for reading in reversed(readings) for place in reading.costs)
        if any(_values(reading, place, overhead) is not None for reading in readings)
    ]
    asked = [cell.casefold() for cell in cells]
    chosen = [place for place in known if not asked or any(cell in _name(readings, place).casefold() for cell in asked)]
    if not chosen:
        listed = "; ".join(_name(readings, place) for place in known[:LISTED])
        more = f"; and {len(known) - LISTED} more" if len(known) > LISTED else ""
        raise UsageError(
            f"no series matches --cell {' or '.join(cells)}" if cells else "the results have no figures to follow",
            remedy=f"there are: {listed}{more}" if known else "see `tare report` on one of them for the reasons",
        )
    if len(chosen) > MOST_SERIES:
        raise UsageError(f"{len(chosen)} series are more than {MOST_SERIES}", remedy="choose some with --cell")
    return chosen


def _name(readings: Sequence[ComparedResults], place: CellMetric) -> str:
    """Return the name of a series with the metric's key and its label, of which --cell may have a part."""
    info = next(reading.costs[place].info for reading in readings if place in reading.costs)
    return f"{place} ({info.label})" if info.label != place.metric else str(place)


def _values(reading: ComparedResults, place: CellMetric, overhead: bool) -> stats.FloatArray | None:
    """Return a result's logs of a place, one per round; None without any."""
    costs = reading.costs.get(place)
    logs = None if costs is None else costs.overheads if overhead else costs.logs
    return logs if logs is not None and logs.size else None


# --- series -------------------------------------------------------------------------------------------------------


def _series(
    readings: Sequence[ComparedResults], place: CellMetric, overhead: bool, alpha: float, margin: float
) -> CellHistory:
    costs = next(reading.costs[place] for reading in reversed(readings) if place in reading.costs)
    points = tuple(_points(readings, place, overhead))
    logs = [point.log.value for point in points]
    changes = stats.change_points(
        logs,
        [point.error for point in points],
        alpha=alpha,
        least=math.log1p(margin),
        confidence=readings[-1].confidence,
    )
    return CellHistory(
        place=place,
        label=costs.info.label,
        what="overhead" if overhead else "cost",
        points=points,
        steps=tuple(_step(change, points, readings) for change in changes),
        levels=stats.levels(logs, changes),
        costs=costs,
    )


def _points(readings: Sequence[ComparedResults], place: CellMetric, overhead: bool) -> Iterator[Point]:
    for number, reading in enumerate(readings):
        values = _values(reading, place, overhead)
        if values is None:
            continue
        mean = float(values.mean())
        interval = stats.mean_interval(values, reading.confidence)
        known = interval or Estimate(value=mean, low=mean, high=mean, n=1)
        yield Point(result=number, log=known, error=_error(values))


def _error(values: stats.FloatArray) -> float:
    """Return the standard error of the mean over rounds; 0 (unknown) for one round."""
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0


def _step(change: stats.ChangePoint, points: Sequence[Point], readings: Sequence[ComparedResults]) -> LevelChange:
    before, after = readings[points[change.at - 1].result], readings[points[change.at].result]
    found = [each for each in differences((before, after)) if each.between(0, 1)]
    return LevelChange(
        at=change.at,
        ratio=change.shift.map(growth),
        p_value=change.p_value,
        differences=tuple(found),
    )


def differing_kinds(readings: Sequence[ComparedResults]) -> list[tuple[str, ...]]:
    """Return for each result the kinds of facts in which it differs from the one before it; none for the first."""
    kinds: list[tuple[str, ...]] = [()]
    for before, after in pairwise(readings):
        kinds.append(tuple(dict.fromkeys(each.kind for each in differences((before, after)) if each.between(0, 1))))
    return kinds
