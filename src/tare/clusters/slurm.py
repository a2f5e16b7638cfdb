"""Provide `slurm`: the nodes of a Slurm allocation, as they are. Inside `salloc` or a batch script of `tare submit`.

A service on each node, started by a step of the job, does what is done there (`tare.agent.remote`). The ranks are
started by the MPI's launcher here, whose daemons are steps too, or by srun (`launch: srun`).
"""

from __future__ import annotations

import os
from typing import Final

from tare.clusters.remote_cluster import RemoteCluster, refuse_as_it_is, refuse_lab_only
from tare.clusters.slurm_allocation import Allocation, cores_per_node, job, listed_pmis, read
from tare.clusters.slurm_connections import SlurmConnections
from tare.errors import RefusedError
from tare.model import Environment, LabSpec, Launching, Placement
from tare.model.text import counted
from tare.model.topology import NodeCores, Topology
from tare.mpi import MPIS
from tare.system.packages import install
from tare.system.process import find

SUBMIT: Final = "submit the study with `tare submit`, or run this command inside `salloc` or a batch script"


class SlurmCluster(RemoteCluster):
    """Use an allocation. Its nodes' services are started by the first question about them, and kept for the run."""

    name = "slurm"
    location = "On these nodes"
    account = "the job's user on its node"
    runs_jobs = True

    def __init__(self) -> None:
        super().__init__()
        self._allocation: Allocation | None = None
        self._pmis: frozenset[str] | None = None

    @property
    def in_job(self) -> bool:
        return bool(job())

    def probe(self) -> str | None:
        if find("srun") and find("scontrol"):
            return None
        return (
            "srun and scontrol are not in PATH: run tare on a login node, or load the site's Slurm module; on your own "
            f"cluster {install('slurm-client')}"
        )

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if spec.hosts or spec.nics:
            return "cluster slurm takes its nodes from the allocation: remove hosts and nics"
        if job() and placement.nodes > len(self.allocation().names):
            return (
                f"this allocation has {counted(len(self.allocation().names), 'node')}: ask for more, or use fewer nodes"
            )
        return refuse_lab_only(self.name, spec, environment) or refuse_as_it_is(
            self.name, environment, "or use cluster: lab"
        )

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        if not job():
            return None  # only an allocation's nodes can be asked
        return self._lacks_pmi(environment) or super().lacks(spec, environment)

    def _lacks_pmi(self, environment: Environment) -> str | None:
        """Return that this Slurm does not have the PMI by which srun's ranks would find each other, or None."""
        if environment.launch is not Launching.SRUN:
            return None
        if self._pmis is None:
            self._pmis = listed_pmis()
        wanted = environment.pmi or MPIS[environment.mpi].pmis[0]
        if not self._pmis or wanted in self._pmis:
            return None
        return f"this Slurm has no PMI {wanted}: set pmi to one of `srun --mpi=list` that the MPI supports"

    def topology(self, spec: LabSpec) -> Topology:
        if job():
            return super().topology(spec)
        least = min(cores_per_node(spec.slurm.partition), default=os.cpu_count() or 1)
        cores = tuple(range(least))[: spec.cores_per_node]
        return Topology(nodes=tuple(NodeCores(cores=cores, name=f"n{number}") for number in range(spec.nodes)))

    def hosts(self, spec: LabSpec) -> tuple[str, ...]:
        return self.allocation().names[: spec.nodes]

    def allocation(self) -> Allocation:
        """Return the allocation that this process is in; raise `RefusedError` outside of one."""
        if self._allocation is None:
            self._allocation = read()
        if self._allocation is None:
            raise RefusedError("this command is not inside a Slurm allocation", remedy=SUBMIT)
        return self._allocation

    def connect(self, spec: LabSpec) -> SlurmConnections:
        return SlurmConnections(self.allocation(), spec.nodes)
