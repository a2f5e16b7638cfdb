"""Say which MPIJob the launches of a deployment are, and keep the door up by which launchers begin them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.mpi_jobs import script
from tare.clusters.pods.mpi_jobs.doorway import JobExecPool
from tare.clusters.pods.mpi_jobs.manifest import MpiJob
from tare.clusters.pods.mpi_jobs.run import MpiJobs
from tare.clusters.pods.node import KubernetesNode
from tare.mpi.launch import Entry
from tare.mpi.launch.job import Inside
from tare.runtimes.containers.deployment import Deployment
from tare.system.node import Pod

Names = Callable[[bool], Mapping[str, Any]]
"""The fields of pods, on a node's network or not, by which a launcher finds the workers' names."""
BESIDE_S: Final = 120
"""How much longer a launcher may run than its program: it asks for names and workers."""


def no_names(on_node: bool) -> Mapping[str, Any]:  # noqa: ARG001
    """Return no fields: a user's cluster has a name server for all pods."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOfSite:
    """The MPIJobs of a site, the longest time limit of a launch, and how their pods find names."""

    jobs: MpiJobs
    longest_s: float
    names: Names = no_names

    @contextmanager
    def launching(
        self, gate: ExecServer, services: Mapping[str, KubernetesNode], study: str, pods: Sequence[Pod]
    ) -> Iterator[Inside]:
        """Keep a door up behind which each launch of a deployment is an MPIJob."""
        nodes = [services[name] for name in dict.fromkeys(pod.node.name for pod in pods)]
        order, pod = nodes[0].order(study), nodes[0].specs(study)[0]
        pod = replace(pod, fields={**pod.fields, **self.names(pod.host_network)})
        machines = tuple(node.node.machine for node in nodes)

        def count(counted: Mapping[str, script.WorkerCounts]) -> None:
            for node in nodes:
                node.count(study, counted)

        hosts = {pod.host: pod.node.boot_id for pod in pods}
        job = job_of(order, pod, machines, longest_s=self.longest_s)
        door = JobExecPool(self.jobs, job, hosts, count)
        gate.add(job.name, door)
        try:
            entry = Entry(argv=gate.argv(job.name), carry=True, keeps=("TMPDIR",))
            yield Inside(entry=entry, agent=script.AGENT, folder=script.FOLDER, took=door.took)
        finally:
            gate.remove(job.name)


def job_of(order: Deployment, pod: PodSpec, machines: tuple[str, ...], *, longest_s: float) -> MpiJob:
    """Return the MPIJob of a deployment, without the command of a launch.

    Its implementation does not matter: the launch itself names the hosts, for every MPI.
    """
    return MpiJob(
        name=f"e{order.slot}-job",
        pod=pod,
        nodes=machines,
        command=(),
        slots=order.placement.ranks_per_node,
        deadline_s=ceil(longest_s) + BESIDE_S,
    )
