"""What is not proven of a treatment is counted by cell, and shown with its row and below its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tare.model import Invalid, Plan, ProofGap, Summary, Trial
from tare.report import NoSamples
from tare.report.html import render_html
from tare.report.terminal import render_text
from tare.run.proof import LOWER_BOUND_ONLY
from tare.summary import summarise
from unit.summaries import change, make_plan, make_trials

UNPROVEN = "treatment not proven: the counters of <data0> of n0 cannot be read (permission denied)"
PLAN = make_plan("overlay", "fast")
Statements = Callable[[Trial], dict[str, str]]


def stated(statements: Statements, plan: Plan = PLAN) -> list[Trial]:
    return [replace(trial, **statements(trial)) for trial in make_trials(plan)]  # type: ignore[arg-type]


def overlay_unproven(trial: Trial) -> dict[str, str]:
    if trial.key.cell.endswith("/overlay"):
        return {"unproven": UNPROVEN}
    return {"partly_proven": LOWER_BOUND_ONLY} if trial.key.cell.endswith("/fast") and trial.key.round < 4 else {}


TRIALS = stated(overlay_unproven)


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(PLAN, TRIALS, {})


def test_statements_are_counted_by_cell(summary: Summary) -> None:
    (group,) = {cell.group for cell in PLAN.cells}
    assert summary.proof_gaps == (
        ProofGap(group=group, environment="overlay", text=UNPROVEN, partly=False, launches=10, of=10),
        ProofGap(group=group, environment="fast", text=LOWER_BOUND_ONLY, partly=True, launches=4, of=10),
    )


def test_a_statement_changes_no_verdict_and_no_exit_code(summary: Summary) -> None:
    plain = summarise(PLAN, make_trials(PLAN), {})
    assert summary.comparisons == plain.comparisons
    assert (summary.exit_code, summary.headline) == (plain.exit_code, plain.headline)
    assert plain.proof_gaps == ()


def test_launches_that_are_invalid_state_nothing() -> None:
    invalid = change(TRIALS, "overlay", lambda r: Invalid(reason="another network") if r < 3 else None)
    (gap, _) = summarise(PLAN, invalid, {}).proof_gaps
    assert (gap.launches, gap.of) == (7, 7)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_terminal_shows_it_below_the_name_and_the_statement_below_the_table(
    summary: Summary, ascii_only: bool
) -> None:
    text = render_text(summary, width=120, ascii_only=ascii_only)
    lines = text.splitlines()
    (row,) = [number for number, line in enumerate(lines) if line.startswith("overlay ")]
    assert lines[row + 1].startswith("not proven")
    assert any(line.startswith("partly proven") for line in lines)
    assert f"! overlay: {UNPROVEN}" in text
    assert f"! fast: {LOWER_BOUND_ONLY} (in 4 of 10" in text


def test_the_page_shows_it_in_the_row_below_the_table_and_with_the_cell(summary: Summary) -> None:
    page = render_html(summary, TRIALS, NoSamples())
    row = page[page.index('data-environment="2" data-verdict="costs') :]
    name = row[row.index("<th") : row.index("</th>")]
    assert name.endswith('>overlay</a><small class="v-inconclusive">treatment not proven</small>')
    assert '>fast</a><small class="v-inconclusive">treatment partly proven</small></th>' in page
    assert ">bare</a><small>baseline, absolute</small></th>" in page
    escaped = UNPROVEN.replace("<", "&lt;").replace(">", "&gt;")
    assert UNPROVEN not in page
    assert f"<b>overlay</b>: {escaped}" in page
    assert page.count(escaped) >= 2


def test_statements_that_differ_in_bytes_are_one() -> None:
    def sent(trial: Trial) -> dict[str, str]:
        node = "n0" if trial.key.round < 7 else "n1"
        text = f"treatment not proven: lo of {node} carried {72769040 + trial.key.round} bytes"
        return {"unproven": text} if trial.key.cell.endswith("/overlay") else {}

    gaps = summarise(PLAN, stated(sent), {}).proof_gaps
    assert [(gap.text.rsplit(" ", 2)[0], gap.launches) for gap in gaps] == [
        ("treatment not proven: lo of n0 carried", 7),
        ("treatment not proven: lo of n1 carried", 3),
    ]
