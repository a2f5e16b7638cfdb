"""Run each launch of a deployment as an MPIJob of its own: a door of the gate, as to a pod, behind which jobs run.

A launch enters by `tare-enter` and gets the launcher's output, errors and exit status. The job is removed when the
launch has its status, and before anything is read or started again.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tare.clusters.pods.mpi_jobs import script
from tare.clusters.pods.mpi_jobs.manifest import MpiJob
from tare.clusters.pods.mpi_jobs.run import EndedJob, MpiJobs
from tare.clusters.pods.session import ERRORS, OUTPUT
from tare.errors import TareError

Count = Callable[[Mapping[str, script.WorkerCounts]], None]
FAILED: Final = 1


class JobExecPool:
    """Starts a job for each command. `hosts` are the boot IDs of nodes by the names of their hosts.

    `count` gets what the workers of a job that has ended counted: nothing of one that could not tell.
    """

    def __init__(self, jobs: MpiJobs, job: MpiJob, hosts: Mapping[str, str], count: Count) -> None:
        self._jobs = jobs
        self._job = job
        self._hosts = dict(hosts)
        self._count = count
        self._idle = threading.Event()
        self._idle.set()
        self._took: dict[str, float] = {}

    def took(self) -> Mapping[str, float]:
        """Return the seconds from the creation of the last job until each step of its launch; none if it failed.

        With them is how long the MPI's own launcher ran.
        """
        return dict(self._took)

    def prepare(self, count: int = 1) -> None:
        """Do nothing: the operator starts what a job needs."""

    def settle(self) -> None:
        """Wait until the last job is removed, also if its launch was ended at its time limit."""
        self._idle.wait()

    def start(self, argv: Sequence[str]) -> JobSession:
        """Return a job for a command, which begins when it is pumped."""
        self.settle()
        self._took = {}
        return JobSession(self, replace(self._job, command=script.command(self._hosts, argv)))

    def close(self) -> None:
        """Wait until the last job is removed."""
        self.settle()

    def run(self, job: MpiJob, given_up: Callable[[float], bool]) -> tuple[EndedJob, script.LauncherOutput]:
        """Run a job, note what it took and counted, and begin to remove it; return how it ended and its output.

        `given_up` waits for some seconds, and returns whether nobody wants the job any more.
        """
        began = time.monotonic()
        self._idle.clear()
        try:
            self._jobs.create(job)
            ended = self._jobs.wait(job, began, given_up)
        finally:
            self._remove(job.name)
        told = script.told(ended.output)
        self._took = {**ended.took, **({"mpirun_s": told.mpirun_s} if told.mpirun_s else {})}
        self._count(told.counted)
        return ended, told

    def _remove(self, name: str) -> None:
        def work() -> None:
            try:
                with suppress(
                    TareError
                ):  # the next job of that name says what is in its way; the namespace ends anyway
                    self._jobs.remove(name)
            finally:
                self._idle.set()

        threading.Thread(target=work, name="removing", daemon=True).start()


class JobSession:
    """A job that runs while it is pumped."""

    def __init__(self, pool: JobExecPool, job: MpiJob) -> None:
        self._pool = pool
        self._job = job

    def pump(self, beside: socket.socket | None, take: Callable[[int, bytes], None]) -> int:
        """Run the job; give its output and errors to `take`, and return the exit status of the program's launcher.

        If whoever is at the other end of `beside` is gone, the job is given up.
        """
        ended, told = self._pool.run(self._job, lambda pause_s: is_gone(beside, pause_s))
        status, errors = outcome(self._job.name, ended, told)
        take(OUTPUT, told.output.encode())
        take(ERRORS, errors.encode())
        return status

    def close(self) -> None:
        """Do nothing: a job that was pumped is removed."""


def outcome(name: str, ended: EndedJob, told: script.LauncherOutput) -> tuple[int, str]:
    """Return the exit status of a job's launcher, and its errors; where it has none, the operator's reason."""
    if told.status is None or (ended.state.failed and told.status == 0):
        why = ended.state.why or "its launcher's output is not complete"
        return FAILED, f"{told.errors}MPIJob {name}: {why}\n"
    return told.status, told.errors


def is_gone(beside: socket.socket | None, pause_s: float) -> bool:
    """Wait for some seconds; return whether a connection has been closed by the other end, and not only one way."""
    if beside is None:
        time.sleep(pause_s)
        return False
    poll = select.poll()
    poll.register(beside, 0)  # hang-ups are always told
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(1000 * pause_s))
