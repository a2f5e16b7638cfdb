"""Start-up in real containers: every step is told, in its order, with caches that were dropped or not."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.live import by_environment, live, outcome, tare, write_study
from tare.system.node import page_cache
from tare.workloads.startup import LABELS
from waiting import wait_until

pytestmark = live("docker", "apptainer", "charliecloud", "mmdebstrap")

ENVIRONMENTS = ("bare", "docker", "apptainer", "charliecloud")


def resident_bytes(file: Path) -> int:
    """Return how much of a file is in memory, as the kernel has it."""
    told = subprocess.run(
        ["fincore", "--bytes", "--noheadings", "--output", "RES", str(file)], capture_output=True, text=True, check=True
    )
    return int(told.stdout)


def values(trial: Mapping[str, Any]) -> dict[str, float]:
    return {metric["key"]: metric["value"] for metric in trial["outcome"]["metrics"]}


def test_caches_that_are_dropped_hold_nothing_of_a_file_that_was_read(tmp_path: Path) -> None:
    if reason := page_cache.missing():
        pytest.skip(f"this machine cannot: {reason}")
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    wait_until(
        lambda: file.read_bytes() and resident_bytes(file) == 1 << 20, "all of it, though others drop caches, too"
    )
    page_cache.drop()
    assert resident_bytes(file) == 0


@pytest.mark.parametrize(
    "environments",
    [pytest.param(ENVIRONMENTS, id="all", marks=pytest.mark.long), pytest.param(("bare", "docker"), id="two")],
)
def test_every_step_of_a_start_up_is_told_for_every_runtime(environments: Sequence[str], tmp_path: Path) -> None:
    can = page_cache.missing() is None
    workloads = "{warm: {startup: warm}, cold: {startup: cold}}" if can else "{warm: {startup: warm}}"
    study = write_study(tmp_path, "begin", environments, workloads=workloads)
    ended = tare("run", study, cwd=tmp_path)
    assert ended.status == 3, ended.stderr  # one round is too few for a verdict
    found = by_environment(tmp_path / "results" / "begin")
    assert set(found) == set(environments)
    for environment, trials in found.items():
        assert [outcome(trial) for trial in trials] == ["Completed"] * (2 if can else 1), trials
        for trial in trials:
            told = values(trial)
            assert set(told) == set(LABELS)
            assert all(value > 0 for value in told.values())
            assert told["main"] < told["ready"] < trial["elapsed_s"]
            assert told["main"] + told["mpi_init"] < trial["elapsed_s"]
            assert trial["startup_s"]["pods_s"] == told["pods"]
            assert told["start"] == pytest.approx(told["pods"] + told["ready"])
            cold = trial["key"]["cell"].startswith("cold")
            assert trial["counters"].get("caches_dropped", 0) == cold, environment
