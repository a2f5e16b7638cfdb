"""A folder of results belongs to one study, one host and one run at a time, and can be resumed; others are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tare.errors import ResultsError
from tare.model import Repetition, TrialKey
from tare.plan.cells import expand
from tare.store.writer import Store, read_only, remaining_blocks
from unit.store_blocks import assert_whole, finish, run_block
from unit.stored import PLAN, STUDY, trial


def test_results_of_another_study_are_refused_and_say_in_what_they_differ(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path, PLAN).close()
    other = expand(replace(STUDY, seed=9), lambda _e, _p: None)
    with pytest.raises(ResultsError, match=r"they differ in seed\n.*--fresh"):
        Store.create_or_open(tmp_path, other)


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


def test_a_cell_that_has_trials_and_cannot_run_any_more_stops_the_run(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path, PLAN) as store:
        run_block(store, 0, 0, 0)
    lost = expand(STUDY, lambda e, _p: "dockerd is gone" if e.runtime == "docker" else None)
    with pytest.raises(ResultsError, match="dockerd is gone"):
        Store.create_or_open(tmp_path, lost)


def test_a_cell_that_can_run_only_now_makes_the_earlier_blocks_run_again(tmp_path: Path) -> None:
    without = expand(STUDY, lambda e, _p: "no Docker yet" if e.runtime == "docker" else None)
    with Store.create_or_open(tmp_path, without) as store:
        run_block(store, 0, 0, 0)
    with Store.create_or_open(tmp_path, PLAN) as store:
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


def test_the_rounds_after_which_verdicts_were_shown_are_kept_each_once(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path / "r", PLAN, {"cpu": "x"}) as store:
        for rounds in (6, 0, 10, 6):
            store.note_look(rounds)
    assert read_only(tmp_path / "r").looks == (6, 10)
    more = replace(PLAN, study=replace(STUDY, repetition=replace(STUDY.repetition, rounds=9, max_rounds=9)))
    with Store.create_or_open(tmp_path / "r", more) as store:
        assert store.looks == (6, 10)
        store.note_look(8)
    results = read_only(tmp_path / "r")
    assert (results.looks, results.facts, len(results.revisions)) == ((6, 8, 10), {"cpu": "x"}, 1)


def test_looks_of_older_results_are_the_rounds_that_were_asked_for_before(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path / "r", PLAN).close()
    for rounds in (9, 12):
        study = replace(STUDY, repetition=replace(STUDY.repetition, rounds=rounds, max_rounds=rounds))
        Store.create_or_open(tmp_path / "r", replace(PLAN, study=study)).close()
    header = json.loads((tmp_path / "r" / "plan.json").read_text())
    del header["looks"]
    (tmp_path / "r" / "plan.json").write_text(json.dumps(header))
    assert read_only(tmp_path / "r").looks == (3, 9)


def test_facts_may_be_added_while_a_study_runs(tmp_path: Path) -> None:
    with Store.create_or_open(tmp_path / "r", PLAN, {"cpu": "x"}) as store:
        store.note_facts(nodes={"n0": {"rules": 3}})
    assert read_only(tmp_path / "r").facts == {"cpu": "x", "nodes": {"n0": {"rules": 3}}}


def test_results_whose_study_has_since_got_keys_with_defaults_go_on(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path / "r", replace(PLAN, digest="made before the key")).close()
    with Store.create_or_open(tmp_path / "r", PLAN) as store:
        assert store.trials == []
    other = replace(PLAN, digest="other", study=replace(STUDY, seed=STUDY.seed + 1))
    with pytest.raises(ResultsError, match="differ in seed"):
        Store.create_or_open(tmp_path / "r", other)


def test_runs_from_unlike_hosts_are_not_merged(tmp_path: Path) -> None:
    Store.create_or_open(tmp_path, PLAN, {"identity": {"kernel": "6.1"}}).close()
    Store.create_or_open(tmp_path, PLAN, {"identity": {"kernel": "6.1", "new": 1}}).close()
    with pytest.raises(ResultsError, match=r"kernel was '6\.1' and is '6\.9'"):
        Store.create_or_open(tmp_path, PLAN, {"identity": {"kernel": "6.9"}})


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
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


def test_trials_without_a_plan_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text("{}\n")
    with pytest.raises(ResultsError, match=r"trials but no plan\.json"):
        Store.create_or_open(tmp_path, PLAN)


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
