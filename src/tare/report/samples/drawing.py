"""Draw launches and samples of large results in a process of its own, while this one lays out the rest of the report.

That process reads the histograms that another one counted (`tare.report.samples.counting`). It is told what the plots
show besides samples, and writes them to a temporary file. Whatever ends it early, the plots are drawn here instead.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tare.host import process
from tare.model import Trial
from tare.report.plots import launches, samples
from tare.report.plots.figures import Drawing
from tare.report.plots.launches import Plotted
from tare.report.plots.styles import Style
from tare.report.runs import ShownLaunch
from tare.report.samples.counting import CountedElsewhere, Counts, CountsFile
from tare.report.samples.histograms import Histograms, columns_of, gap_columns, main_column, row_key
from tare.report.view import Column

CURVE_POINTS: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnColumn:
    """The plots of a column's launches and of their samples."""

    launches: Sequence[Drawing]
    samples: Sequence[Drawing]


Drawings = Mapping[str, DrawnColumn]
"""The plots of a group, drawn, by the identifiers of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the plots of a group show besides samples: its rows, its columns with their launches, its rows' styles.

    `row_of` names the row of each cell with samples, as `row_key` does. Columns have no comparison but the baseline's.
    `plotted` are the launches by the identifiers of columns. `share` is the group's share of the error of patterns.
    """

    group: str
    rows: tuple[str, ...]
    row_of: Mapping[str, str]
    columns: tuple[Column, ...]
    plotted: Mapping[str, Plotted]
    style: Mapping[str, Style]
    baseline: str
    share: float = 1.0

    def draw(self, histograms: Histograms) -> Drawings:
        """Return the plots."""
        return {column.ident: self._drawn(column, histograms) for column in self.columns}

    def _drawn(self, column: Column, histograms: Histograms) -> DrawnColumn:
        of_launches = launches.figures(column, self.plotted[column.ident], self.style)
        return DrawnColumn(
            launches=[figure.drawn() for figure in of_launches],
            samples=[figure.drawn() for figure in self._of_samples(column, histograms)],
        )

    def _of_samples(self, column: Column, histograms: Histograms) -> Sequence[Drawing]:
        names = {row_key(self.group, name): name for name in self.rows}
        keys = {(metric, side) for row, metric, side in histograms if row in names}
        stored, sides_of_metric = columns_of(column.info.key, keys)
        main = main_column(sides_of_metric)
        if main is None:
            return []
        histograms_of = {
            name: {
                side: histograms[row, stored, side]
                for metric, side in keys
                if metric == stored and (row, stored, side) in histograms
            }
            for row, name in names.items()
        }
        curves = {name: sides[main].curve(CURVE_POINTS) for name, sides in histograms_of.items() if main in sides}
        figures = [samples.ecdf(column, curves, self.style, self.baseline, is_gap="gap" in main)]
        gaps = gap_columns(side for metric, side in keys if metric == stored)
        if gaps and main == gaps[0]:
            both = {
                name: {side: sides[side] for side in gaps if side in sides}
                for name, sides in histograms_of.items()
                if sides
            }
            figures.append(samples.gaps(column, both, self.style, self.baseline))
        return figures


@contextmanager
def drawing(
    counts: Counts, wanted: Sequence[Wanted], runs_of: Mapping[str, Sequence[ShownLaunch]]
) -> Iterator[Iterator[Drawings]]:
    """Provide the plots of each group; where another process has counted the samples, another draws them meanwhile.

    While samples are still being counted, there are many of them and few plots, which are then drawn here.
    """
    here = (one.draw(counts(_completed(runs_of.get(one.group, ())))) for one in wanted)
    shown = (run.trial for runs in runs_of.values() for run in runs if run.completed)
    counted = counts.file(shown) if isinstance(counts, CountedElsewhere) else None
    if counted is None:
        yield here
        return
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "drawings").open("w+b") as file:
        work = Path(folder) / "work"
        work.write_bytes(pickle.dumps((counted, wanted)))
        argv = (sys.executable, "-P", "-m", "tare.report.samples.drawing", str(work))
        with process.beside(argv, stdout=file.fileno()) as other:
            yield _drawn(other.wait, file, here)


def _completed(runs: Iterable[ShownLaunch]) -> Iterator[tuple[str, Trial]]:
    return ((row_key(run.group, run.environment), run.trial) for run in runs if run.completed)


def _drawn(wait: Callable[[], int], file: IO[bytes], here: Iterator[Drawings]) -> Iterator[Drawings]:
    """Yield the plots that another process has written, or those that are drawn here; wait for it at the first."""
    if wait() != 0:
        yield from here
        return
    file.seek(0)
    for _ in range(pickle.load(file)):  # written by our own process
        yield pickle.load(file)  # written by our own process


def write_drawings(counted: Path, wanted: Sequence[Wanted], file: IO[bytes]) -> None:
    """Write the number of groups, then the plots of each, drawn."""
    pickle.dump(len(wanted), file)
    with counted.open("rb") as histograms:
        counts = CountsFile(histograms)
        for one in wanted:
            drawings = one.draw(counts.read(one.row_of))
            pickle.dump(drawings, file)
    file.flush()


if __name__ == "__main__":
    given = pickle.loads(Path(sys.argv[1]).read_bytes())  # written by our own process
    write_drawings(given[0], given[1], sys.stdout.buffer)
