"""Measure, explain, predict and remove what a container costs an MPI program.

The packages, in the order in which a study travels:

study          read a study file           plan           expand it to cells
feasibility    which cells can run, and why not the others
cluster        open the nodes              node_service   what is done on one node
deploy         make an environment on the nodes, from networks (parts: wiring),
               runtimes (parts: containers), services (daemons) and images
mpi, launch    the command line of a job, and how ranks are started
workloads      what runs, and how its output becomes metrics
run            rounds, launches, proof     store          keep results
stats, summary intervals and verdicts      report         show them
frames, export results as tables and files cli            the commands

Below all: node, host, model (data without I/O), errors. docs/architecture.md walks one launch through them.

In a notebook, `tare.open("results/NAME")` gives a results folder as frames (docs/notebooks.md).
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself takes most of the time that `import tare` may take
if TYPE_CHECKING:
    from pathlib import Path

    from tare.frames import OpenResults

__version__ = "0.2.0"


def open(path: Path | str) -> OpenResults:  # noqa: A001 - as `tare.open`, like `gzip.open`
    """Return the trials, samples and comparisons of a results folder as frames; docs/notebooks.md has the columns.

    Damaged lines are left out (`OpenResults.damaged`). Raises `tare.errors.ResultsError` if `path` is not a results
    folder or cannot be read. The packages that this needs are imported at the first call.
    """
    from tare.explain.stored import causes_in
    from tare.frames import open_results

    return open_results(path, causes_in)
