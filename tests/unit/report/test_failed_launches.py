"""The page says why launches failed and what differs from environments that ran, as `tare explain` does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from factory_explained import FAILING, Behaviour, plan_of, summary_of, trials_of
from tare.model import Failed
from tare.report.html import render_html
from unit.summaries import NoSamples


def page(tmp_path: Path, reason: str) -> str:
    plan = plan_of(tmp_path, FAILING)
    limits = {"forbids": "256", "bare": "1024", "allows": "1024"}
    trials = trials_of(plan, {name: Behaviour(facts={"pod open files": text}) for name, text in limits.items()})
    ended = [
        replace(trial, outcome=Failed(reason=reason)) if reason and "forbids" in trial.key.cell else trial
        for trial in trials
    ]
    return render_html(summary_of(plan, ended), ended, NoSamples())


def test_reasons_and_differences_stand_on_the_page_and_the_first_screen_leads_there(tmp_path: Path) -> None:
    text = page(tmp_path, "it ended with status 3: <b>too many open files</b>")
    section = text[text.index('id="failed"') : text.index('id="failures"')]
    assert "messages / 2n x 1r / forbids: failed" in section
    assert "8 of 8 launches failed" in section
    assert "&lt;b&gt;too many open files" in section
    assert re.search(
        r"differs from every environment that ran: bare, allows\n +open files: 256; bare, allows: 1024", section
    )
    assert "perhaps: the program may need more open files" in section
    assert 'href="#failed"' in text[: text.index('id="failed"')]


def test_without_failures_there_is_neither_section_nor_link(tmp_path: Path) -> None:
    assert "#failed" not in page(tmp_path, "")
