"""`make test-faults`: play each fault three times on real things, and keep what was seen for docs/reliability.md."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from faults.faults import FAULTS, PLAYS, Fault
from faults.plays_slurm import SlurmStage
from faults.stage import Stage, saved
from integration.live import compiled, live
from integration.slurm_nodes import slurm_nodes
from integration.ssh_hosts import UID, lend, ssh_hosts

pytestmark = [*live("sshd", "charliecloud"), pytest.mark.faults, pytest.mark.timeout(900)]
FILE = Path(os.environ.get("TARE_FAULTS_FILE", "results/faults.jsonl"))


@pytest.fixture(scope="session")
def everything() -> Iterator[Stage]:
    with ssh_hosts(2, cores=1) as hosts:
        lend(hosts.cache)
        yield Stage(hosts=hosts, numbers=count(), program=compiled("rest", hosts.folder))


@pytest.fixture
def stage(everything: Stage) -> Iterator[Stage]:
    everything.restart_sshd()
    everything.note_mounts()
    yield everything
    everything.end_all()


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmStage]:
    with slurm_nodes(2, cores=1) as cluster:
        lend(cluster.cache)
        programs = cluster.home / "programs"  # containers show it: the command is there, and jobs are submitted there
        programs.mkdir()
        os.chown(programs, UID, UID)
        yield SlurmStage(cluster=cluster, numbers=count(), program=compiled("rest", programs))


@pytest.fixture
def slurm_stage(slurm_cluster: SlurmStage) -> Iterator[SlurmStage]:
    yield slurm_cluster
    slurm_cluster.end_all()


def _plays() -> Iterator[object]:
    """Yield the plays in the table's order; those of Slurm need it installed, the others do not."""
    for fault in FAULTS:
        marks = [pytest.mark.requires("slurm")] if fault.cluster == "slurm" else []
        for play in range(PLAYS):
            yield pytest.param(fault, play, id=f"{fault.key}-{play}", marks=marks)


@pytest.mark.parametrize(("fault", "play"), tuple(_plays()))
def test_a_fault_is_recorded_as_what_it_was_and_leaves_nothing(
    fault: Fault, play: int, request: pytest.FixtureRequest
) -> None:
    stage: Stage | SlurmStage = request.getfixturevalue("slurm_stage" if fault.cluster == "slurm" else "stage")
    began = time.monotonic()
    seen = fault.play(stage)
    left = [*seen.left, *stage.left()]
    saved(FILE, fault=fault.key, play=play, recorded=list(seen.recorded), codes=list(seen.codes), said=seen.said,
          then=seen.then, left=left, took_s=round(time.monotonic() - began, 1))  # fmt: skip
    assert left == []
