"""One small study on each cluster that is not a lab: what `make test` runs of clusters local, ssh and slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integration.live import Watch, live, tare
from integration.slurm_nodes import slurm_nodes
from integration.ssh_hosts import lend, ssh_hosts
from tare.model import Completed
from tare.store.writer import read_only

pytestmark = [*live(), pytest.mark.smoke]
STUDY = """name: small
workloads: {micro: {time_limit: 300s, kernels: [{latency: {message_bytes: 8, iterations: 60, warmup: 5}}]}}
repetition: {rounds: 1, max_rounds: 1, turns: 2, reruns: 0}
"""
ONE_NODE = "cluster: local\nenvironments: [bare, apptainer]\na_a: false\nplacements: [1x2]\n"
TWO_NODES = "environments: [bare]\na_a: true\nplacements: [2x1]\n"


def check(results: Path, status: int, said: str, hosts: list[str]) -> None:
    """Hold both launches of the study to have completed, on cores of their own of the nodes that were asked for."""
    assert status in (0, 3), said  # one round decides nothing
    trials = read_only(results).trials
    assert [type(trial.outcome) for trial in trials] == [Completed] * 2, said
    assert [[place.hostname for place in trial.ranks] for trial in trials] == [hosts] * 2
    for trial in trials:
        assert len({(place.hostname, cpu) for place in trial.ranks for cpu in place.cpus}) == 2, trial.ranks


@pytest.mark.requires("apptainer", "mmdebstrap")
def test_a_study_runs_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(STUDY + ONE_NODE)
    watch = Watch()
    result = tare("run", "small.yaml", cwd=tmp_path)
    check(tmp_path / "results/small", result.status, result.stderr, [os.uname().nodename] * 2)
    assert watch.left(result.lab) == []


@pytest.mark.requires("sshd")
def test_a_study_runs_on_hosts_by_ssh() -> None:
    with ssh_hosts(2, cores=1) as hosts:
        lend(hosts.cache, image=False)
        study = hosts.folder / "small.yaml"
        study.write_text(f"{STUDY}{TWO_NODES}cluster: {{ssh: {{ssh_config: {hosts.config}, hosts: [alpha, beta]}}}}\n")
        result = hosts.tare("run", study, "--results", hosts.folder / "home/out")
        check(hosts.folder / "home/out", result.returncode, result.stderr, ["n0", "n1"])


@pytest.mark.requires("slurm")
def test_a_study_runs_in_an_allocation_of_slurm() -> None:
    with slurm_nodes(2, cores=1) as nodes:
        lend(nodes.cache, image=False)
        (nodes.home / "small.yaml").write_text(f"{STUDY}{TWO_NODES}cluster: slurm\n")
        result = nodes.shell("salloc --nodes=2 --exclusive --quiet tare run small.yaml --results out")
        check(nodes.home / "out", result.returncode, result.stderr, ["c1", "c2"])
