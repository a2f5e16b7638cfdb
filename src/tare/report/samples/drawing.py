"""Draw launches and samples of large results in a process of its own, while this one lays out the rest of the report.

That process reads the histograms that another one counts (`tare.report.samples.counting`). It is told what the plots
show besides samples, as JSON and arrays of numbers, and writes them to a temporary file, a line of JSON for each group,
those of launches first: samples may still be counted.
Once this process waits for the plots, it draws too: samples are drawn from the first group on there and from the last
one on here, until the two meet. Whatever ends one of the others early, all plots are drawn here instead.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np

from tare.analysis.summary.patterns.iterations import OfLaunches, patterns_of_iterations
from tare.model import Pattern, Trial
from tare.report.frames.source import NumberedTrial
from tare.report.plots import launches, patterns, samples
from tare.report.plots.figures import Drawing
from tare.report.plots.launches import PlottedLaunches, Points, plotted_as
from tare.report.plots.styles import Style
from tare.report.samples.counting import CountingProcess, Counts, CountsFile, digests_of
from tare.report.samples.histograms import Histograms, LogHistogram, columns_of, gap_columns, main_column, row_key
from tare.report.view import MetricColumn
from tare.store.codec import decode, encode
from tare.system import process

CURVE_POINTS: Final = 240
WAIT_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnColumn:
    """The plots of a column's launches and of their samples."""

    launches: Sequence[Drawing]
    samples: Sequence[Drawing]


