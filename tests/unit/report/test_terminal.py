"""The terminal shows the first screen in eighty columns, in Unicode or ASCII, with symbols and not by colour alone."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

import samples_factory as factory
from factory_options import SWEEP, Options
from tare.report import render, render_text, terminal
from tare.report.verdicts import VERDICT_STYLES
from tare.summary import summarise
from unit.summaries import make_plan, make_trials

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
UPDATE = os.environ.get("TARE_UPDATE_GOLDEN") == "1"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/report/test_terminal.py` rewrites the golden files."""


@pytest.fixture(scope="module")
def result() -> factory.Result:
    return factory.make(Options(samples=10))


@pytest.mark.parametrize(("name", "ascii_only"), [("terminal-unicode.txt", False), ("terminal-ascii.txt", True)])
def test_the_report_equals_its_golden_file(result: factory.Result, name: str, ascii_only: bool) -> None:
    text = render_text(result.summary, ascii_only=ascii_only)
    if UPDATE:
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_the_terminal(result: factory.Result, width: int, ascii_only: bool) -> None:
    text = render_text(result.summary, width=width, ascii_only=ascii_only)
    assert max(len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("color_system", [None, "truecolor"])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_rows_that_fit_are_printed_as_rich_prints_a_table(
    result: factory.Result, ascii_only: bool, color_system: Literal["truecolor"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed() -> str:
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=color_system)
        with console.capture() as captured:
            console.print(terminal.TerminalReport(summary=result.summary, ascii_only=ascii_only))
        return captured.get()

    plotted = printed()
    seen = []
    monkeypatch.setattr(terminal._Body, "fits", lambda *_: bool(seen.append(1)))
    assert printed() == plotted
    assert seen


def test_ascii_is_ascii(result: factory.Result) -> None:
    assert render_text(result.summary, ascii_only=True).isascii()


def test_a_console_that_is_not_utf8_gets_ascii_by_itself(result: factory.Result) -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    console.print(render(result.summary))
    console.file.flush()
    assert raw.getvalue().decode("ascii").startswith("In this emulated lab")


def test_no_color_is_respected_and_colour_is_used_otherwise(
    result: factory.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed() -> str:
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
        with console.capture() as captured:
            console.print(render(result.summary))
        return captured.get()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31m" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed()


def test_symbols_differ_between_verdicts() -> None:
    assert len({look.symbol for look in VERDICT_STYLES.values()}) == len(VERDICT_STYLES)
    assert len({look.ascii for look in VERDICT_STYLES.values()}) == len(VERDICT_STYLES)


def test_a_wide_terminal_needs_one_table(result: factory.Result) -> None:
    assert render_text(result.summary, width=80).count("against bare") == 2
    assert render_text(result.summary, width=200).count("against bare") == 1


def test_names_are_whole_where_the_columns_leave_room() -> None:
    plan = make_plan("an environment with a long name", "fast")
    summary = summarise(plan, make_trials(plan), {})
    wide = [line for line in render_text(summary, width=100).splitlines() if "long name" in line]
    assert any(line.startswith("an environment with a long name ") for line in wide)
    narrow = render_text(summary, width=30).splitlines()
    assert not any(line.startswith("an environment with") for line in narrow)


def test_all_metrics_can_be_asked_for() -> None:
    summary = factory.make(Options(shapes=SWEEP, rounds=3, samples=10)).summary
    assert "latency 4 KiB" not in render_text(summary)
    assert "latency 4 KiB" in render_text(summary, all_metrics=True)
    assert "HTML report only: 15 more metrics." in render_text(summary)


def test_launches_that_others_disturbed_are_a_warning_before_the_headline(result: factory.Result) -> None:
    assert "Background load" not in render_text(result.summary)
    disturbed = replace(result.summary, counts={**result.summary.counts, "disturbed": 3, "trials that count": 1200})
    lines = render_text(disturbed, width=200).splitlines()
    assert lines[0].startswith("! Background load: other programs")
    assert "during 3 of the 1,200 launches that count" in lines[0]


def test_text_in_square_brackets_is_not_taken_for_markup(result: factory.Result) -> None:
    assert "[" in render_text(result.summary).splitlines()[0]
