"""Nothing is lost or doubled, at whatever moment the tool is killed or a write fails."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import InfrastructureError, ResultsError
from tare.model import Interrupted, TrialKey
from tare.store.writer import Store, read_only, remaining_blocks
from unit.store_blocks import assert_whole, finish, run_block
from unit.stored import PLAN, trial


def test_a_study_that_ran_through_is_whole(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path / "r", PLAN, {"host": {"kernel": "6.1"}}) as store:
        finish(store)
    results = read_only(tmp_path / "r")
    assert_whole(results)
    assert results.plan == PLAN
    assert results.facts == {"host": {"kernel": "6.1"}}
    assert not [t for t in results.trials if isinstance(t.outcome, Interrupted)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=3))
def test_killed_at_any_byte_it_finishes_with_each_block_complete_once(kills: list[tuple[bool, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
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


@pytest.mark.parametrize("bad", [b"nonsense\n", b'{"type":"Trial"}\n', b"[]\n"])
def test_a_bad_line_in_the_middle_is_named(tmp_path: Path, bad: bytes) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    file = tmp_path / "trials.jsonl"
    first, rest = file.read_bytes().split(b"\n", 1)
    file.write_bytes(first + b"\n" + bad + rest)
    openers: list[Callable[[], object]] = [lambda: Store.create_or_open(tmp_path, PLAN), lambda: read_only(tmp_path)]
    for opened in openers:
        with pytest.raises(ResultsError, match=r"trials\.jsonl:2: this line is not a trial"):
            opened()


def test_a_doubled_line_and_a_foreign_cell_are_named(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0, cells=1)
    file = tmp_path / "trials.jsonl"
    line = file.read_text()
    file.write_text(line + line)
    with pytest.raises(ResultsError, match=r":2: this trial occurs twice"):
        read_only(tmp_path)
    file.write_text(line.replace("w / 2n x 1r / ", "x / 2n x 1r / "))
    with pytest.raises(ResultsError, match=r":1: the plan has no cell"):
        read_only(tmp_path)


def test_orphan_samples_are_removed_on_opening_and_other_files_are_left(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path, PLAN).close()
    for name in ("r0000-b00-a00-c0000.npz", "r0000-b00-a00-c0001.npz.partial", "mine.txt"):
        (tmp_path / "samples" / name).write_text("x")
    Store.create_or_open(tmp_path, PLAN).close()
    assert [p.name for p in (tmp_path / "samples").iterdir()] == ["mine.txt"]


def test_a_folder_whose_making_was_broken_off_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "lock").touch()
    (tmp_path / "trials.jsonl").touch()
    (tmp_path / "plan.json.partial").write_text("{")
    with Store.create_or_open(tmp_path, PLAN) as store:
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