Plots = Mapping[str, Sequence[Drawing]]
Drawings = Mapping[str, DrawnColumn]
"""The plots of a group, drawn, by the identifiers of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlots:
    """What the plots of a group show besides samples: its rows, its columns with their launches, its rows' styles.

    `row_of` names the row of each cell with samples, as `row_key` does. Columns have no comparison but the baseline's.
    `plotted` are the launches by the identifiers of columns. `share` is the group's share of the error of patterns.
    """

    group: str
    rows: tuple[str, ...]
    row_of: Mapping[str, str]
    columns: tuple[MetricColumn, ...]
    plotted: Mapping[str, PlottedLaunches]
    style: Mapping[str, Style]
    baseline: str
    share: float = 1.0

    def write(self, file: IO[bytes]) -> None:
        """Write it as a line of JSON, followed by an array of numbers for each column."""
        stated = {
            "group": self.group,
            "rows": self.rows,
            "row_of": dict(self.row_of),
            "columns": [encode(_without_launches(column)) for column in self.columns],
            "plotted": {
                ident: {name: len(one.orders) for name, one in plotted.by_row.items()}
                for ident, plotted in self.plotted.items()
            },
            "style": encode(self.style),
            "baseline": self.baseline,
            "share": self.share,
        }
        file.write(json.dumps(stated).encode() + b"\n")
        for column in self.columns:
            of_rows = [one.numbers for one in self.plotted[column.ident].by_row.values()]
            np.lib.format.write_array(file, np.hstack([np.empty((3, 0)), *of_rows]), allow_pickle=False)

    @classmethod
    def read(cls, file: IO[bytes]) -> Self:
        """Return what `write` wrote."""
        stated: dict[str, Any] = json.loads(file.readline())
        columns = tuple(decode(MetricColumn, each) for each in stated.pop("columns"))
        counts, plotted = stated.pop("plotted"), {}
        for column in columns:
            numbers, by_row, begin = np.lib.format.read_array(file, allow_pickle=False), {}, 0
            for name, count in counts[column.ident].items():
                by_row[name] = Points.of_numbers(numbers[:, begin : begin + count])
                begin += count
            plotted[column.ident] = plotted_as(column, by_row)
        style = {name: decode(Style, each) for name, each in stated.pop("style").items()}
        return cls(rows=tuple(stated.pop("rows")), columns=columns, plotted=plotted, style=style, **stated)

    def draw(self, histograms: Histograms) -> Drawings:
        """Return the plots of launches and samples."""
        return _joined(self.draw_launches(), self.draw_samples(histograms))

    def draw_launches(self) -> Plots:
        """Return the plots of launches."""
        figures_of = {
            column.ident: launches.figures(column, self.plotted[column.ident], self.style) for column in self.columns
        }
        return {ident: [figure.drawn() for figure in figures] for ident, figures in figures_of.items()}

    def draw_samples(self, histograms: Histograms) -> Plots:
        """Return the plots of samples, and of what the order of iterations shows."""
        sampled = {column.ident: self._sampled(column, histograms) for column in self.columns}
        found = patterns_of_iterations(self.group, self._order(sampled), self.share)
        return {
            column.ident: [figure.drawn() for figure in self._of_samples(column, sampled[column.ident], found)]
            for column in self.columns
        }

    def _sampled(self, column: MetricColumn, histograms: Histograms) -> _Sampled:
        names = {row_key(self.group, name): name for name in self.rows}
        keys = {(metric, side) for row, metric, side in histograms if row in names}
        stored, sides = columns_of(column.info.key, keys)
        stored_sides = sorted(side for metric, side in keys if metric == stored)
        of_row = {
            name: {side: histograms[row, stored, side] for side in stored_sides if (row, stored, side) in histograms}
            for row, name in names.items()
        }
        return _Sampled(main=main_column(sides), sides=stored_sides, of_row=of_row)

    def _order(self, sampled: Mapping[str, _Sampled]) -> OfLaunches:
        """Return what the order of iterations shows in the launches of each row and column."""
        return {
            (name, column.info.key): (one.order.lags, one.order.profiles)
            for column in self.columns
            for name, one in sampled[column.ident].mains.items()
        }

    def _of_samples(self, column: MetricColumn, sampled: _Sampled, found: Sequence[Pattern]) -> Iterator[Drawing]:
        if sampled.main is None:
            return
        curves = {name: one.curve(CURVE_POINTS) for name, one in sampled.mains.items()}
        yield samples.ecdf(column, curves, self.style, self.baseline, is_gap="gap" in sampled.main)
        gaps = gap_columns(sampled.sides)
        if gaps and sampled.main == gaps[0]:
            both = {
                name: {side: sides[side] for side in gaps if side in sides}
                for name, sides in sampled.of_row.items()
                if sides
            }
            yield samples.gaps(column, both, self.style, self.baseline)
        yield from patterns.of_iterations(column, found, sampled.mains, self.style)


def _without_launches(column: MetricColumn) -> MetricColumn:
    """Return a column whose baseline has no figures of single launches, of which there may be many."""
    baseline = column.baseline and replace(column.baseline, rounds=(), values_s=(), means_s=())
    return replace(column, baseline=baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sampled:
    """The histograms of a column: by row those of all `sides` that are stored with it, of which `main` is its own."""

    main: str | None
    sides: Sequence[str]
    of_row: Mapping[str, Mapping[str, LogHistogram]]

    @property
    def mains(self) -> dict[str, LogHistogram]:
        """Return the histogram of the side that the metric is computed from, of each row that has it."""
        main = self.main
        return {name: sides[main] for name, sides in self.of_row.items() if main is not None and main in sides}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingTask:
    """What two processes draw together: the groups, the file of their histograms, and a folder that both may write."""

    folder: Path
    counted: Path
    digests: Mapping[str, str]
    wanted: Sequence[GroupPlots]

    def write(self, file: IO[bytes]) -> None:
        """Write it for the other process."""
        stated = str(self.folder), str(self.counted), dict(self.digests), len(self.wanted)
        file.write(json.dumps(stated).encode() + b"\n")
        for one in self.wanted:
            one.write(file)

    @classmethod
    def read(cls, file: IO[bytes]) -> Self:
        """Return what `write` wrote."""
        folder, counted, digests, count = json.loads(file.readline())
        wanted = [GroupPlots.read(file) for _ in range(count)]
        return cls(folder=Path(folder), counted=Path(counted), digests=digests, wanted=wanted)

    @contextmanager
    def histograms(self) -> Iterator[CountsFile | None]:
        """Provide the histograms of the groups, None if other files of samples were counted."""
        with self.counted.open("rb") as file:
            counts = CountsFile(file)
            yield counts if counts.has(self.digests) else None

    def samples(self, counts: CountsFile, numbers: Iterable[int]) -> Iterator[tuple[int, Plots]]:
        """Yield the plots of the samples of each of these groups that the other process has not begun with."""
        for number in numbers:
            if self._begin(number):
                one = self.wanted[number]
                yield number, one.draw_samples(counts.read(one.row_of))

    def _begin(self, number: int) -> bool:
        try:
            (self.folder / f"begun-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@contextmanager
def drawing(
    counts: Counts, wanted: Sequence[GroupPlots], runs_of: Mapping[str, Sequence[NumberedTrial]]
) -> Iterator[Iterator[Drawings]]:
    """Provide the plots of each group; where another process counts the samples, a third draws them meanwhile."""
    here = (one.draw(counts(_completed(runs_of.get(one.group, ())))) for one in wanted)
    if not isinstance(counts, CountingProcess):
        yield here
        return
    digests = digests_of(run.trial for runs in runs_of.values() for run in runs if run.completed)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "drawings").open("w+b") as file:
        work = DrawingTask(folder=Path(folder), counted=counts.path, digests=digests, wanted=wanted)
        given = work.folder / "work"
        with given.open("wb") as handed:
            work.write(handed)
        argv = (sys.executable, "-P", "-m", "tare.report.samples.drawing", str(given))
        with process.beside(argv, stdout=file.fileno()) as other:
            yield _drawn(work, counts.wait, other.wait, file, here)


def _completed(runs: Iterable[NumberedTrial]) -> Iterator[tuple[str, Trial]]:
    return ((row_key(run.group, run.environment), run.trial) for run in runs if run.completed)


def _drawn(
    work: DrawingTask, counted: Callable[[], int], drawn: Callable[[], int], file: IO[bytes], here: Iterator[Drawings]
) -> Iterator[Drawings]:
    """Yield the plots of each group; draw samples until none are left, then wait for the other process's."""
    own: dict[int, Plots] = {}
    if counted() == 0:
        with work.histograms() as histograms:
            if histograms is not None:
                own = dict(work.samples(histograms, reversed(range(len(work.wanted)))))
    if counted() != 0 or drawn() != 0:
        yield from here
        return
    file.seek(0)
    of_launches = [_read_plots(file) for _ in work.wanted]
    for number, one in enumerate(of_launches):
        yield _joined(one, own[number] if number in own else _read_plots(file))


