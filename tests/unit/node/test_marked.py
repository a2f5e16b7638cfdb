"""Processes of a run are found by their environment alone, and no others are ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tare.host import process
from tare.node import marked

SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
ORPHAN = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.4:
        pass
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program that sleeps, with more variables; it is up when this returns."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(**variables: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(SLEEP, env={**os.environ, **variables}, stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child

    yield begin
    for child in started:
        child.kill()
        child.communicate()


def test_only_what_carries_the_whole_name_belongs_to_a_run(start: Start, tmp_path: Path) -> None:
    mine = start(TARE_RUN="s1t")
    other = start(TARE_RUN="s1tx")
    launched = start(TARE_LAUNCH_MAP=f"{tmp_path}/launch-0.json")
    assert marked.pids_of_run("s1t", tmp_path) == {mine.pid, launched.pid}
    assert marked.pids_of_launches(tmp_path) == {launched.pid}
    assert marked.runs_of_user()["s1tx"] == {other.pid}


def test_ending_launches_spares_keepers_and_other_runs(start: Start, tmp_path: Path) -> None:
    launch_map = f"{tmp_path}/launch-0.json"
    stray, keeper, other = start(TARE_LAUNCH_MAP=launch_map), start(TARE_LAUNCH_MAP=launch_map), start(TARE_RUN="s2t")
    marked.end_launches(tmp_path, {keeper.pid})
    assert stray.wait(5) == -9
    assert (keeper.poll(), other.poll()) == (None, None)
    marked.end_run("s2t", tmp_path)
    assert (other.wait(5), keeper.wait(5)) == (-9, -9)


def test_a_process_that_lost_its_mark_is_not_ended(start: Start) -> None:
    child = start(TARE_RUN="s3t")
    marked.end({child.pid}, (b"TARE_RUN=s4t\0",))
    assert child.poll() is None


def test_a_variable_names_the_helpers_of_a_pod(start: Start) -> None:
    helper, other = start(XDG_RUNTIME_DIR="/tmp/p1/run"), start(XDG_RUNTIME_DIR="/tmp/p1/run2")
    marked.end_with_variable("XDG_RUNTIME_DIR", "/tmp/p1/run")
    assert helper.wait(5) == -9
    assert other.poll() is None


def test_what_starts_meanwhile_is_marked_and_nothing_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TARE_RUN", raising=False)
    with marked.marked("s5t"):
        assert process.run(("sh", "-c", "echo $TARE_RUN")).stdout == "s5t\n"
    assert process.run(("sh", "-c", "echo $TARE_RUN")).stdout == "\n"


def test_the_time_of_a_daemon_that_left_its_parent_is_counted(tmp_path: Path) -> None:
    with marked.marked("s6t"):
        before_s = marked.usage_s(tmp_path)
        process.run((sys.executable, "-c", ORPHAN))
        until = time.monotonic() + 20
        while marked.usage_s(tmp_path) - before_s < 0.3 and time.monotonic() < until:
            time.sleep(0.05)
        assert marked.usage_s(tmp_path) - before_s >= 0.3


def test_what_others_wait_for_is_left_to_them(tmp_path: Path) -> None:
    with marked.marked("s7t"), process.beside(("sh", "-c", "exit 7")) as child:
        until = time.monotonic() + 20
        while Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            assert time.monotonic() < until
            time.sleep(0.01)
        marked.usage_s(tmp_path)
        assert child.wait(5) == 7
