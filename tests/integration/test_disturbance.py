"""A launch beside other programs is repeated, within bounds, and every launch is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.live import live, tare, write_study
from tare.analysis.summary.disturbance import is_disturbed, wants_repeat
from tare.store.writer import read_only

pytestmark = [*live(), pytest.mark.measures]


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep every core busy meanwhile."""
    with ExitStack() as stack:
        for _ in range(len(os.sched_getaffinity(0))):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        yield


@pytest.mark.usefixtures("busy")
def test_launches_beside_other_programs_are_repeated_a_quarter_at_most_and_all_are_stored(tmp_path: Path) -> None:
    study = write_study(tmp_path, "busy", ["bare"], repetition="{rounds: 2, reruns: 1, turns: 1}", a_a="true")
    result = tare("run", study, cwd=tmp_path)
    assert result.status in {0, 3}, result.stderr
    stored = read_only(tmp_path / "results" / "busy").trials
    first = [trial for trial in stored if trial.key.repeat == 0]
    assert sorted((trial.key.round, trial.key.attempt) for trial in first) == [(0, 0)] * 2 + [(1, 0)] * 2
    assert all(is_disturbed(trial) for trial in first), [trial.noise for trial in first]
    repeats = [trial.key for trial in stored if trial.key.repeat]
    assert len(repeats) == any(map(wants_repeat, first)), "a quarter of four launches, unless they took above 2 s"
    assert all(trial.samples_file for trial in stored)
