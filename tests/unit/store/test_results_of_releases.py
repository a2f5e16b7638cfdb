"""Results that earlier releases wrote are read as long as there are such results (tests/data/)."""

from __future__ import annotations

import json
import lzma
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tare.analysis.summary.select import select
from tare.cli import commands, session
from tare.model import Completed, Trial
from tare.store.codec import decode, encode
from tare.store.writer import Store, read_only
from unit.store_blocks import remaining_blocks

DATA = Path(__file__).parents[2] / "data"
FOLDERS = tuple(sorted(DATA.glob("results-*")))
OUTCOMES = {
    "results-0.1.0": {"Completed": 27, "Failed": 1, "Interrupted": 2},
    "results-0.2.0": {"Completed": 28, "Failed": 2, "Invalid": 1, "Interrupted": 2},
}
FAILED = {"results-0.1.0": "1 failed", "results-0.2.0": "2 failed"}
WRITTEN = [json.loads(line) for line in lzma.decompress((DATA / "written-0.2.0.jsonl.xz").read_bytes()).splitlines()]
"""Whole records of the trials that 0.2.0 was given when it wrote its folder."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_trial_and_every_sample_of_an_earlier_release_is_read(folder: Path) -> None:
    results = read_only(folder)
    assert Counter(type(trial.outcome).__name__ for trial in results.trials) == OUTCOMES[folder.name]
    assert sum(map(len, select(results.plan, results.trials).trials.values())) == 18
    for trial in results.trials:
        columns = results.columns(trial)
        if isinstance(trial.outcome, Completed):
            by_key = {metric.key: metric for metric in trial.outcome.metrics}
            assert by_key.keys() == {name.partition("/")[0] for name in columns}
            for key, metric in by_key.items():
                assert columns[f"{key}/max_s"].mean() == pytest.approx(metric.value)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_results_of_an_earlier_release_make_the_terminal_and_the_html_report(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    commands.show_report(folder, tmp_path / "report.html")
    said = capsys.readouterr().out
    for expected in (
        "latency 8 B",
        "bw 64 KiB",
        "barrier",
        "bare (A/A)",
        "bare+bridge",
        "2 interrupted",
        FAILED[folder.name],
    ):
        assert expected in said
    assert FAILED[folder.name] in said
    page = (tmp_path / "report.html").read_text()
    assert "bare+bridge" in page
    assert "unknown kernel" in page


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_study_of_an_earlier_release_is_gone_on_with(folder: Path, tmp_path: Path) -> None:
    there = tmp_path / "results"
    shutil.copytree(folder, there)
    before = read_only(there)
    with Store.create_or_open(there, before.plan, before.facts) as store:
        assert store.trials == before.trials
        assert not list(remaining_blocks(store.plan, store.trials))
    assert (there / "trials.jsonl").read_bytes() == (folder / "trials.jsonl").read_bytes()


def test_values_that_trials_of_0_2_0_shared_are_read_as_they_were_given(tmp_path: Path) -> None:
    there = tmp_path / "results"
    shutil.copytree(DATA / "results-0.2.0", there)
    results = read_only(there)
    assert results.trials == [decode(Trial, record) for record in WRITTEN]
    assert [json.loads(json.dumps(encode(trial))) for trial in results.trials] == WRITTEN
    assert (results.truncated, results.looks, len(results.revisions)) == (1, (3, 6), 1)
    with Store.create_or_open(there, results.plan, results.facts) as store:
        (again,) = [trial for trial in results.trials if trial.key.round == 5 and trial.key.repeat == 2]
        store.append(replace(again, key=replace(again.key, repeat=3)))
    assert [encode(trial) for trial in read_only(there).trials[:-1]] == WRITTEN
    assert read_only(there).trials[-1] == replace(again, key=replace(again.key, repeat=3))


def test_whole_records_are_summed_up_as_those_of_0_2_0_are(tmp_path: Path) -> None:
    there = tmp_path / "results"
    shutil.copytree(DATA / "results-0.2.0", there)
    (there / "shared.jsonl").unlink()
    (there / "trials.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in WRITTEN))
    assert session.summary_of(read_only(there)) == session.summary_of(read_only(DATA / "results-0.2.0"))
