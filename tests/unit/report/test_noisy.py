"""Two rounds that differ by a factor of a thousand have intervals without an end; there is a report of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tare.model import Completed, Trial
from tare.report import NoSamples, render_html
from tare.report.terminal import render
from tare.summary import summarise
from unit.summaries import make_plan, make_trials, of

MANY = tuple(f"e{number}" for number in range(30))
"""So many comparisons that the intervals which are adjusted for their number have no end."""


def slower(trial: Trial, factor: float) -> Trial:
    assert isinstance(trial.outcome, Completed)
    metric = trial.outcome.metrics[0]
    changed = replace(
        metric, value=metric.value * factor, median_s=metric.median_s * factor, p99_s=metric.p99_s * factor
    )
    return replace(trial, outcome=replace(trial.outcome, metrics=(changed,)))


@pytest.mark.parametrize("factor", [1e3, 1e8])
def test_a_report_shows_intervals_without_an_end(factor: float) -> None:
    plan = make_plan(*MANY)
    trials = [
        slower(trial, factor) if trial.key.round == 1 and trial.key.cell.rpartition("/")[2] in MANY else trial
        for trial in make_trials(plan, 2)
    ]
    summary = summarise(plan, trials, {})
    simultaneous = of(summary, "e3").simultaneous
    assert simultaneous is not None
    assert simultaneous.high == math.inf
    assert render(summary)
    page = render_html(summary, trials, NoSamples())
    assert "∞" in page
    assert "nan" not in page.lower()
