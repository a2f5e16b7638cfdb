"""tare-cores: hand-overs from core to core at the interval that was asked for, and an end with who asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from kernels.launching import execute, ticking
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.requires("root", "cmake", "openmpi")]

CORES = sorted(os.sched_getaffinity(0))[:2]
FIRST_S = 0.02
TICK_S = 1e-9


@pytest.fixture
def program(build) -> Path:
    return Path(build("openmpi")) / "tare-cores"


@pytest.fixture
def watch(program: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts it on the clock of ticks: an interval is over at once, and nobody is late."""

    def start(milliseconds: int, stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        env = {**os.environ, **ticking(TARE_TICK_NS=f"{TICK_S * 1e9:.0f}")}
        argv = (program, str(milliseconds), *map(str, CORES))
        return subprocess.Popen(argv, stdout=stdout, text=True, env=env)

    return start


def read(lines: list[str]) -> list[tuple[float, ...]]:
    """Return the moment, the hand-over and the counting of each sample."""
    return [tuple(map(float, line.split())) for line in lines]


def test_samples_come_at_the_interval_and_have_a_time_of_a_hand_over_and_of_counting(watch) -> None:
    with watch(20) as watcher:
        assert watcher.stdout is not None
        samples = read(list(islice(watcher.stdout, 20)))
        watcher.kill()
    numbers = [(moment - FIRST_S) / 0.02 for moment, _, _ in samples]
    assert numbers == pytest.approx([round(number) for number in numbers], abs=0.01)
    assert all(round(after) > round(before) for before, after in pairwise(numbers)), (
        "one nobody had time for is left out"
    )
    assert all(hand_over_ns > 0 and counting_ns >= TICK_S * 1e9 for _, hand_over_ns, counting_ns in samples)


def test_it_ends_with_who_started_it(program: Path) -> None:
    script = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
    argv = (sys.executable, "-c", script, program, "5", *map(str, CORES))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        assert len(read([starter.stdout.readline()])) == 1
        starter.stdin.close()
        starter.stdout.read()  # to the end: nobody has it open any longer


def test_it_ends_when_its_output_is_removed(watch, tmp_path: Path) -> None:
    log = tmp_path / "cores.log"
    with log.open("w") as file, watch(10, file) as watcher:
        wait_until(lambda: log.stat().st_size, "a sample")
        assert watcher.poll() is None
        log.unlink()
        assert watcher.wait() == 0


@pytest.mark.parametrize("arguments", [(), ("50", "0"), ("0", "0", "1"), ("50", "0", "x"), ("50", "0", "999999")])
def test_a_bad_argument_is_refused(program: Path, arguments: tuple[str, ...]) -> None:
    run = execute(program, *arguments)
    assert run.code == 2
    assert run.stderr.startswith("tare-cores: ")


@pytest.mark.measures
def test_samples_are_hand_overs_of_this_machine_and_take_little_of_the_cores(program: Path) -> None:
    before = time.monotonic()
    with subprocess.Popen([program, "20", *map(str, CORES)], stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        samples = read(list(islice(watcher.stdout, 50)))
        took_s = time.monotonic() - before
        watcher.send_signal(signal.SIGTERM)
        _, _, used = os.wait4(watcher.pid, 0)
        watcher.returncode = 0
    assert took_s < 2, "one every 20 ms, and few that somebody was late for"
    assert before < samples[0][0] < samples[-1][0] < before + took_s
    assert all(3 < hand_over_ns < 3000 and 100 < counting_ns < 20000 for _, hand_over_ns, counting_ns in samples)
    assert used.ru_utime + used.ru_stime < 0.02 * took_s * len(CORES)
