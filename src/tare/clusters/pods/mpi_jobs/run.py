"""Run an MPIJob to its end, and return the launcher's output, with what starting it took.

The operator reports with delays, and to the second. So the times are the head's, of when it saw each state. They are
times of the launch, never of what ranks measure: that comes from their own output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tare.clusters.pods import manifests, pods, reasons
from tare.clusters.pods.api import Api, ApiError
from tare.clusters.pods.mpi_jobs.manifest import VERSION, MpiJob, mpi_job
from tare.clusters.pods.mpi_jobs.status import JobState, selector, state_of
from tare.clusters.pods.objects import at, name_of
from tare.clusters.pods.session import begun
from tare.errors import InfrastructureError
from tare.system.waiting import wait_until

PAUSE_S: Final = 0.05
SLACK_S: Final = 30.0
"""How much longer than its deadlines a job is waited for: the operator has to notice."""
GONE_S: Final = 60.0
FOLLOWED_AGAIN_S: Final = 2.0
"""The time after which a launcher's output is followed again, if it broke off while the launcher still runs."""
MOST_BYTES: Final = 64 << 20
"""The most bytes of the launcher's output that are read."""
NO_JOBS: Final = f"the cluster has no MPIJobs ({VERSION})"
INSTALL: Final = "let an administrator install the MPI Operator, version 0.6 or newer"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A job that has ended: its state, what its launcher wrote, and what launching took.

    `took` has the seconds from the creation of the job until its workers were ready (`workers_s`), the launcher's
    container ran (`launcher_s`) and the operator reported the end (`ended_s`).
    """

    state: JobState
    output: str
    took: Mapping[str, float]


class MpiJobs:
    """The MPIJobs of a namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._path = f"/apis/{VERSION}/namespaces/{namespace}/mpijobs"

    def remove(self, name: str) -> None:
        """Remove a job with its pods, and wait until they are gone."""
        with suppress(ApiError):
            self._api.ask("DELETE", f"{self._path}/{name}", query=[("propagationPolicy", "Foreground")])

        def is_gone() -> bool:
            is_there = pods.is_there(self._api, f"{self._path}/{name}")
            return not is_there and not self._pods(name, "worker") and not self._pods(name, "launcher")

        if not wait_until(is_gone, GONE_S, pause_s=PAUSE_S):
            raise InfrastructureError(
                f"MPIJob {name} is not removed after {GONE_S:g} s",
                remedy=f"see what keeps it: kubectl -n {self._namespace} get mpijobs,jobs,pods",
            )

    def create(self, job: MpiJob) -> None:
        """Create a job; raise `InfrastructureError` if the cluster refuses it. Whoever creates one removes it."""
        try:
            pods.ask(self._api, "POST", self._path, mpi_job(job), what=f"MPIJob {job.name}")
        except InfrastructureError as error:
            cause = error.__cause__
            if isinstance(cause, ApiError) and cause.is_absent:
                raise InfrastructureError(f"MPIJob {job.name}: {NO_JOBS}", remedy=INSTALL) from error
            raise

    def wait(self, job: MpiJob, began: float, given_up: Callable[[float], bool]) -> EndedJob:
        """Wait until a job has ended, and read its output before anything is removed.

        `given_up` waits for some seconds, and returns whether nobody wants the job any more.
        """
        ready_s = running_s = 0.0
        output, follow_at = "", began
        start_until = began + job.start_s
        until = start_until + job.deadline_s + SLACK_S
        while True:
            state = state_of(pods.ask(self._api, "GET", f"{self._path}/{job.name}", what=f"MPIJob {job.name}"))
            now = time.monotonic()
            launcher = self._pods(job.name, "launcher")
            if not ready_s and (launcher or self._are_ready(job, late=now > start_until)):
                ready_s = time.monotonic() - began
            if not running_s and any(_has_started(pod) for pod in launcher):
                running_s = time.monotonic() - began
            if state.has_ended:
                took = {"workers_s": ready_s, "launcher_s": running_s or now - began, "ended_s": now - began}
                return EndedJob(state=state, output=max(output, self._output(launcher), key=len), took=took)
            if now > until:
                raise InfrastructureError(
                    f"MPIJob {job.name} is still running {SLACK_S:g} s after its deadline",
                    remedy="see whether the MPI Operator runs: `kubectl -n mpi-operator get pods`",
                )
            if running_s and now > follow_at:
                output = self._followed(launcher, until - now, given_up) or output
                follow_at = time.monotonic() + FOLLOWED_AGAIN_S
            if given_up(PAUSE_S):
                raise InfrastructureError(f"MPIJob {job.name} was given up")

    def _followed(
        self, launcher: tuple[Mapping[str, Any], ...], limit_s: float, given_up: Callable[[float], bool]
    ) -> str:
        """Return what a launcher has written until its end; "" if it cannot be followed so long.

        Only one request waits, so that nothing is asked while ranks measure.
        """
        text = begun(partial(self._output, launcher, limit_s=limit_s), "following")
        while not text.done():
            if given_up(PAUSE_S):
                return ""
        return "" if text.exception() is not None else text.result()

    def _are_ready(self, job: MpiJob, *, late: bool) -> bool:
        """Return whether all workers are ready; raise the reason why one cannot get so, or that it is late."""
        workers = self._pods(job.name, "worker")
        for pod in workers:
            if trouble := reasons.waits_in_vain(pod):
                said, remedy = trouble
                name = name_of(pod)
                raise InfrastructureError(f"MPIJob {job.name}: worker {name} does not run: {said}", remedy=remedy)
        if late:
            seen = f"{len(workers)} of {len(job.nodes)} workers exist"
            raise InfrastructureError(
                f"MPIJob {job.name} is not started after {job.start_s} s: {seen}",
                remedy="see whether the MPI Operator runs, and that the image has sshd",
            )
        return len(workers) == len(job.nodes) and all(reasons.is_ready(pod) for pod in workers)

    def _pods(self, name: str, role: str) -> tuple[dict[str, Any], ...]:
        query = [("labelSelector", selector(name, role))]
        found = self._api.ask("GET", f"/api/v1/namespaces/{self._namespace}/pods", query=query)
        return tuple(found.get("items", ()))

    def _output(self, launcher: tuple[Mapping[str, Any], ...], *, limit_s: float = 0.0) -> str:
        """Return what the launcher wrote: with no attempt repeated, there is one pod, or none.

        With `limit_s`, wait for the end of its container so long.
        """
        for pod in launcher:
            path = f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}/log"
            query = [("container", manifests.RANKS), ("limitBytes", str(MOST_BYTES))]
            if limit_s:
                return self._api.read(path, [*query, ("follow", "true")], limit_s=limit_s)
            return self._api.read(path, query)
        return ""


def _has_started(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod's container runs, or has run."""
    return at(pod, "status", "phase") in ("Running", "Succeeded", "Failed")


def missing(api: Api) -> str | None:
    """Return that a cluster has no MPIJobs, with what to do, or None."""
    there = pods.is_there(api, f"/apis/{VERSION}")
    return None if there else f"{NO_JOBS}: {INSTALL} (https://github.com/kubeflow/mpi-operator)"
