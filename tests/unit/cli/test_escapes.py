"""What programs, images and files of others say reaches the terminal as text, never as a command to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tare.cli import app, commands, session
from tare.errors import UsageError
from tare.model import Failed
from tare.report.terminal import render_text
from tare.run.progress import Progress
from tare.run.symptoms import last_words, recognised
from tare.store.writer import Store
from unit.runs import known_study
from unit.summaries import change, make_plan, make_trials

STEERING = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"
SHOWN = r"\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"


def test_last_words_are_text() -> None:
    assert last_words(f"first\n{STEERING}boom\n") == f"{SHOWN}boom"
    rule = "-" * 74
    assert last_words(f"{rule}\nno {STEERING} there.\n{rule}\n") == f"no {SHOWN} there"


def test_an_error_of_ours_that_quotes_others_is_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise UsageError(f"docker says {STEERING}", remedy="do\x1b this")

    monkeypatch.setattr(app, "app", fail)
    with pytest.raises(SystemExit):
        app.main()
    assert capsys.readouterr().err == f"tare: docker says {SHOWN}\n  do\\x1b this\n"


def test_the_reason_of_a_trial_is_text_while_a_study_runs(capsys: pytest.CaptureFixture[str]) -> None:
    plan = session.make_plan(known_study(rounds=1))
    (trial, *_) = make_trials(make_plan("overlay"), 1)
    Progress(plan).trial_ended(replace(trial, outcome=Failed(reason=STEERING)), 1, 2)
    assert SHOWN in capsys.readouterr().err


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_report_of_a_run_shows_reasons_and_names_as_they_are(ascii_only: bool) -> None:
    plan = make_plan("overlay")
    trials = change(make_trials(plan), "overlay", lambda r: Failed(reason=f"{STEERING}[bold]x[/bold][link=y]z"))
    text = render_text(session.summarise(plan, trials, {"cpu": STEERING}), width=200, ascii_only=ascii_only)
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    assert f"{SHOWN}[bold]x[/bold][link=y]z" in text
    assert f"{SHOWN}" in text.splitlines()[1]


def test_markup_in_names_is_not_interpreted() -> None:
    plan = make_plan("[bold]o[/bold]")
    assert "[bold]o[/bold]" in "".join(render_text(session.summarise(plan, make_trials(plan), {})).split())


def test_a_report_is_written_whatever_a_reason_has(tmp_path: Path) -> None:
    stated = known_study(rounds=1, kernels=1)
    results = tmp_path / "r"
    plan = session.make_plan(stated)
    with Store.create_or_open(results, plan, {"cpu": "\ud800"}) as store:
        commands._report(store, results / "report.html")
    assert "\\ud800" in (results / "report.html").read_text(encoding="utf-8")


def test_symptoms_are_looked_for_at_the_end_of_what_was_said_and_in_short_time() -> None:
    assert recognised("Segmentation fault " * 200_000) == ""
    assert recognised("x" * 100_000 + "Segmentation fault\nin mca_btl_vader.so")
