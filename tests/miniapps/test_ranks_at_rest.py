"""Ranks that do not take part leave their core to others, and ranks that are stopped for a while go on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from kernels.launching import Run, argv_of, end_by_its_ranks
from miniapps.launching import record_of
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
STOPS = 20
"""How often each rank is stopped: more often than a launch of half a second has calls with a time limit."""


@contextmanager
def launched(program: Path, spec: str, ranks: int) -> Iterator[tuple[subprocess.Popen[str], dict[int, psutil.Process]]]:
    """Run a job; yield it with its ranks as soon as all are there."""
    argv = argv_of("openmpi", ranks, {}, program, spec)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:

        def processes() -> dict[int, psutil.Process]:
            assert job.poll() is None
            found = {}
            for child in psutil.Process(job.pid).children(recursive=True):
                with suppress(psutil.Error, KeyError):  # it has just begun
                    if child.name().startswith("tare-miniapps"):
                        found[int(child.environ()["OMPI_COMM_WORLD_RANK"])] = child
            return found if len(found) == ranks else {}

        yield job, wait_until(processes, "the ranks")


@pytest.mark.parametrize(
    ("spec", "ranks", "idle"),
    [
        ("npb-bt:class=A", 5, 4),
        ("net-tcp-stream:milliseconds=600000", 3, 1),
        ("net-udp-stream:milliseconds=600000", 3, 1),
    ],
)
def test_ranks_that_do_not_take_part_sleep(program: Path, spec: str, ranks: int, idle: int) -> None:
    with launched(program, spec, ranks) as (job, processes):
        place = Path(f"/proc/{processes[idle].pid}/wchan")
        wait_until(
            lambda: place.read_text() == "hrtimer_nanosleep", "the idle rank to sleep; one that polls never does"
        )
        assert job.poll() is None
        end_by_its_ranks(job)


@pytest.mark.parametrize("app", ["net-tcp-pingpong", "net-tcp-stream", "net-udp-stream"])
def test_a_side_that_is_stopped_for_a_while_ends_no_test(program: Path, app: str) -> None:
    # Linux interrupts calls on a socket with a time limit when a process is stopped and goes on: signal(7).
    with launched(program, f"{app}:milliseconds=500", 2) as (job, processes):
        for _ in range(STOPS):  # without an end they would never get to theirs
            for process in processes.values():
                with suppress(psutil.Error):  # it has ended
                    process.suspend()
                    wait_until(lambda process=process: process.status() in STOPPED, "a rank to stop, or to end")
                    process.resume()
        said = job.communicate()
    run = Run(job.returncode, *said)
    assert run.code == 0, run.stderr
    assert record_of(run)["verified"]
