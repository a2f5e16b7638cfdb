"""What cluster slurm refuses, and what it knows of nodes before it has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.cluster import CLUSTERS, slurm
from tare.cluster.slurm import SlurmCluster
from tare.cluster.slurm_allocation import Allocation
from tare.errors import RefusedError
from tare.feasibility.availability import _no_place
from tare.model import Environment, LabSpec, Launching, Placement
from tare.model.topology import NodeCores, Topology
from tare.mpi import MPIS
from tare.networks import NETWORKS, Wiring
from tare.plan.composition import refuse_launcher
from tare.runtimes import RUNTIMES

BARE = Environment(name="bare", runtime="bare", network="host", image="", mpi="openmpi")
BY_SRUN = replace(BARE, launch=Launching.SRUN)
TWO = Allocation(job="34", names=("c1", "c2"), addresses=("10.213.0.2", "10.213.0.3"))


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.setenv("SLURM_JOB_ID", "34")
    monkeypatch.setattr(slurm, "read", lambda: TWO)
    return SlurmCluster()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return SlurmCluster()


def test_outside_of_an_allocation_plans_are_made_and_it_says_how_to_get_into_one(outside: SlurmCluster) -> None:
    with pytest.raises(RefusedError, match="this command is not inside a Slurm allocation") as caught:
        outside.hosts(LabSpec())
    assert "`tare submit`" in caught.value.remedy
    assert "`salloc`" in caught.value.remedy
    assert outside.refuse(LabSpec(nodes=512), BARE, Placement(nodes=512)) is None
    assert outside.lacks(LabSpec(nodes=512), BY_SRUN) is None


def test_more_nodes_than_the_allocation_has_are_refused_with_their_number(inside: SlurmCluster) -> None:
    reason = inside.refuse(LabSpec(nodes=3), BARE, Placement(nodes=3))
    assert reason == "this allocation has 2 node(s): ask for more, or use fewer nodes"
    assert inside.refuse(LabSpec(nodes=2), BARE, Placement(nodes=2)) is None


def test_a_plan_reckons_with_the_smallest_node_of_the_partition(
    outside: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "cores_per_node", lambda partition: (64, 4, 64))
    nodes = outside.topology(LabSpec(nodes=3)).nodes
    assert [node.cores for node in nodes] == [(0, 1, 2, 3)] * 3
    assert outside.topology(LabSpec(nodes=1, cores_per_node=2)).nodes[0].cores == (0, 1)


def test_a_pmi_that_slurm_lacks_is_a_reason_unless_it_lists_none(
    inside: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "listed_pmis", lambda: frozenset({"none", "pmi2", "pmix", "pmix_v4"}))
    monkeypatch.setattr(slurm.RemoteCluster, "lacks", lambda *_: None)
    reason = inside.lacks(LabSpec(), replace(BY_SRUN, pmi="pmix_v5"))
    assert reason == "this Slurm has no PMI pmix_v5: set pmi to one of `srun --mpi=list` that the MPI supports"
    assert inside.lacks(LabSpec(), replace(BY_SRUN, pmi="pmix_v4")) is None
    assert inside.lacks(LabSpec(), BY_SRUN) is None
    assert inside.lacks(LabSpec(), BARE) is None
    monkeypatch.setattr(slurm, "listed_pmis", frozenset)
    monkeypatch.setattr(slurm.RemoteCluster, "lacks", lambda *_: None)
    assert inside.lacks(LabSpec(), BY_SRUN) is None


def test_srun_is_for_clusters_that_run_jobs_and_mpis_that_have_a_pmi() -> None:
    for cluster in CLUSTERS.values():
        reason = refuse_launcher(BY_SRUN, cluster)
        assert (reason is None) == cluster.runs_jobs, (cluster.name, reason)
    assert "pmi has no effect without launch: srun" in str(refuse_launcher(replace(BARE, pmi="pmix"), SlurmCluster()))
    for name, mpi in MPIS.items():
        reason = refuse_launcher(replace(BY_SRUN, mpi=name), SlurmCluster())
        assert (reason is None) == bool(mpi.pmis), (name, reason)


def test_srun_needs_the_nodes_own_network_and_a_runtime_without_a_daemon() -> None:
    for name, network in NETWORKS.items():
        reason = refuse_launcher(replace(BY_SRUN, network=name), SlurmCluster())
        assert (reason is None) == (network.wiring is Wiring.NODE), (name, reason)
    for name, runtime in RUNTIMES.items():
        reason = refuse_launcher(replace(BY_SRUN, runtime=name), SlurmCluster())
        assert (reason is None) == (not runtime.needs_daemon), (name, reason)


def test_cores_of_machines_are_apart_and_too_few_are_too_few() -> None:
    cores = Topology(nodes=tuple(NodeCores(cores=(0, 1), name=f"n{number}") for number in range(2)))
    placement = Placement(nodes=2, ranks_per_node=2)
    assert _no_place(placement, cores, apart=True) is None
    assert "its nodes would share cores" in str(_no_place(placement, cores, apart=False))
    assert _no_place(replace(placement, oversubscribe=True), cores, apart=False) is None
    cores = Topology(nodes=(NodeCores(cores=(0,), name="n0"), NodeCores(cores=(0,), name="n1")))
    for apart in (True, False):
        assert _no_place(Placement(nodes=2, ranks_per_node=2), cores, apart=apart)
