"""A program that writes without end is ended, fills no memory, and makes its launch fail with the reason."""

from __future__ import annotations

import os
import signal
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from tare.errors import CommandFailed
from tare.host import process
from tare.host.capture import STDERR_BYTES, STDOUT_BYTES
from tare.host.process import run
from tare.model import Workload
from tare.run.runner import judge


def test_what_writes_to_stdout_without_end_is_ended_at_the_budget() -> None:
    tracemalloc.start()
    result = run(("yes", "x" * 60), check=False, timeout_s=50)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (result.flooded, result.timed_out, result.status) == (True, False, -signal.SIGTERM)
    assert len(result.stdout) == STDOUT_BYTES
    assert most < 6 * STDOUT_BYTES


def test_the_end_of_stderr_is_kept_and_its_writer_runs_on() -> None:
    result = run(("/bin/sh", "-c", f"head -c {3 * STDERR_BYTES} /dev/zero >&2; echo why >&2; echo done"), check=False)
    assert (result.status, result.stdout, result.flooded) == (0, "done\n", False)
    assert result.stderr.endswith("why\n")
    assert len(result.stderr) <= 2 * STDERR_BYTES


def test_a_flood_that_is_checked_is_an_error_with_the_action() -> None:
    with pytest.raises(CommandFailed, match="listing the image wrote more than 64 MiB to stdout"):
        run(("yes",), what="listing the image")


def test_a_flooding_process_that_ignores_being_asked_is_killed_and_read_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.3)
    result = run(("/bin/sh", "-c", "trap '' TERM; while :; do yes | head -c 90000000; done"), check=False)
    assert (result.flooded, result.status) == (True, -signal.SIGKILL)


def test_a_process_that_cannot_be_killed_does_not_hold_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    monkeypatch.setattr(process, "_signal_group", lambda pid, number: None)  # as one that waits in the kernel (state D)
    began = time.monotonic()
    script = f"echo $$ > {tmp_path}/pid; exec sleep 30"
    try:
        result = run(("/bin/sh", "-c", script), timeout_s=0.3, check=False)
        assert (result.timed_out, result.status) == (True, -signal.SIGKILL)
        assert time.monotonic() - began < 5
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_launch_that_floods_fails_and_says_so() -> None:
    flooded = process.Result(argv=(), status=-15, stdout="y\n", stderr="", elapsed_s=1.0, flooded=True)
    launch = SimpleNamespace(cell=SimpleNamespace(workload=Workload(name="app", command=("yes",))))
    outcome, parsed = judge(launch, flooded, ())  # type: ignore[arg-type]
    assert parsed is None
    assert outcome.reason == (  # type: ignore[union-attr]
        "it wrote more than 64 MiB to stdout, the most that tare keeps, and was stopped"
    )
