"""A cell whose launches left processes behind says so in the report, in every form; older results do not know."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import exports
from tare.analysis.summary import summarise
from tare.analysis.summary.warnings import CROWDED
from tare.cli import commands
from tare.report.export import json as json_format
from tare.report.export import markdown
from tare.store.results_checks import check_trial
from tare.store.writer import read_only
from unit.summaries import make_plan, make_trials

SENTENCE = "Launches left processes behind, which were ended before the next launch: "
OLD = Path(__file__).parents[3] / "data" / "results-0.1.0"


def test_the_warning_names_the_cells_their_launches_and_the_processes() -> None:
    plan = make_plan("host", "other")
    trials = [
        replace(each, left={"sleep": 2, "cached": 1} if each.key.cell.endswith("/host") and each.key.round < 3 else {})
        for each in make_trials(plan)
    ]
    (warning,) = [each for each in summarise(plan, trials, {}).warnings if each.startswith(SENTENCE)]
    assert "host in micro 2n x 1r: 9 processes (cached 3, sleep 6) in 3 of 10 launches." in warning
    assert "other" not in warning
    assert not any(each.startswith(SENTENCE) for each in summarise(plan, make_trials(plan), {}).warnings)


def test_terminal_html_markdown_and_json_say_it_and_the_table_counts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    plan = exports.plan()
    trials = [replace(each, left={"rogue": 1} if each.key.round == 0 else {}) for each in exports.trials(plan)]
    folder = exports.write(tmp_path / "r", plan, trials)
    commands.show_report(folder, tmp_path / "report.html")
    source = exports.source(folder)
    document = json_format.text(source)
    for text in (capsys.readouterr().out, (tmp_path / "report.html").read_text(), document, markdown.text(source)):
        assert SENTENCE in " ".join(text.split())
        assert "(rogue" in text
    assert {each.left is None for each in read_only(folder).trials} == {False}
    assert json.loads(document)["summary"]["warnings"]


def test_results_of_an_earlier_release_did_not_record_it() -> None:
    results = read_only(OLD)
    assert {each.left for each in results.trials} == {None}
    for count in (-1, 10**18):
        with pytest.raises(ValueError, match=re.escape(f"left has 'x' of {count:g}")):
            check_trial(replace(results.trials[0], left={"x": count}))


@pytest.mark.parametrize(
    ("fact", "words"),
    [({"w": "a rank has 2\x1b running threads"}, ["w: a rank has 2\\x1b running threads"]), ({}, []), ("x", [])],
)
def test_ranks_with_more_running_threads_than_cores_are_a_warning(fact: object, words: list[str]) -> None:
    plan = make_plan()
    summary = summarise(plan, make_trials(plan), {CROWDED: fact})
    assert [each for each in summary.warnings if "threads" in each] == words
