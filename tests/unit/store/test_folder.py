"""A folder of results belongs to one study, host and run at a time; nothing is lost whenever that is killed.

It is one file because all sections use the same small study and the store that is killed while it writes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_calls import count_calls
from tare import model
from tare.errors import InfrastructureError, ResultsError
from tare.model import Completed, Failed, Interrupted, Repetition, Trial, TrialKey
from tare.store import writer
from tare.store.writer import Store, read_only
from tare.study.plan.cells import block_order, expand
from unit.store_blocks import assert_whole, counted, finish, remaining_blocks, run_block
from unit.stored import PLAN, SAMPLES, STUDY, trial

TRAFFIC = model.InterfaceTraffic(
    node="n0", interface="eth0", role="r", rx_bytes=1, tx_bytes=1, rx_packets=1, tx_packets=1
)


def test_results_of_another_study_host_or_of_something_else_are_refused(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path, PLAN).close()
    other = expand(replace(STUDY, seed=9), lambda _e, _p: None)
    with pytest.raises(ResultsError, match=r"they differ in seed\n.*--fresh"):
        Store.create_or_open(tmp_path, other)
    folder = tmp_path / "hosts"
    Store.create_or_open(folder, PLAN, {"identity": {"kernel": "6.1"}}).close()
    Store.create_or_open(folder, PLAN, {"identity": {"kernel": "6.1", "new": 1}}).close()
    with pytest.raises(ResultsError, match=r"kernel was '6\.1' and is '6\.9'"):
        Store.create_or_open(folder, PLAN, {"identity": {"kernel": "6.9"}})


def test_fresh_moves_earlier_results_aside(tmp_path: Path) -> None:
    path = tmp_path / "r"
    for _ in range(3):
        with Store.create_or_open(path, PLAN, fresh=True) as store:
            assert store.trials == []
            run_block(store, 0, 0, 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r", "r.previous-1", "r.previous-2"]
    assert len(read_only(tmp_path / "r.previous-1").trials) == len(PLAN.cells)


def test_more_rounds_go_on_with_the_same_results_and_the_earlier_statement_is_kept(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        finish(store)
    longer = expand(replace(STUDY, repetition=Repetition(rounds=4, blocks_per_round=2)), lambda _e, _p: None)
    with Store.create_or_open(tmp_path, longer) as store:
        assert list(remaining_blocks(longer, store.trials)) == [(3, 0, 0), (3, 1, 0)]
        finish(store)
    results = read_only(tmp_path)
    assert_whole(results, longer)
    assert results.plan == longer
    assert results.revisions[0]["study"]["repetition"]["rounds"] == 3


def test_cells_that_cannot_run_any_more_stop_the_run_and_those_that_can_only_now_run_blocks_again(
    tmp_path: Path,
) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    lost = expand(STUDY, lambda e, _p: "dockerd is gone" if e.runtime == "docker" else None)
    with pytest.raises(ResultsError, match="dockerd is gone"):
        Store.create_or_open(tmp_path, lost)
    folder = tmp_path / "now"
    without = expand(STUDY, lambda e, _p: "no Docker yet" if e.runtime == "docker" else None)
    with Store.create_or_open(folder, without) as store:
        run_block(store, 0, 0, 0)
    with Store.create_or_open(folder, PLAN) as store:
        assert store.interrupted == 0
        assert next(remaining_blocks(PLAN, store.trials)) == (0, 0, 1)
        finish(store)
        assert_whole(store)


def test_a_repeat_is_a_line_of_its_own_with_its_own_samples(tmp_path: Path) -> None:
    key = TrialKey(cell=PLAN.cells[0].key, round=0, block=0, attempt=0)
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        store.append(trial(key), {"a": np.zeros(3)})
        store.append(trial(replace(key, repeat=1)), {"a": np.ones(3)})
    with Store.create_or_open(tmp_path / "r", PLAN) as store:  # orphans are removed here: neither is one
        assert [t.key.repeat for t in store.trials[:2]] == [0, 1]
        assert [float(store.columns(t)["a"].sum()) for t in store.trials[:2]] == [0.0, 3.0]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"counters": {"x": 1e250}}, "counters has 'x' of 1e+250"),
        ({"counters": {"x": math.nan}}, "counters has 'x' of nan"),
        ({"counters": {"x": "text"}}, "impossible: "),
        ({"counters": {"x": 10**19}}, "counters has 'x' of 1e+19"),
        ({"counters": {"x": -1.0}}, "counters has 'x' of -1"),
        ({"node_counters": {"n0": {"x": math.inf}}}, "node_counters of 'n0' has 'x' of inf"),
        ({"node_counters": {"n0": {"x": 1e250}}}, "node_counters of 'n0' has 'x' of 1e"),
        ({"node_counters": {"n0": {"x": "many"}}}, "impossible: "),
        ({"noise": {"steal_s": -5.0}}, "noise has 'steal_s' of -5"),
        ({"noise": {"steal_s": math.inf}}, "noise has 'steal_s' of inf"),
        ({"noise": {"job_s": None}}, "impossible: "),
        ({"startup_s": {"total_s": math.nan}}, "startup_s has 'total_s' of nan"),
        ({"elapsed_s": -1.0}, "elapsed_s is -1"),
        ({"elapsed_s": math.nan}, "elapsed_s is nan"),
        ({"traffic": (replace(TRAFFIC, rx_bytes=-5),)}, "the counters of eth0 of n0 ran backwards: rx_bytes is -5"),
        ({"traffic": (replace(TRAFFIC, tx_packets=1 << 64),)}, "tx_packets is 1.84467e+19"),
    ],
)
def test_a_trial_with_impossible_values_is_stored_as_invalid_and_can_be_read(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    keys = [TrialKey(cell=cell.key, round=0, block=0, attempt=0) for cell in PLAN.cells]
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        stored = store.append(replace(trial(keys[0]), **changed))
        failed = store.append(replace(trial(keys[1], Failed(reason="it failed")), **changed))
    assert isinstance(stored.outcome, model.Invalid)
    assert "is impossible" in stored.outcome.reason
    assert why in stored.outcome.reason
    assert failed.outcome == Failed(reason="it failed")
    assert list(read_only(tmp_path / "r").trials[:2]) == [stored, failed]


def test_the_rounds_after_which_verdicts_were_shown_are_kept_each_once(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path / "r", PLAN, {"cpu": "x"}) as store:
        for rounds in (6, 0, 10, 6):
            store.note_look(rounds)
        store.note_facts(nodes={"n0": 3})
    assert read_only(tmp_path / "r").looks == (6, 10)
    more = replace(PLAN, study=replace(STUDY, repetition=replace(STUDY.repetition, rounds=9, max_rounds=9)))
    with Store.create_or_open(tmp_path / "r", more) as store:
        assert store.looks == (6, 10)
        store.note_look(8)
    results = read_only(tmp_path / "r")
    assert (results.looks, results.facts, len(results.revisions)) == ((6, 8, 10), {"cpu": "x", "nodes": {"n0": 3}}, 1)


def test_looks_of_older_results_are_the_rounds_that_were_asked_for_before(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path / "r", PLAN).close()
    for rounds in (9, 12):
        study = replace(STUDY, repetition=replace(STUDY.repetition, rounds=rounds, max_rounds=rounds))
        Store.create_or_open(tmp_path / "r", replace(PLAN, study=study)).close()
    header = json.loads((tmp_path / "r" / "plan.json").read_text())
    del header["looks"]
    (tmp_path / "r" / "plan.json").write_text(json.dumps(header))
    assert read_only(tmp_path / "r").looks == (3, 9)


def test_results_whose_study_has_since_got_keys_with_defaults_go_on(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path / "r", replace(PLAN, digest="made before the key")).close()
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        assert store.trials == []


def test_a_folder_of_something_else_or_without_a_plan_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ResultsError, match=r"is not empty, and not a results folder \(it contains thesis\.tex\)"):
        Store.create_or_open(tmp_path, PLAN)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ResultsError, match="is a file"):
        Store.create_or_open(tmp_path / "thesis.tex", PLAN)
    with pytest.raises(ResultsError, match="not a results folder"):
        read_only(tmp_path)
    with pytest.raises(ResultsError, match=r"results folder .* not found"):
        read_only(tmp_path / "none")
    folder = tmp_path / "unplanned"
    folder.mkdir()
    (folder / "trials.jsonl").write_text("{}\n")
    with pytest.raises(ResultsError, match=r"trials but no plan\.json"):
        Store.create_or_open(folder, PLAN)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{"format": 3}', "was written in format 3; this tare reads formats up to 2"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"format": 1}', "is damaged"),
        ('{"format": 1, "plan": {"type": "Plan"}}', "Plan lacks study"),
    ],
)
def test_a_plan_of_a_newer_format_or_damaged_is_told(tmp_path: Path, content: str, part: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    openers: list[Callable[[], object]] = [lambda: Store.create_or_open(tmp_path, PLAN), lambda: read_only(tmp_path)]
    for opened in openers:
        with pytest.raises(ResultsError, match=r"\w") as caught:
            opened()
        assert part in str(caught.value)


def test_a_second_run_on_the_same_folder_is_refused_while_the_first_is_open(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN):
        assert _opens_in_a_child(tmp_path) == f"another tare is writing to {tmp_path} (process {os.getpid()})"
        assert read_only(tmp_path).trials == []
    assert _opens_in_a_child(tmp_path) == ""


def test_a_run_on_another_host_or_in_a_container_is_named_with_it(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN):
        script = r'printf "17\npid:[4] c0ffee\n" > lock'  # if this process closed the file, its lock would end
        subprocess.run(("sh", "-c", script), cwd=tmp_path, check=True)
        told = _opens_in_a_child(tmp_path)
        assert told == f"another tare is writing to {tmp_path} (process 17 on c0ffee, another host or container)"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_folder_without_locks_is_refused_in_words(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(ResultsError, match="cannot be locked, so that two runs could write to it") as caught:
        Store.create_or_open(tmp_path, PLAN)
    assert os.strerror(number) in caught.value.message
    assert "file system with locks" in caught.value.remedy


def test_a_forked_child_does_not_keep_the_folder_shut(tmp_path: Path) -> None:
    store = Store.create_or_open(tmp_path, PLAN)
    until_the_test_ends, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(held)
        os.read(until_the_test_ends, 1)
        os._exit(0)
    try:
        store.close()
        assert _opens_in_a_child(tmp_path) == ""
    finally:
        os.close(held)
        os.waitpid(child, 0)
        os.close(until_the_test_ends)


def _opens_in_a_child(path: Path) -> str:
    """Return the message with which another process is refused, or nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            Store.create_or_open(path, PLAN).close()
        except ResultsError as error:
            os.write(writer, error.message.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        return said.read()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=3))
