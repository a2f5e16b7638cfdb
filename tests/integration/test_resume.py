"""`kill -9` anywhere loses at most the running trial; the same command finishes the study."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.live import MICRO, Ended, Watch, ended, live, outcome, pids_of, start, tare, trials, write_study
from integration.studies import stopped
from tare.system.fault import VARIABLE

pytestmark = live("cni")
ELSEWHERE = ("lab:held", "pods:deployed", "launch:started:3", "turns:seated:2", "store:after-samples:5")
"""Where one study is killed, one time after the other; something is stored at the last two."""


def key(trial: dict[str, Any]) -> tuple[str, int, int, int]:
    k = trial["key"]
    return k["cell"], k["round"], k["block"], k["attempt"]


def stored(results: Path) -> list[bytes]:
    """Return the whole lines of the store."""
    file = results / "trials.jsonl"
    return file.read_bytes().split(b"\n")[:-1] if file.exists() else []


def check_finished(results: Path, cells: int, rounds: int) -> None:
    """Hold the store to one complete attempt a block, nothing doubled, every sample there and no other."""
    found = trials(results)
    assert max(Counter(map(key, found)).values()) == 1, "a trial is stored twice"
    for round_ in range(rounds):
        its = [trial for trial in found if trial["key"]["round"] == round_]
        last = max(trial["key"]["attempt"] for trial in its)
        kinds = [outcome(trial) for trial in its if trial["key"]["attempt"] == last]
        assert kinds == ["Completed"] * cells, (round_, kinds)
        for attempt in range(last):
            kinds = [outcome(trial) for trial in its if trial["key"]["attempt"] == attempt]
            assert len(kinds) == cells
            assert kinds.count("Interrupted") >= 1
            assert set(kinds) == {"Interrupted"} | ({"Completed"} if "Completed" in kinds else set())
    named = {Path(trial["samples_file"]).name for trial in found if trial["samples_file"]}
    assert {file.name for file in (results / "samples").iterdir()} == named
    assert len(named) == sum(outcome(trial) == "Completed" for trial in found)


def killed_at(point: str, study: Path, results: Path) -> str:
    """Run a study that is killed at a fault point, hold it to lose no stored trial, and return its lab."""
    before = stored(results)
    result = ended(start("run", study, cwd=study.parent, env={VARIABLE: point}))
    assert result.status == -signal.SIGKILL, (point, result.stderr)
    assert stored(results)[: len(before)] == before, "a stored trial was lost or changed"
    return result.lab


def finished(study: Path, results: Path) -> Ended:
    """Run a study to its end, hold it to lose no stored trial, and return how it ended."""
    before = stored(results)
    result = tare("run", study, cwd=study.parent)
    assert result.status in (0, 3), result.stderr
    assert stored(results)[: len(before)] == before
    return result


@pytest.mark.parametrize(
    ("points", "broken"),
    [
        pytest.param(("store:after-trial:2",), 1, id="once", marks=pytest.mark.smoke),
        pytest.param(ELSEWHERE, 2, id="everywhere"),
    ],
)
def test_a_run_that_is_killed_finishes_and_loses_nothing_and_leaves_nothing(
    points: tuple[str, ...], broken: int, tmp_path: Path
) -> None:
    # The launches of a workload take turns and are stored one after the other: with two workloads, some of a block are
    # stored before others of it begin.
    two = f"{{micro: {{kernels: {MICRO}}}, again: {{kernels: {MICRO}}}}}"
    study = write_study(tmp_path, "kill", ["bare", "bare+bridge"], a_a="true", workloads=two)
    results = tmp_path / "results" / "kill"
    watch = Watch()
    labs = [killed_at(point, study, results) for point in points]
    assert Counter(map(outcome, trials(results)))["Completed"] >= 2
    last = finished(study, results)
    check_finished(results, cells=6, rounds=1)
    assert len({key(trial)[1:] for trial in trials(results) if outcome(trial) == "Interrupted"}) == broken
    again = tare("run", study, cwd=tmp_path)
    assert again.status == last.status
    assert "making the environments" not in again.stderr, "a finished study ran again"
    assert {lab: watch.left(lab) for lab in (*labs, last.lab) if watch.left(lab)} == {}


@pytest.mark.requires("docker", "mmdebstrap")
@pytest.mark.usefixtures("own_state")
def test_a_run_with_daemons_killed_in_a_trial_finishes_and_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    study = write_study(tmp_path, "killd", ["bare", "docker+overlay"], repetition="{rounds: 2, max_rounds: 2}")
    results = tmp_path / "results" / "killd"
    watch = Watch()
    with stopped("launch:started:3", "run", study, cwd=tmp_path) as process:
        name = f"s{process.pid}"
        watch.look(name)
        os.kill(process.pid, signal.SIGKILL)
    assert ended(process).status == -signal.SIGKILL
    assert len(pids_of(name)) > 10, "nothing was left: the test proves nothing"
    last = finished(study, results)
    check_finished(results, cells=2, rounds=2)
    assert watch.left(last.lab) == []
    assert watch.left(name) == []


def test_a_torn_last_line_is_set_aside_and_its_trial_run_again(tmp_path: Path) -> None:
    study = write_study(tmp_path, "torn", ["bare", "bare+bridge"], repetition="{rounds: 2, max_rounds: 2}")
    results = tmp_path / "results" / "torn"
    finished(study, results)
    file = results / "trials.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    again = tare("run", study, cwd=tmp_path)
    assert again.status in (0, 3), again.stderr
    assert "1 torn line archived" in again.stderr
    assert "1 interrupted block to run again" in again.stderr
    check_finished(results, cells=2, rounds=2)
    assert file.read_bytes().startswith(whole[: whole[:-100].rindex(b"\n") + 1])
