"""A user's folder of state is there as long as something uses it, and then leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tare.host import paths

PROGRAM = """
import sys
from tare.host.paths import made_run_folder
folder = made_run_folder()
assert made_run_folder() == folder
(folder / sys.argv[1]).touch() if len(sys.argv) > 1 else None
print("ready", flush=True)
sys.stdin.readline()
"""


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, paths.RUN_FOLDER: str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        (sys.executable, "-c", PROGRAM, *arguments),
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n")
    assert process.returncode == 0


def test_the_last_process_that_used_it_removes_it(tmp_path: Path) -> None:
    first, second = started(tmp_path / "tare"), started(tmp_path / "tare")
    end(first)
    assert (tmp_path / "tare").is_dir()
    end(second)
    assert not (tmp_path / "tare").exists()


def test_with_something_in_it_it_stays(tmp_path: Path) -> None:
    end(started(tmp_path / "tare", "note"))
    assert (tmp_path / "tare" / "note").exists()


def test_one_that_is_removed_while_it_is_taken_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUN_FOLDER, str(tmp_path / "tare"))
    lock, removed = paths.fcntl.flock, []

    def late(number: int, how: int) -> None:
        if not removed:
            removed.append((tmp_path / "tare").rmdir())
        lock(number, how)

    monkeypatch.setattr(paths.fcntl, "flock", late)
    monkeypatch.setattr(paths.atexit, "register", lambda *_: None)
    assert paths.made_run_folder().is_dir()
    assert removed
