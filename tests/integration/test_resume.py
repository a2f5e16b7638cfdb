"""`kill -9` at any instant loses at most the running trial; the same command finishes the study."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    MICRO,
    Watch,
    ended,
    live,
    outcome,
    pids_of,
    start,
    tare,
    trials,
    wait_for,
    write_study,
)

pytestmark = live("cni")
SEED = 20261121


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


def killed_at(study: Path, folder: Path, seconds: float | None, results: Path) -> tuple[bool, str]:
    """Kill a run after so many seconds of it doing something, or while a part of its first block is stored; return
    whether it was still running, and its lab."""
    before = len(stored(results))
    process = start("run", study, cwd=folder)
    name = f"s{process.pid}"
    if seconds is None:
        wait_for(lambda: Counter(map(outcome, trials(results)[before:]))["Completed"] or process.poll() is not None,
                 "trial", 60)  # fmt: skip
    else:
        wait_for(lambda: list(Path("/run/tare").glob(f"{name}-*")) or process.poll() is not None, "lab")
        time.sleep(seconds)
    running = process.poll() is None
    if running:
        os.kill(process.pid, signal.SIGKILL)
    result = ended(process)
    assert running or result.status in (0, 3), result.stderr
    assert len(stored(results)) >= before
    return running, name


def test_a_run_killed_at_random_instants_and_within_a_block_finishes_and_loses_nothing(tmp_path: Path) -> None:
    # The launches of a workload take turns and are stored together: with two workloads, a stored launch has others of
    # its block after it.
    environments, two = ["bare", "bare+bridge"], f"{{micro: {{kernels: {MICRO}}}, again: {{kernels: {MICRO}}}}}"
    repetition = "{rounds: 3, max_rounds: 3}"
    study = write_study(tmp_path, "kill", environments, repetition=repetition, a_a="true", workloads=two)
    results = tmp_path / "results" / "kill"
    dice = random.Random(SEED)
    watch = Watch()
    labs: list[str] = []
    for instant in (*(dice.uniform(0.0, 2.0) for _ in range(2)), None):
        before = stored(results)
        running, name = killed_at(study, tmp_path, instant, results)
        assert running, f"the study was over before it was killed {len(labs) + 1} times"
        labs.append(name)
        after = stored(results)
        assert after[: len(before)] == before, "a stored trial was lost or changed"
    last = tare("run", study, cwd=tmp_path)
    assert last.status in (0, 3), last.stderr
    assert stored(results)[: len(after)] == after
    check_finished(results, cells=6, rounds=3)
    assert sum(outcome(trial) == "Interrupted" for trial in trials(results)) >= 1
    again = tare("run", study, cwd=tmp_path)
    assert again.status == last.status
    assert "making pods" not in again.stderr, "a finished study ran again"
    for name in (*labs, last.lab):
        assert watch.left(name) == []


@pytest.mark.alone
@pytest.mark.requires("docker", "mmdebstrap")
def test_a_run_with_daemons_killed_in_a_trial_finishes_and_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    study = write_study(tmp_path, "killd", ["bare", "docker+overlay"], repetition="{rounds: 2, max_rounds: 2}")
    results = tmp_path / "results" / "killd"
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    wait_for(lambda: stored(results) or process.poll() is not None, "trial", 60)
    watch.look(name)
    time.sleep(random.Random(SEED).uniform(0.0, 0.5))
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    assert len(pids_of(name)) > 10, "nothing was left: the test proves nothing"
    before = stored(results)
    last = tare("run", study, cwd=tmp_path)
    assert last.status in (0, 3), last.stderr
    assert stored(results)[: len(before)] == before
    check_finished(results, cells=2, rounds=2)
    assert watch.left(last.lab) == []
    assert watch.left(name) == []


def test_a_torn_last_line_is_set_aside_and_its_trial_run_again(tmp_path: Path) -> None:
    study = write_study(tmp_path, "torn", ["bare", "bare+bridge"], repetition="{rounds: 2, max_rounds: 2}")
    results = tmp_path / "results" / "torn"
    assert tare("run", study, cwd=tmp_path).status in (0, 3)
    file = results / "trials.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    again = tare("run", study, cwd=tmp_path)
    assert again.status in (0, 3), again.stderr
    assert "1 torn line(s) were archived" in again.stderr
    assert "1 interrupted block(s)" in again.stderr
    check_finished(results, cells=2, rounds=2)
    assert file.read_bytes().startswith(whole[: whole[:-100].rindex(b"\n") + 1])
