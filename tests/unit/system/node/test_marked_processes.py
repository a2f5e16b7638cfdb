"""Processes of a run are found by their environment, and what daemons change for the host is set back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tare.system import process
from tare.system.node import marked_processes
from tare.system.node.bridges import NAMES, as_they_were
from waiting import wait_until

WAITS = (sys.executable, "-IS", "-c", "print('up', flush=True); input()")
ORPHAN = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.4:
        pass
"""
RUN = f"s{os.getpid()}t"
"""A name that no run of this machine has, nor another run of these tests."""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program that waits for its input, with more variables; it is up when this returns."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(**variables: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **variables}
        child = subprocess.Popen(WAITS, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child

    yield begin
    for child in started:
        child.kill()
        child.communicate()


def test_only_what_carries_the_whole_name_belongs_to_a_run_or_a_pod(start: Start, tmp_path: Path) -> None:
    mine, other = start(TARE_RUN=RUN), start(TARE_RUN=f"{RUN}x")
    launched = start(TARE_LAUNCH_MAP=f"{tmp_path}/launch-0.json")
    assert marked_processes.pids_of_run(RUN, tmp_path) == {mine.pid, launched.pid}
    assert marked_processes.pids_of_launches(tmp_path) == {launched.pid}
    assert marked_processes.pids_of_run(f"{RUN}x", tmp_path / "x") == {other.pid}
    helper, other = start(XDG_RUNTIME_DIR=f"{tmp_path}/run"), start(XDG_RUNTIME_DIR=f"{tmp_path}/run2")
    marked_processes.end_with_variable("XDG_RUNTIME_DIR", f"{tmp_path}/run")
    assert helper.wait() == -9
    assert other.poll() is None


def test_ending_a_run_spares_one_that_lost_its_mark(start: Start, tmp_path: Path) -> None:
    launch_map = f"{tmp_path}/launch-0.json"
    keeper, other = start(TARE_LAUNCH_MAP=launch_map), start(TARE_RUN=RUN)
    marked_processes.end({keeper.pid}, (f"TARE_RUN={RUN}\0".encode(),))
    assert (keeper.poll(), other.poll()) == (None, None)
    marked_processes.end_run(RUN, tmp_path)
    assert (other.wait(), keeper.wait()) == (-9, -9)


def test_what_starts_is_marked_and_others_wait_for_theirs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TARE_RUN", raising=False)
    with marked_processes.marked(RUN):
        assert process.run(("sh", "-c", "echo $TARE_RUN")).stdout == f"{RUN}\n"
    assert process.run(("sh", "-c", "echo $TARE_RUN")).stdout == "\n"
    with marked_processes.marked(RUN), process.beside(("sh", "-c", "exit 7")) as child:
        stat = Path(f"/proc/{child.pid}/stat")
        wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")
        marked_processes.usage_s(tmp_path)
        assert child.wait() == 7


def test_the_time_of_a_daemon_that_left_its_parent_is_counted(tmp_path: Path) -> None:
    with marked_processes.marked(RUN):
        before_s = marked_processes.usage_s(tmp_path)
        process.run((sys.executable, "-IS", "-c", ORPHAN), timeout_s=None)
        wait_until(lambda: marked_processes.usage_s(tmp_path) - before_s >= 0.3)


def load(folder: Path, value: str = "1") -> None:
    """Do what loading the module does: the settings are there, all at once, and on."""
    new = folder if folder.exists() else folder.with_suffix(".new")
    new.mkdir(exist_ok=True)
    for name in NAMES:
        (new / name).write_text(f"{value}\n")
    new.rename(folder)


def values(folder: Path) -> set[str]:
    return {(folder / name).read_text().strip() for name in NAMES}


def test_a_module_that_is_loaded_meanwhile_leaves_the_host_s_bridges_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "bridge"
    with as_they_were(folder):
        load(folder)
        wait_until(lambda: values(folder) == {"0"})
    assert values(folder) == {"0"}


@pytest.mark.parametrize("before", ["0", "1"])
def test_settings_that_somebody_has_made_are_given_back(before: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "bridge", "1" if before == "0" else "0"
    load(folder, before)
    with as_they_were(folder) as give_back:
        load(folder, other)
        give_back()
        assert values(folder) == {before}
        load(folder, other)
    assert values(folder) == {before}


def test_they_are_given_back_also_after_an_error_and_where_there_is_no_module(tmp_path: Path) -> None:
    folder = tmp_path / "bridge"

    def broken() -> None:
        with as_they_were(folder):
            load(folder)
            raise RuntimeError("the study broke")

    with pytest.raises(RuntimeError):
        broken()
    assert values(folder) == {"0"}
    with as_they_were(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "nowhere").exists()
