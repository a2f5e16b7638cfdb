"""A study on a real Slurm cluster, as an ordinary user: by mpirun and by srun, in one allocation and over several."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import live
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import lend
from tare.model import Completed, Trial
from tare.store.writer import read_only

pytestmark = [*live("slurm", "apptainer", "mmdebstrap")]
ALLOCATIONS = 2
SMALL = """
environments: [bare, apptainer]
placements: [{nodes: 1, ranks_per_node: 2}, {nodes: 2, ranks_per_node: 1}]
workloads:
  messages:
    kernels: [{latency: {message_bytes: 8, iterations: 500, warmup: 100}}]
repetition: {rounds: 1, turns: 4}
a_a: false
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmNodes]:
    with slurm_nodes(2, cores=2) as nodes:
        lend(nodes.cache)
        (nodes.home / "small.yaml").write_text(SMALL)
        yield nodes


@pytest.fixture(scope="module", params=["mpirun", "srun"])
def trials(request: pytest.FixtureRequest, cluster: SlurmNodes) -> tuple[Trial, ...]:
    run = f"tare run small.yaml --cluster slurm --launcher {request.param} --results {request.param}"
    ended = cluster.shell(f"salloc --nodes=2 --exclusive {run}")
    assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
    assert "One allocation" in " ".join(ended.stdout.split())
    return tuple(read_only(cluster.home / str(request.param)).trials)


def test_every_launch_completes(trials: tuple[Trial, ...]) -> None:
    assert [type(trial.outcome) for trial in trials] == [Completed] * 4


def test_masks_are_read_back_for_each_rank_and_no_core_is_shared(trials: tuple[Trial, ...]) -> None:
    for trial in trials:
        assert len(trial.ranks) == 2
        own = [(place.hostname, cpu) for place in trial.ranks for cpu in place.cpus]
        assert len(set(own)) == 2, own


def test_ranks_of_two_nodes_are_on_two_nodes(trials: tuple[Trial, ...]) -> None:
    hosts = {trial.key.cell: [place.hostname for place in trial.ranks] for trial in trials}
    assert all(names == (["c1", "c2"] if "2n x 1r" in cell else ["c1", "c1"]) for cell, names in hosts.items()), hosts


@pytest.mark.long  # four ranks that poll on two cores
@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_ranks_go_to_the_nodes_in_turn(cluster: SlurmNodes, launcher: str) -> None:
    stated = SMALL.replace(
        "[{nodes: 1, ranks_per_node: 2}, {nodes: 2, ranks_per_node: 1}]",
        "[{nodes: 2, ranks_per_node: 2, rank_order: cyclic}]",
    ).replace("latency: {message_bytes: 8, iterations: 500, warmup: 100}", "allreduce: {iterations: 20}")
    assert "cyclic" in stated
    assert "allreduce" in stated
    (cluster.home / "ranks.yaml").write_text(stated)
    run = f"tare run ranks.yaml --cluster slurm --launcher {launcher} --results ranks-{launcher}"
    ended = cluster.shell(f"salloc --nodes=2 --exclusive {run}")
    assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
    found = read_only(cluster.home / f"ranks-{launcher}").trials
    assert [type(trial.outcome) for trial in found] == [Completed] * 2, [trial.outcome for trial in found]
    assert [[place.hostname for place in trial.ranks] for trial in found] == [["c1", "c2", "c1", "c2"]] * 2


def test_submitted_rounds_are_of_several_allocations(cluster: SlurmNodes) -> None:
    submit = f"tare submit small.yaml --allocations {ALLOCATIONS} --launcher srun --time 5min --wait"
    ended = cluster.shell(submit)
    assert ended.returncode in (0, 3), ended.stdout[-3000:] + ended.stderr[-3000:]
    results = cluster.home / "results" / "small-slurm-srun"
    facts = json.loads((results / "plan.json").read_text())["facts"]["allocations"]
    assert sorted(each["rounds"] for each in facts.values()) == [[0], [1]]
    assert all(each["nodes"] == "c1, c2" and each["node hours"] > 0 for each in facts.values())
    assert "One allocation" not in (results / "report.html").read_text()


def test_a_budget_of_node_hours_ends_a_study(cluster: SlurmNodes) -> None:
    stated = SMALL.replace("rounds: 1", "rounds: 9, budget: {node_hours: 0.000001}")
    (cluster.home / "budget.yaml").write_text(stated)
    ended = cluster.shell("salloc --nodes=2 --exclusive tare run budget.yaml --cluster slurm --launcher srun")
    assert "budget of 1e-06 node-hours does not suffice for another round" in ended.stderr
    assert len(read_only(Path(cluster.home / "results" / "budget-slurm-srun")).trials) == 4


def test_nothing_is_left_on_the_nodes(cluster: SlurmNodes) -> None:
    for node in cluster.site.nodes:
        left = cluster.root("sh", "-c", "ls -d /tmp/tare-s* /tmp/run/tare/s* 2> /dev/null; pgrep -a tare-kernels",
                            node=node.index).stdout  # fmt: skip
        assert left == "", left
    assert cluster.shell("squeue --noheader").stdout == ""