def test_killed_at_any_byte_it_finishes_with_each_block_complete_once(kills: list[tuple[bool, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fdatasync"), mock.patch("os.fsync"):
        path = Path(folder) / "r"
        with Store.create_or_open(path, PLAN) as store:
            finish(store)
        for near_end, where in kills:
            size = (path / "trials.jsonl").stat().st_size
            os.truncate(path / "trials.jsonl", size - where % 900 if near_end else size * where // 10**6)
            with Store.create_or_open(path, PLAN) as store:
                finish(store)
                assert_whole(store)
        results = read_only(path)
        assert_whole(results)
        used = {Path(t.samples_file).name for t in results.trials if t.samples_file}
        assert {p.name for p in (path / "samples").iterdir()} == used


def test_a_broken_block_is_marked_and_run_again_whole(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
        run_block(store, 0, 1, 0, cells=1)
    with Store.create_or_open(tmp_path, PLAN) as store:
        assert store.interrupted == 1
        marked = [t for t in store.trials if isinstance(t.outcome, Interrupted)]
        assert {(t.key.round, t.key.block, t.key.attempt) for t in marked} == {(0, 1, 0)}
        assert len(marked) == len(PLAN.cells) - 1
        assert next(remaining_blocks(PLAN, store.trials)) == (0, 1, 1)
    with Store.create_or_open(tmp_path, PLAN) as store:
        assert store.interrupted == 0
        assert len(store.trials) == 2 * len(PLAN.cells)
        finish(store)
        assert_whole(store)


def test_a_truncated_last_line_is_kept_aside_and_counted(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    file = tmp_path / "trials.jsonl"
    whole = file.read_bytes()
    for tail in (b'{"type":"Tri', b'{"type":"Tri\n', b"\0\0\0"):
        file.write_bytes(whole + tail)
        assert len(read_only(tmp_path).trials) == len(PLAN.cells)
        assert file.read_bytes() == whole + tail
        Store.create_or_open(tmp_path, PLAN).close()
        assert file.read_bytes() == whole
    assert read_only(tmp_path).truncated == 3
    notes = [json.loads(line) for line in (tmp_path / "trials.jsonl.truncated").read_text().splitlines()]
    assert notes[0]["text"] == '{"type":"Tri'


def test_orphan_samples_are_removed_and_a_folder_whose_making_was_broken_off_is_begun_again(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path, PLAN).close()
    for name in ("r0000-b00-a00-c0000.npz", "r0000-b00-a00-c0001.npz.partial", "mine.txt"):
        (tmp_path / "samples" / name).write_text("x")
    Store.create_or_open(tmp_path, PLAN).close()
    assert [p.name for p in (tmp_path / "samples").iterdir()] == ["mine.txt"]
    folder = tmp_path / "broken off"
    folder.mkdir()
    (folder / "samples").mkdir()
    (folder / "lock").touch()
    (folder / "trials.jsonl").touch()
    (folder / "plan.json.partial").write_text("{")
    with Store.create_or_open(folder, PLAN) as store:
        finish(store)
        assert_whole(store)


def test_a_write_that_fails_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
        before = (tmp_path / "trials.jsonl").read_bytes()

        def full(number: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fdatasync", full)
        key = TrialKey(cell=PLAN.cells[0].key, round=0, block=1, attempt=0)
        with pytest.raises(InfrastructureError, match="No space left on device"):
            store.append(trial(key))
        monkeypatch.undo()
        assert (tmp_path / "trials.jsonl").read_bytes() == before
        finish(store)
        assert_whole(store)


def test_a_run_ends_before_its_file_of_trials_is_too_large_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
        monkeypatch.setattr(writer, "MOST_BYTES", (tmp_path / "trials.jsonl").stat().st_size)
        with pytest.raises(InfrastructureError, match=r"trials\.jsonl is full: at most .*\n.*--results"):
            store.append(trial(TrialKey(cell=PLAN.cells[0].key, round=0, block=1, attempt=0)))
    assert len(read_only(tmp_path).trials) == len(PLAN.cells)
    Store.create_or_open(tmp_path, PLAN).close()


def trial_of(cell: str, round_: int, block: int, attempt: int, outcome: model.Outcome | None = None) -> Trial:
    return trial(TrialKey(cell=cell, round=round_, block=block, attempt=attempt), outcome)


def test_blocks_without_a_complete_attempt_remain_and_the_last_complete_one_counts() -> None:
    done = [trial_of(c, 0, 0, 0) for c in block_order(PLAN, 0, 0)]
    broken = [trial_of(c, 0, 1, 0) for c in block_order(PLAN, 0, 1)[:2]]
    assert list(remaining_blocks(PLAN, [])) == [(r, b, 0) for r in range(3) for b in range(2)]
    assert list(remaining_blocks(PLAN, done + broken)) == [(0, 1, 1), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    assert list(remaining_blocks(PLAN, done, rounds=1)) == [(0, 1, 0)]
    plan = expand(replace(STUDY, repetition=Repetition(rounds=1, max_rounds=1)), lambda _e, _p: None)
    first, *rest = block_order(plan, 0, 0)
    others = [trial_of(cell, 0, 0, 0) for cell in rest]
    assert list(remaining_blocks(plan, [trial_of(first, 0, 0, 0, Failed(reason="crashed")), *others])) == []
    assert list(remaining_blocks(plan, [trial_of(first, 0, 0, 0, Interrupted()), *others])) == [(0, 0, 1)]
    again = [trial_of(c, 0, 0, 1) for c in block_order(PLAN, 0, 0, 1)]
    broken = [trial_of(c, 0, 0, 2) for c in block_order(PLAN, 0, 0, 2)[:2]]
    assert {t.key.attempt for t in counted(PLAN, done + again + broken)} == {1}
    assert len(counted(PLAN, done + again + broken)) == len(PLAN.cells)
    nothing = expand(STUDY, lambda _e, _p: "nothing works")
    assert list(remaining_blocks(nothing, [])) == []


def test_no_state_of_the_machine_makes_a_block_run_again() -> None:
    noise = {"cores": 1.0, "background_s": 1.0, "job_s": 0.9, "steal_s": 0.0}  # others took a second of the core
    first = [replace(trial_of(c, 0, 0, 0), elapsed_s=1.0, noise=noise) for c in block_order(PLAN, 0, 0)]
    repeats = [replace(each, key=replace(each.key, repeat=1)) for each in first]
    assert next(remaining_blocks(PLAN, first)) == (0, 1, 0)
    assert next(remaining_blocks(PLAN, [*first, *repeats])) == (0, 1, 0)
    assert next(remaining_blocks(PLAN, first[:1])) == (0, 0, 1)
    assert {t.key.repeat for t in counted(PLAN, [*first, *repeats])} == {1}


# --- samples and speed ------------------------------------------------------------------------------------------


def test_samples_come_back_as_they_were_and_missing_or_damaged_ones_are_named(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        stored = store.append(trial(TrialKey(cell=PLAN.cells[1].key, round=2, block=1, attempt=0)), SAMPLES)
        bare = store.append(trial(TrialKey(cell=PLAN.cells[0].key, round=2, block=1, attempt=0)))
        assert stored.samples_file == "samples/r0002-b01-a00-c0001.npz"
        assert store.columns(bare) == {}
        back = store.columns(stored)
    assert list(back) == ["barrier", "file"]
    assert all(np.array_equal(back[name], SAMPLES[name]) for name in SAMPLES)
    assert back["file"].dtype == SAMPLES["file"].dtype
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
            assert len(synced) <= 2, "its samples and its line"
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
