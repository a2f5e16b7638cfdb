"""Which trials count in a summary, its reasons for those that do not, and its headline."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from tare.analysis.summary import summarise
from tare.analysis.summary.select import select
from tare.errors import ResultsError
from tare.model import (
    Completed,
    Failed,
    Interrupted,
    Invalid,
    Outcome,
    Placement,
    Plan,
    Repetition,
    Trial,
    Unavailable,
    Verdict,
)
from unit.summaries import BARE, SELF, change, latency, make_plan, make_trial, make_trials, of, summary_of, took

# --- what does not count ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rounds_give_no_verdict_and_state_how_many_are_needed(n: int) -> None:
    plan = make_plan("overlay", repetition=Repetition(rounds=5, max_rounds=5))
    summary = summarise(plan, make_trials(plan, n), {}, looks=[n])
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.INCONCLUSIVE
    assert overlay.reason == f"a verdict needs at least 6 rounds, {n} so far"
    assert overlay.more_rounds >= 6 - n
    assert (overlay.overhead is None) == (n < 2)
    assert summary.exit_code == 3
    assert summary.rounds_done == n
    assert f"nothing is decided after {n} round" in summary.headline


def test_some_bad_trials_cost_their_rounds_and_half_of_them_make_a_cell_invalid() -> None:
    plan = make_plan("host", "overlay")
    trials = change(make_trials(plan), "overlay", lambda r: Failed(reason="timed out") if r in {2, 5} else None)
    summary = summarise(plan, trials, {})
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.COSTS
    assert overlay.reason == "2 of 10 launches failed: timed out"
    assert overlay.overhead.n == 8
    host = of(summary, "host")
    assert host.overhead.n == 10, "a failed cell does not break the pairs of others"
    assert summary.exit_code == 0

    def bad(r: int) -> Outcome | None:
        return None if r >= 5 else Invalid(reason="traffic took eth0") if r % 2 else Failed(reason="timed out")

    summary = summarise(plan, change(make_trials(plan), "overlay", bad), {})
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.INVALID
    assert overlay.reason == "5 of 10 launches failed or invalid: timed out"
    assert overlay.overhead is None
    assert summary.exit_code == 4


@pytest.mark.parametrize("bad", [0.0, -1e-6, math.nan, math.inf])
def test_a_cost_that_is_not_positive_is_an_invalid_trial_not_a_figure(bad: float) -> None:
    plan = make_plan("host")
    trials = change(make_trials(plan), "host", lambda r: took(bad) if r == 0 else None)
    host = of(summarise(plan, trials, {}), "host")
    assert host.overhead.n == 9
    assert host.reason.startswith("1 of 10 launches invalid: a cost of ")


def test_a_cell_or_a_baseline_that_is_unavailable_is_that_and_not_invalid() -> None:
    plan = make_plan("host", "overlay")
    trials = change(make_trials(plan), "overlay", lambda r: Unavailable(reason="no vxlan in this kernel"))
    summary = summarise(plan, trials, {})
    assert of(summary, "overlay").verdict is Verdict.UNAVAILABLE
    assert of(summary, "overlay").reason == "no vxlan in this kernel"
    assert summary.exit_code == 0
    summary = summary_of("host", unavailable={BARE: "no mpirun"})
    assert of(summary, "host").verdict is Verdict.UNAVAILABLE
    assert of(summary, "host").reason == "the baseline bare is unavailable: no mpirun"
    assert summary.exit_code == 4
    assert "nothing could be compared" in summary.headline
    plan = make_plan("host")
    stranger = make_trial(replace(plan.cells[0], key="other/bare"), 0, Completed(metrics=()))
    with pytest.raises(ResultsError, match="'other/bare'"):
        summarise(plan, [stranger], {})


# --- which attempt counts ---------------------------------------------------------------------------------------


def again(plan: Plan, r: int, attempt: int, value: float, cells: int = 99) -> list[Trial]:
    return [make_trial(cell, r, took(value), attempt=attempt) for cell in plan.cells[:cells]]


def values_of(plan: Plan, trials: list[Trial]) -> list[float]:
    chosen = select(plan, trials).trials[plan.cells[0].key].values()
    return [trial.outcome.metrics[0].value for trial in chosen if isinstance(trial.outcome, Completed)]


def test_only_the_last_whole_attempt_of_a_block_counts_that_nothing_interrupted() -> None:
    plan = make_plan("host")
    assert values_of(plan, again(plan, 0, 0, 1.0) + again(plan, 0, 1, 2.0)) == [2.0]
    trials = again(plan, 0, 0, 1.0) + again(plan, 0, 1, 2.0, cells=2)
    assert values_of(plan, trials) == [1.0]
    assert values_of(plan, again(plan, 0, 0, 1.0, cells=2)) == []
    broken = [*again(plan, 0, 1, 2.0, cells=2), make_trial(plan.cells[2], 0, Interrupted(), attempt=1)]
    assert values_of(plan, again(plan, 0, 0, 1.0) + broken) == [1.0]
    assert values_of(plan, broken + again(plan, 0, 2, 3.0)) == [3.0]
    trials = change(again(plan, 0, 0, 1.0), "host", lambda r: Failed(reason="x"))
    assert values_of(plan, trials) == [1.0]
    plan = make_plan("host", unavailable={"host": "x"})
    assert values_of(plan, again(plan, 0, 0, 1.0, cells=2)) == [1.0]


def test_an_attempt_is_whole_for_each_group_and_launches_made_again_are_counted() -> None:
    plan = make_plan("host", placements=(Placement(), Placement(ranks_per_node=2)))
    first = select(plan, again(plan, 0, 0, 1.0, cells=4))
    assert len(first.trials[plan.cells[0].key]) == 1
    assert len(first.trials[plan.cells[3].key]) == 0
    assert first.rounds_done == 0
    plan = make_plan("host")
    trials = make_trials(plan, 6) + again(plan, 0, 1, 1e-5) + again(plan, 3, 1, 1e-5, cells=2)
    summary = summarise(plan, trials, {})
    assert [(c.environment, c.reruns) for c in summary.comparisons] == [(BARE, 2), (SELF, 2), ("host", 1)]
    assert summary.counts["reruns"] == 5
    assert summary.counts["trials"] == len(trials)
    assert summary.counts["trials that count"] == 18


# --- headline ---------------------------------------------------------------------------------------------------


def headline_of(*names: str, **options: Any) -> str:
    plan = make_plan(*names, **options)
    return summarise(plan, make_trials(plan), {}).headline


def test_the_headline_says_what_is_free_what_costs_most_and_what_to_choose() -> None:
    assert headline_of("host", "slow", "overlay") == (
        "In this emulated lab host is free, within 2 %. overlay costs most: 59.8 % more time on 8-byte latency; "
        "slow costs up to 10.1 % more time. Choose host."
    )
    assert headline_of("host") == "In this emulated lab host is free, within 2 %."
    assert headline_of("overlay", cluster="elsewhere").startswith("On this elsewhere cluster overlay takes 60.")
    gone = headline_of("fast", "gone", unavailable={"gone": "not installed"})
    assert gone == "In this emulated lab fast takes 29.9 % less time on 8-byte latency. gone could not be compared."


def first_only(trial: Trial) -> Trial:
    return replace(trial, outcome=Completed(metrics=trial.outcome.metrics[:1]))


def test_a_choice_is_made_for_each_thing_that_bounds_a_program() -> None:
    plan = make_plan("slow", "overlay", "host")
    costs = {"bare": 1.0, "slow": 1.0, "overlay": 1.5, "host": 1.2}

    def with_large(trial: Trial) -> Trial:
        name, small = trial.key.cell.rsplit("/", 1)[1], trial.outcome.metrics[0]
        cost = 1e-4 * costs.get(name, 1.0) * math.exp(random.Random(str(trial.key)).gauss(0, 0.003))
        large = latency(cost, key="latency:65536", label="64 KiB", message_bytes=65536)
        return replace(trial, outcome=Completed(metrics=(small, large)))

    headline = summarise(plan, [with_large(trial) for trial in make_trials(plan)], {}).headline
    assert headline.endswith("Choose for latency host, for bandwidth slow."), headline
    trials = [with_large(trial) for trial in make_trials(plan)]
    without = change(trials, "host", lambda r: Invalid(reason="no proof"))
    assert "host" not in summarise(plan, without, {}).headline.partition("Choose")[2]
    small = [trial if "host" not in trial.key.cell else first_only(trial) for trial in trials]
    headline = summarise(plan, small, {}).headline
    assert headline.endswith("Choose slow."), "host has no figure for bandwidth"


def test_the_headline_of_few_rounds_states_the_largest_difference_or_asks_for_more() -> None:
    plan = make_plan("slow", "overlay", "host")
    assert summarise(plan, make_trials(plan, 3), {}).headline == (
        "In this emulated lab 3 of 10 rounds are done: verdicts are given at 10. "
        "So far overlay takes 60 % more time on 8-byte latency."
    )
    plan = make_plan("host")
    trials = change(make_trials(plan, 3), "host", lambda r: took(9.6e-6 * 4.0 ** (r - 1)))
    assert summarise(plan, trials, {}, looks=[3]).headline == (
        "In this emulated lab nothing is decided after 3 rounds; a verdict needs at least 6."
    )
    plan = make_plan("overlay", "host")
    trials = change(make_trials(plan), "overlay", lambda r: Invalid(reason="no proof") if r < 4 else None)
    few = [trial for trial in trials if trial.key.round < 9]
    headline = summarise(plan, few, {}, looks=[9]).headline
    assert headline == "In this emulated lab host is free, within 2 %. overlay is undecided."


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 4)])
def test_a_thin_study_decides_nothing_and_says_whether_all_ran(*, fails: bool, code: int) -> None:
    plan = make_plan("overlay")
    plan = replace(plan, study=replace(plan.study, thin=True))
    trials = change(make_trials(plan), "overlay", lambda r: Failed(reason="timed out") if fails and not r else None)
    summary = summarise(plan, trials, {})
    assert summary.exit_code == code
    assert any("its figures decide nothing" in warning for warning in summary.warnings)
