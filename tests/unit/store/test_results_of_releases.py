"""Results that earlier releases wrote are read as long as there are such results (tests/data/)."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tare.analysis.summary.select import select
from tare.cli import commands
from tare.model import Completed
from tare.store.writer import Store, read_only
from unit.store_blocks import remaining_blocks

FOLDERS = tuple(sorted((Path(__file__).parents[2] / "data").glob("results-*")))
OUTCOMES = {"results-0.1.0": {"Completed": 27, "Failed": 1, "Interrupted": 2}}


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
    for expected in ("latency 8 B", "bw 64 KiB", "barrier", "bare (A/A)", "bare+bridge", "1 failed", "2 interrupted"):
        assert expected in said
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
