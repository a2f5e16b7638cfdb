"""Explain the costs in a results folder, with what `tare explain --run` measured for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.analysis.explain.cause_ranking import causes_of, explain
from tare.analysis.explain.shares import Measured
from tare.analysis.explain.unmeasured_changes import reasons_of
from tare.analysis.summary import Compared, compared
from tare.analysis.summary.rows import paired_rows
from tare.errors import ResultsError
from tare.model import Cause, Summary
from tare.store.results import PLAN, SHARED, TRIALS, Results, read_only

FOLDER: Final = "explain"
"""The folder of ablations, within the results that they explain."""
MOST_ABLATIONS: Final = 1000


def compared_of(results: Results) -> Compared:
    """Return the comparisons of a results folder, computed anew."""
    return compared(results.plan, results.trials, results.looks)


def ablations_of(folder: Path) -> tuple[Measured, ...]:
    """Return what `tare explain --run` measured for a results folder; results that are refused are left out."""
    measured = []
    for path in _ablations_in(folder):
        with suppress(ResultsError):  # the report of the results themselves must not end with it
            results = read_only(path, skip_damaged=True)
            costs = paired_rows(results.plan, results.trials).costs
            failed = reasons_of(results.plan, results.trials)
            measured.append(Measured(plan=results.plan, costs=costs, folder=path.name, failed=failed))
    return tuple(measured)


def _ablations_in(folder: Path) -> Iterator[Path]:
    """Yield the folders of ablations that are below a folder itself.

    Links are left out, and folders that share a file with an earlier one: no data is read twice.
    """
    seen = _files_of(folder)
    for path in sorted(path.parent for path in (folder / FOLDER).glob(f"*/{PLAN}"))[:MOST_ABLATIONS]:
        files = _files_of(path)
        if not path.is_symlink() and seen.isdisjoint(files):
            seen |= files
            yield path


def _files_of(folder: Path) -> set[tuple[int, int]]:
    """Return the device and inode of each file of a folder that is read."""
    found = set()
    for name in (PLAN, TRIALS, SHARED):
        with suppress(OSError):
            status = (folder / name).stat()
            found.add((status.st_dev, status.st_ino))
    return found


def causes_in(results: Results, summary: Summary) -> tuple[Cause, ...]:
    """Return the causes of the costs in a results folder, by row of its report."""
    return causes_of(explain(results.plan, results.trials, summary, ablations_of(results.path)))
