"""A study on a real Slurm cluster, as an ordinary user: by mpirun and by srun, in one allocation and over several."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import live
from integration.slurm_nodes import SlurmNodes, slurm_nodes
from integration.ssh_hosts import lend
from tare.model import Completed
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


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_launches_are_on_the_nodes_and_cores_that_were_asked_for(cluster: SlurmNodes, launcher: str) -> None:
    run = f"tare run small.yaml --cluster slurm --launcher {launcher} --results {launcher}"
    ended = cluster.shell(f"salloc --nodes=2 --exclusive {run}")
    assert ended.returncode in (0, 3), ended.stdout[-4000:] + ended.stderr[-4000:]
    assert "One allocation" in " ".join(ended.stdout.split())
    trials = read_only(cluster.home / launcher).trials
    assert [type(trial.outcome) for trial in trials] == [Completed] * 4
    for trial in trials:
        hosts = [place.hostname for place in trial.ranks]
        assert hosts == (["c1", "c2"] if "2n x 1r" in trial.key.cell else ["c1", "c1"]), trial.key.cell
        assert len({(place.hostname, cpu) for place in trial.ranks for cpu in place.cpus}) == 2, "a core is shared"


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
