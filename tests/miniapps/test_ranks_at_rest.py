"""Ranks that do not take part leave their core to others, and ranks that are stopped for a while go on."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from miniapps.launching import argv_of, told

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


def rank_processes(job: subprocess.Popen[str], ranks: int) -> dict[int, psutil.Process]:
    """Return the processes of a job by their rank, as soon as all are there."""
    until = time.monotonic() + 60
    while time.monotonic() < until and job.poll() is None:
        found = {}
        for child in psutil.Process(job.pid).children(recursive=True):
            try:
                if child.name().startswith("tare-miniapps"):
                    found[int(child.environ()["OMPI_COMM_WORLD_RANK"])] = child
            except (psutil.Error, KeyError):
                continue  # it has just begun, or ended
        if len(found) == ranks:
            return found
        time.sleep(0.01)
    raise AssertionError("the ranks did not start")


def launched(program: Path, spec: str, ranks: int) -> subprocess.Popen[str]:
    return subprocess.Popen(argv_of(program, spec, ranks), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def record_of(job: subprocess.Popen[str]) -> dict[str, Any]:
    stdout, stderr = job.communicate(timeout=100)
    assert job.returncode == 0, stderr
    return next(each for each in told(stdout) if each["type"] == "miniapp")


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.mark.parametrize(
    ("spec", "ranks", "idle"),
    [("npb-bt:class=W", 5, 4), ("net-tcp-stream:milliseconds=2000", 3, 1), ("net-udp-stream:milliseconds=2000", 3, 1)],
)
def test_ranks_that_do_not_take_part_sleep(program: Path, spec: str, ranks: int, idle: int) -> None:
    # A rank that polls uses as much of a processor as one that works; one that sleeps, only what MPI needs to begin.
    resting = working = 0.0
    with launched(program, spec, ranks) as job:
        processes = rank_processes(job, ranks)
        while job.poll() is None:
            try:
                resting, working = processor_seconds(processes[idle]), processor_seconds(processes[0])
            except psutil.Error:
                break  # one has ended
            time.sleep(0.02)
        assert record_of(job)["verified"]
    assert resting < working / 2, f"the rank at rest used {resting} s, one that works {working} s"


@pytest.mark.parametrize("app", ["net-tcp-pingpong", "net-tcp-stream", "net-udp-stream"])
def test_a_side_that_is_stopped_for_a_while_ends_no_test(program: Path, app: str) -> None:
    # Linux interrupts calls on a socket with a time limit when a process is stopped and goes on: signal(7).
    with launched(program, f"{app}:milliseconds=1500", 2) as job:
        processes = rank_processes(job, 2)
        until = time.monotonic() + 60
        while job.poll() is None and time.monotonic() < until:
            for process in processes.values():
                try:
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(0.005)
                    process.send_signal(signal.SIGCONT)
                except psutil.Error:
                    continue  # it has ended
            time.sleep(0.02)
        assert record_of(job)["verified"]
