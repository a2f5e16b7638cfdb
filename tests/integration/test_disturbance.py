"""A pass that other programs disturb is run again once, and the report says what was disturbed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.live import live, tare, trials, write_study

pytestmark = [*live(), pytest.mark.quiet]


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep every core busy meanwhile."""
    with ExitStack() as stack:
        for _ in range(len(os.sched_getaffinity(0))):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        yield


@pytest.mark.usefixtures("busy")
def test_a_disturbed_pass_is_run_again_once_and_told(tmp_path: Path) -> None:
    study = write_study(tmp_path, "busy", ["bare"], repetition="{rounds: 2, reruns: 1}", a_a="true")
    result = tare("run", study, cwd=tmp_path)
    assert result.status in {0, 3}, result.stderr
    found = [(t["key"]["round"], t["key"]["attempt"]) for t in trials(tmp_path / "results" / "busy")]
    assert sorted(found) == [(0, 0)] * 2 + [(0, 1)] * 2 + [(1, 0)] * 2
    assert "launches that count" in " ".join(result.stdout.split())
