"""Count the samples of large results in a process of its own, while this one computes the summary.

100,000 files of samples take as long to read as the summary. The other process is told the files of each cell, and
writes its histograms to a temporary file. It is a new one, not a copy of this one: a copy would soon have its own of
every page of this one's memory. Whatever ends it early, the samples are counted here instead.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

from tare.host import process
from tare.model import Completed, Plan, Trial
from tare.report.samples.histograms import Histograms, Read, SampleSource, collect, count
from tare.summary.select import select

MANY: Final = 5_000
"""Launches from which another process saves more time than it takes."""

Counts = Callable[[Iterable[tuple[str, Trial]]], Histograms]
"""Returns the histograms of trials, each paired with its row."""


@contextmanager
def counting(plan: Plan, trials: Sequence[Trial], source: SampleSource) -> Iterator[Counts]:
    """Provide the histograms of the launches that count; those of many are counted meanwhile, on another core."""
    here = partial(collect, source)
    if len(trials) < MANY or len(os.sched_getaffinity(0)) < 2:
        yield here
        return
    with tempfile.TemporaryDirectory() as folder, (path := Path(folder) / "histograms").open("wb") as file:
        work = Path(folder) / "work"
        work.write_bytes(pickle.dumps(_readers(plan, trials, source)))
        argv = (sys.executable, "-P", "-m", "tare.report.samples.counting", str(work))
        with process.beside(argv, stdout=file.fileno()) as other:
            yield CountedElsewhere(other.poll, other.wait, path, here)


def _readers(plan: Plan, trials: Sequence[Trial], source: SampleSource) -> dict[str, list[Read]]:
    """Return what reads the samples of the launches that count, by cell."""
    return {
        cell: [source.reader(trial) for trial in chosen.values() if isinstance(trial.outcome, Completed)]
        for cell, chosen in select(plan, trials).trials.items()
    }


class CountedElsewhere:
    """The process that counts, from this one's side; called with trials, it returns their histograms."""

    def __init__(self, poll: Callable[[], int | None], wait: Callable[[], int], path: Path, here: Counts) -> None:
        self._poll, self._wait, self._path, self._here = poll, wait, path, here

    def file(self) -> Path | None:
        """Return the file of histograms; None if the process has not written it yet, or could not."""
        return self._path if self._poll() == 0 else None

    def __call__(self, trials: Iterable[tuple[str, Trial]]) -> Histograms:
        """Return the histograms of trials, each paired with its row; wait for the process at the first call."""
        if self._wait() != 0:
            return self._here(trials)
        with self._path.open("rb") as file:
            return CountsFile(file).read({trial.key.cell: row for row, trial in trials})


class CountsFile:
    """A file of `write_counts`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        file.seek(-8, os.SEEK_END)
        file.seek(int.from_bytes(file.read(8), "little"))
        self._places: Mapping[str, int] = pickle.load(file)  # written by our own process

    def read(self, row_of: Mapping[str, str]) -> Histograms:
        """Return the histograms of cells, each under the name of its row."""
        result: Histograms = {}
        for cell, row in row_of.items():
            self._file.seek(self._places[cell])
            counted: Histograms = pickle.load(self._file)  # written by our own process
            result |= {(row, metric, column): histogram for (_, metric, column), histogram in counted.items()}
        return result


def write_counts(readers: Mapping[str, Sequence[Read]], file: IO[bytes]) -> None:
    """Write the histograms of each cell, then the place of each cell in the file, then the place of these places."""
    places = {}
    for cell, of_cell in readers.items():
        places[cell] = file.tell()
        pickle.dump(count((cell, read) for read in of_cell), file)
    at = file.tell()
    pickle.dump(places, file)
    file.write(at.to_bytes(8, "little"))
    file.flush()


if __name__ == "__main__":
    write_counts(pickle.loads(Path(sys.argv[1]).read_bytes()), sys.stdout.buffer)  # our own process
