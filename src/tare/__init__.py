"""Measure, explain, predict and remove what a container costs an MPI program.

The packages, in the order in which a study travels; docs/architecture.md walks one launch through them:

study          read a study file, expand it to cells, decide which can run
run            rounds, launches, proof; deploys environments on the nodes
clusters       open the nodes              agent          what is done on one node
networks, runtimes, daemons, images        what an environment is made of
mpi            the command line of a job, and how ranks are started
workloads      what runs, and how its output becomes metrics
store          keep results                analysis       intervals, verdicts, causes
report         show them, as tables and files too
compare        hold results against others, and against publications
cli            the commands

Below all: system (this machine and its nodes), model (data without I/O), errors.

In a notebook, `tare.open("results/NAME")` gives a results folder as frames (docs/notebooks.md).
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes most of the time that `import tare` may take
if TYPE_CHECKING:
    from pathlib import Path

    from tare.report.frames import OpenResults

__version__ = "0.2.0"


def open(path: Path | str) -> OpenResults:  # noqa: A001 - as `tare.open`, like `gzip.open`
    """Return the trials, samples and comparisons of a results folder as frames; docs/notebooks.md has the columns.

    Damaged lines are left out (`OpenResults.damaged`). Raises `tare.errors.ResultsError` if `path` is not a results
    folder or cannot be read. The packages that this needs are imported at the first call.
    """
    from tare.analysis.explain.stored_costs import causes_in
    from tare.report.frames import open_results

    return open_results(path, causes_in)
