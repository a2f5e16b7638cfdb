"""Count the samples of large results in a process of its own, while this one reads trials and computes the summary.

100,000 files of samples take longer to read than the trials. The other process is told the folder. It finds out which
launches count without decoding them, and writes the histograms of each cell to a temporary file, as arrays of numbers.
It is a new one, not a copy of this one: a copy would soon have its own of every page of this one's memory. If it ends
early, or has counted other files than the report is about (a line may be damaged, or a run may add launches), they are
counted here instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

from tare.analysis.summary.select import select
from tare.model import Completed, Failed, Interrupted, Outcome, Trial, TrialKey
from tare.report.samples.histograms import Histograms, LogHistogram, SampleSource, collect
from tare.store.results import TRIALS, Results, decode_plan, read_keys, read_plan
from tare.system import process

MANY_BYTES: Final = 8 << 20
"""Size of trials.jsonl, with some thousand launches, from which another process saves more time than it takes."""

Counts = Callable[[Iterable[tuple[str, Trial]]], Histograms]
"""Returns the histograms of trials, each paired with its row."""

CountsOf = Callable[[SampleSource], Counts]
"""Returns what counts the samples of a source."""

_KINDS: Final[Mapping[str, Outcome]] = {"Completed": Completed(metrics=()), "Interrupted": Interrupted()}
_OTHER: Final = Failed(reason="not decoded")


def count_here(source: SampleSource) -> Counts:
    """Return what counts the samples of a source in this process."""
    return partial(collect, source)


@contextmanager
def counting(folder: Path | None) -> Iterator[CountsOf]:
    """Provide the histograms of a results folder's launches; many samples are counted on another core from now on.

    With None nothing is counted ahead.
    """
    if folder is None or not _has_many(folder) or len(os.sched_getaffinity(0)) < 2:
        yield count_here
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "histograms"
        argv = (sys.executable, "-P", "-m", "tare.report.samples.counting", str(folder), str(path))
        with process.beside(argv) as other:
            yield lambda source: CountingProcess(other.wait, path, count_here(source))


def _has_many(folder: Path) -> bool:
    try:
        return (folder / TRIALS).stat().st_size >= MANY_BYTES
    except OSError:
        return False


class CountingProcess:
    """The process that counts, from this one's side; called with trials, it returns their histograms."""

    def __init__(self, wait: Callable[[], int], path: Path, here: Counts) -> None:
        self.wait, self.path, self._here = wait, path, here

    def __call__(self, trials: Iterable[tuple[str, Trial]]) -> Histograms:
        """Return the histograms of trials, each paired with its row; wait for the process at the first call."""
        given = list(trials)
        if self.wait() == 0:
            with self.path.open("rb") as file:
                counted = CountsFile(file)
                if counted.has(digests_of(trial for _, trial in given)):
                    return counted.read({trial.key.cell: row for row, trial in given})
        return self._here(given)


class CountsFile:
    """A file of `write_counts`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        file.seek(-8, os.SEEK_END)
        file.seek(int.from_bytes(file.read(8), "little"))
        self._cells: Mapping[str, tuple[int, str, list[tuple[str, str]]]] = json.loads(file.read()[:-8])

    def has(self, digests: Mapping[str, str]) -> bool:
        """Tell whether exactly these files of samples were counted (`digests_of`)."""
        return all(cell in self._cells and self._cells[cell][1] == digest for cell, digest in digests.items())

    def read(self, row_of: Mapping[str, str]) -> Histograms:
        """Return the histograms of cells, each under the name of its row."""
        result: Histograms = {}
        for cell, row in row_of.items():
            at, _, columns = self._cells[cell]
            self._file.seek(at)
            result |= {(row, metric, column): LogHistogram.read(self._file) for metric, column in columns}
        return result


def digests_of(trials: Iterable[Trial]) -> dict[str, str]:
    """Return for each cell of trials the digest of the names of their files of samples."""
    of_cell: dict[str, list[Trial]] = {}
    for trial in trials:
        of_cell.setdefault(trial.key.cell, []).append(trial)
    return {cell: _digest(own) for cell, own in of_cell.items()}


def _digest(trials: Iterable[Trial]) -> str:
    """Return the digest of the names of the trials' files of samples."""
    names = "\n".join(sorted(trial.samples_file for trial in trials))
    return hashlib.blake2b(names.encode(errors="surrogatepass"), digest_size=16).hexdigest()


# --- in the other process ---------------------------------------------------------------------------------------------


def completed_in(folder: Path) -> tuple[Results, dict[str, list[Trial]]]:
    """Return the source of a folder's samples, and its completed launches that count by cell, not decoded."""
    plan = decode_plan(folder, read_plan(folder))
    selection = select(plan, [_undecoded(*of_line) for of_line in read_keys(folder)])
    launches = {
        cell: [trial for trial in chosen.values() if isinstance(trial.outcome, Completed)]
        for cell, chosen in selection.trials.items()
    }
    return Results(path=folder, plan=plan, facts={}), launches


def _undecoded(key: TrialKey, outcome: str, file: str) -> Trial:
    """Return a trial with no more than decides whether it counts, and the name of its file of samples."""
    kind = _KINDS.get(outcome, _OTHER)
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=0.0, outcome=kind, samples_file=file)


def write_counts(launches: Mapping[str, Sequence[Trial]], source: SampleSource, file: IO[bytes]) -> None:
    """Write the histograms of each cell, then of each its place, what was counted and its columns, then their place."""
    cells = {}
    for cell, trials in launches.items():
        at, counted = file.tell(), collect(source, ((cell, trial) for trial in trials))
        for histogram in counted.values():
            histogram.write(file)
        cells[cell] = at, _digest(trials), [(metric, column) for _, metric, column in counted]
    at = file.tell()
    file.write(json.dumps(cells).encode())
    file.write(at.to_bytes(8, "little"))
    file.flush()


def main(folder: Path, path: Path) -> None:
    """Count the samples of a folder, and write the histograms to a file that appears when it is whole."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        source, launches = completed_in(folder)
        write_counts(launches, source, file)
    unfinished.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
