"""Run one MPIJob to its end, as `tare.clusters.pods.mpi_jobs.doorway` does for a launch."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from tare.clusters.pods.mpi_jobs.manifest import HOST_FILE, MpiJob
from tare.clusters.pods.mpi_jobs.run import EndedJob, MpiJobs


def launched(ranks: int, command: Sequence[str], options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the launcher's command. It names the host file: not every MPI reads the operator's variables."""
    return ("mpirun", "--hostfile", HOST_FILE, "-np", str(ranks), *options, *command)


def run_to_end(jobs: MpiJobs, job: MpiJob) -> EndedJob:
    """Run a job and remove it; raise `InfrastructureError` with the reason if it does not get started."""
    began = time.monotonic()
    jobs.create(job)
    try:
        return jobs.wait(job, began, threading.Event().wait)
    finally:
        jobs.remove(job.name)
