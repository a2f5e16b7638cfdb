"""tare-cores: hand-overs from core to core at the interval that was asked for, and an end with who asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.measures,
    pytest.mark.root,
    pytest.mark.requires("root", "cmake", "openmpi"),
]
CORES = sorted(os.sched_getaffinity(0))[:2]


@pytest.fixture
def program(build) -> Path:
    return Path(build("openmpi")) / "tare-cores"


def test_samples_come_at_the_interval_and_are_hand_overs_of_this_machine(program: Path) -> None:
    for _ in range(5):  # on a busy host a core is late for whole seconds
        before = time.monotonic()
        watcher = subprocess.Popen([program, "20", *map(str, CORES)], stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        watcher.send_signal(signal.SIGTERM)
        said, _ = watcher.communicate(timeout=5)
        samples = [tuple(map(float, line.split())) for line in said.splitlines()]
        if len(samples) >= 20:
            break
    assert 20 <= len(samples) <= 50, "one every 20 ms, those left out that somebody was late for"
    moments, hand_overs_ns, countings_ns = zip(*samples, strict=True)
    assert before < moments[0] < moments[-1] < time.monotonic()
    assert list(moments) == sorted(moments)
    assert all(3 < each < 3000 for each in hand_overs_ns)
    assert all(100 < each < 20000 for each in countings_ns)


def test_it_takes_little_of_the_cores(program: Path) -> None:
    watcher = subprocess.Popen([program, "10", *map(str, CORES)], stdout=subprocess.DEVNULL)
    time.sleep(2)
    watcher.send_signal(signal.SIGTERM)
    _, _, used = os.wait4(watcher.pid, 0)
    watcher.returncode = 0
    assert used.ru_utime + used.ru_stime < 0.02 * 2 * len(CORES)


def test_it_ends_with_who_started_it(program: Path) -> None:
    script = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid)"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; import time; sys.stdout.flush(); time.sleep(.3)", program, "50", "0", "0"],
        capture_output=True,
        text=True,
        check=True,
    )
    time.sleep(0.2)
    assert not Path(f"/proc/{int(done.stdout)}/exe").exists()


@pytest.mark.parametrize("arguments", [(), ("50", "0"), ("0", "0", "1"), ("50", "0", "x"), ("50", "0", "999999")])
def test_a_bad_argument_is_refused(program: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=5, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tare-cores: ")


def test_it_ends_when_its_output_is_removed(program: Path, tmp_path: Path) -> None:
    log = tmp_path / "cores.log"
    with log.open("w") as file, subprocess.Popen([program, "10", *map(str, CORES)], stdout=file) as watcher:
        time.sleep(0.3)
        assert watcher.poll() is None
        log.unlink()
        assert watcher.wait(timeout=5) == 0
