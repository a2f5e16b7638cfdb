"""Which blocks remain and which trials count; samples come back as they were."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from counted_calls import count_calls
from tare import model
from tare.errors import ResultsError
from tare.model import Completed, Failed, Interrupted, Repetition, Trial, TrialKey
from tare.plan.cells import block_order, expand
from tare.store.writer import Store, read_only, remaining_blocks
from unit.store_blocks import counted
from unit.stored import PLAN, SAMPLES, STUDY, trial

# --- what is still to run, and what counts ---------------------------------------------------------------------


def trial_of(cell: str, round_: int, block: int, attempt: int, outcome: model.Outcome | None = None) -> Trial:
    return trial(TrialKey(cell=cell, round=round_, block=block, attempt=attempt), outcome)


def test_blocks_without_a_complete_attempt_remain_and_broken_ones_come_as_the_next_attempt() -> None:
    done = [trial_of(c, 0, 0, 0) for c in block_order(PLAN, 0, 0)]
    broken = [trial_of(c, 0, 1, 0) for c in block_order(PLAN, 0, 1)[:2]]
    assert list(remaining_blocks(PLAN, [])) == [(r, b, 0) for r in range(3) for b in range(2)]
    assert list(remaining_blocks(PLAN, done + broken)) == [(0, 1, 1), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    assert list(remaining_blocks(PLAN, done, rounds=1)) == [(0, 1, 0)]


def test_a_failed_trial_completes_a_block_and_an_interrupted_one_does_not() -> None:
    plan = expand(replace(STUDY, repetition=Repetition(rounds=1, max_rounds=1)), lambda _e, _p: None)
    first, *rest = block_order(plan, 0, 0)
    others = [trial_of(cell, 0, 0, 0) for cell in rest]
    assert list(remaining_blocks(plan, [trial_of(first, 0, 0, 0, Failed(reason="crashed")), *others])) == []
    assert list(remaining_blocks(plan, [trial_of(first, 0, 0, 0, Interrupted()), *others])) == [(0, 0, 1)]


def test_the_last_complete_attempt_counts() -> None:
    first = [trial_of(c, 0, 0, 0) for c in block_order(PLAN, 0, 0, 0)]
    again = [trial_of(c, 0, 0, 1) for c in block_order(PLAN, 0, 0, 1)]
    broken = [trial_of(c, 0, 0, 2) for c in block_order(PLAN, 0, 0, 2)[:2]]
    assert {t.key.attempt for t in counted(PLAN, first + again + broken)} == {1}
    assert len(counted(PLAN, first + again + broken)) == len(PLAN.cells)


def disturbed(block: Iterable[Trial], background_s: float = 1.0) -> list[Trial]:
    """Return the trials as if others had used this much CPU time during each, on one core that took a second."""
    noise = {"cores": 1.0, "background_s": background_s, "job_s": 0.9, "steal_s": 0.0}
    return [replace(trial, elapsed_s=1.0, noise=noise) for trial in block]


def test_no_state_of_the_machine_makes_a_block_run_again() -> None:
    first = disturbed(trial_of(c, 0, 0, 0) for c in block_order(PLAN, 0, 0))
    repeats = [replace(each, key=replace(each.key, repeat=1)) for each in first]
    assert next(remaining_blocks(PLAN, first)) == (0, 1, 0)
    assert next(remaining_blocks(PLAN, [*first, *repeats])) == (0, 1, 0)
    assert next(remaining_blocks(PLAN, first[:1])) == (0, 0, 1)
    assert {t.key.repeat for t in counted(PLAN, [*first, *repeats])} == {1}


def test_a_plan_without_any_cell_that_can_run_has_no_blocks() -> None:
    nothing = expand(STUDY, lambda _e, _p: "nothing works")
    assert list(remaining_blocks(nothing, [])) == []


# --- samples and speed ------------------------------------------------------------------------------------------


def test_samples_come_back_as_they_were(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        stored = store.append(trial(TrialKey(cell=PLAN.cells[1].key, round=2, block=1, attempt=0)), SAMPLES)
        bare = store.append(trial(TrialKey(cell=PLAN.cells[0].key, round=2, block=1, attempt=0)))
        assert stored.samples_file == "samples/r0002-b01-a00-c0001.npz"
        assert store.columns(bare) == {}
        back = store.columns(stored)
    assert list(back) == ["barrier", "file"]
    assert all(np.array_equal(back[name], SAMPLES[name]) for name in SAMPLES)
    assert back["file"].dtype == SAMPLES["file"].dtype


def test_missing_and_damaged_samples_are_named(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        stored = store.append(trial(TrialKey(cell=PLAN.cells[0].key, round=0, block=0, attempt=0)), SAMPLES)
        file = tmp_path / stored.samples_file
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(ResultsError, match="is damaged"):
            store.columns(stored)
        file.unlink()
        with pytest.raises(ResultsError, match="is missing"):
            store.columns(stored)


def test_a_closed_store_takes_no_trial(tmp_path: Path) -> None:
    store = Store.create_or_open(tmp_path, PLAN)
    store.close()
    store.close()
    with pytest.raises(ResultsError, match="is closed"):
        store.append(trial(TrialKey(cell=PLAN.cells[0].key, round=0, block=0, attempt=0)))


def test_storing_a_trial_is_the_same_work_however_many_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, synced.append)
    ranks = tuple(model.RankPlace(rank=r, host="h", hostname="h", pid=r, cpus=(r,)) for r in range(8))
    metrics = tuple(model.Metric(key=f"m{i}", label="m", kind=model.MetricKind.COST, value=1e-5) for i in range(8))
    samples = {f"kernel{i}": np.random.default_rng(i).random(10_000) for i in range(6)}
    calls = []
    with Store.create_or_open(tmp_path, PLAN) as store:
        for round_ in range(30):
            key = TrialKey(cell=PLAN.cells[0].key, round=round_, block=0, attempt=0)
            whole = replace(
                trial(key, Completed(metrics=metrics)), ranks=ranks, counters={f"c{i}": 1.0 for i in range(60)}
            )
            synced.clear()
            calls.append(count_calls(partial(store.append, whole, samples)))
            assert len(synced) <= 3, "its samples, its line and what it shares with others"
    assert max(calls[2:]) <= 1.1 * calls[1]


def test_an_interrupt_while_samples_are_written_takes_effect_when_the_trial_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = np.lib.format.write_array

    def interrupted(*arguments: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        write(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    key = next(iter(PLAN.cells)).key
    with Store.create_or_open(tmp_path / "r", PLAN) as store, pytest.raises(KeyboardInterrupt):
        store.append(trial_of(key, 0, 0, 0), SAMPLES)
    (stored,) = read_only(tmp_path / "r").trials
    assert stored.key == TrialKey(cell=key, round=0, block=0, attempt=0)
    assert stored.samples_file