def _joined(of_launches: Plots, of_samples: Plots) -> Drawings:
    return {ident: DrawnColumn(launches=of_launches[ident], samples=of_samples[ident]) for ident in of_launches}


def _write_plots(plots: Plots, file: IO[bytes]) -> None:
    stored = {ident: [figure.stored for figure in figures] for ident, figures in plots.items()}
    file.write(json.dumps(stored).encode() + b"\n")


def _read_plots(file: IO[bytes]) -> Plots:
    stored: dict[str, list[list[str]]] = json.loads(file.readline())
    return {ident: [Drawing.restored(texts) for texts in figures] for ident, figures in stored.items()}


# --- in the other process ---------------------------------------------------------------------------------------------


def write_drawings(work: DrawingTask, file: IO[bytes]) -> None:
    """Write the plots of launches of each group, and once the samples are counted the plots of samples of some."""
    for one in work.wanted:
        _write_plots(one.draw_launches(), file)
    _wait_for(work.counted)
    with work.histograms() as histograms:
        if histograms is None:
            raise SystemExit(1)
        for _, plots in work.samples(histograms, range(len(work.wanted))):
            _write_plots(plots, file)
    file.flush()


def _wait_for(path: Path) -> None:
    """Wait until another process has written a file; exit if the one that reads the plots is gone."""
    reader = os.getppid()
    while not path.exists():
        if os.getppid() != reader:
            raise SystemExit(1)
        time.sleep(WAIT_S)


if __name__ == "__main__":
    with Path(sys.argv[1]).open("rb") as given:
        handed_over = DrawingTask.read(given)
    write_drawings(handed_over, sys.stdout.buffer)
