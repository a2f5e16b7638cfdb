"""Verdicts do not hide these: a baseline that differs from itself, failures, repeats, rare costs, further looks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tare.analysis.summary import summarise
from tare.model import Completed, Failed, Plan, Repetition, Trial, TrialKey, Unavailable, Verdict, Workload
from unit.summaries import BARE, MICRO, SELF, change, make_plan, make_trial, make_trials, of, scaled, took


def test_a_baseline_that_differs_from_itself_gives_no_verdicts_in_its_column() -> None:
    plan = make_plan("host", "overlay")
    summary = summarise(plan, scaled(make_trials(plan), SELF, lambda _: 1.1), {})
    assert {of(summary, name).verdict for name in ("host", "overlay")} == {Verdict.INCONCLUSIVE}
    assert summary.exit_code == 3
    assert summary.warnings[0].startswith("The baseline differs from itself on 8-byte latency (+10")
    plan = make_plan("overlay")
    trials = scaled(make_trials(plan, more=(1.0,)), SELF, lambda _: 1.1)
    summary = summarise(plan, trials, {})
    assert of(summary, "overlay").verdict is Verdict.INCONCLUSIVE
    assert of(summary, "overlay", "other0").verdict is Verdict.NO_COST


def slower(trial: Trial, factor: float) -> Trial:
    """Return a trial whose cost is multiplied."""
    return scaled([trial], trial.key.cell.rpartition("/")[2], lambda _: factor)[0]


def test_a_baseline_whose_mean_differs_from_itself_is_said_first_and_decides_nothing_on_means() -> None:
    plan = make_plan("host", "overlay", limit=0.1)

    def with_mean(trial: Trial) -> Trial:
        value = trial.outcome.metrics[0].value
        tail = {BARE: 1.5, "overlay": 1.4}.get(trial.key.cell.rpartition("/")[2], 0.95)
        return replace(trial, outcome=took(value * tail, median_s=value, samples=1000))

    summary = summarise(plan, [with_mean(trial) for trial in make_trials(plan)], {})
    assert summary.warnings[0].startswith("The baseline's mean differs from itself on 8-byte latency (-36")
    assert "so no verdict on means is given there" in summary.warnings[0]
    assert of(summary, SELF).mean.significant
    for name in ("host", "overlay"):
        found = of(summary, name)
        assert not found.mean.significant
        assert not found.over_limit
        assert "no verdict on the mean, because the baseline's mean differs from itself (A/A)" in found.reason
    assert of(summary, "host").verdict is Verdict.NO_COST, "the typical launch is that of the baseline"
    assert of(summary, "overlay").verdict is Verdict.COSTS
    same = summarise(plan, make_trials(plan), {})
    assert not any("differs from itself" in text for text in same.warnings)


def with_limit(limit_s: float) -> Workload:
    return replace(MICRO, time_limit_s=limit_s)


def test_launches_that_time_out_leave_no_verdict_of_no_cost_and_hide_no_cost() -> None:
    plan = make_plan("host", workload=with_limit(30.0))
    assert of(summarise(plan, make_trials(plan), {}), "host").verdict is Verdict.NO_COST
    trials = change(make_trials(plan), "host", lambda r: Failed(reason="timed out") if r < 2 else None)
    host = of(summarise(plan, trials, {}), "host")
    assert host.verdict is Verdict.INCONCLUSIVE
    assert "not if failed launches count at their time limit" in host.reason
    assert (host.failures.failed, host.failures.launches) == (2, 10)
    assert 0 < host.failures.low < 0.2 < host.failures.high < 1
    plan = make_plan("overlay", workload=with_limit(30.0))
    trials = change(make_trials(plan), BARE, lambda r: Failed(reason="timed out") if r < 2 else None)
    assert of(summarise(plan, trials, {}), "overlay").verdict is Verdict.INCONCLUSIVE
    trials = change(make_trials(plan), "overlay", lambda r: Failed(reason="timed out") if r < 2 else None)
    assert of(summarise(plan, trials, {}), "overlay").verdict is Verdict.COSTS


def test_failing_more_than_the_baseline_is_a_verdict_and_always_a_warning() -> None:
    plan = make_plan("host")
    trials = change(make_trials(plan), "host", lambda r: Failed(reason="timed out") if r < 9 else None)
    summary = summarise(plan, trials, {})
    host = of(summary, "host")
    assert host.verdict is Verdict.FAILS
    assert host.failures.more
    assert summary.exit_code == 4
    assert "host fails" in summary.headline
    plan = make_plan("host", "overlay")
    summary = summarise(plan, change(make_trials(plan), "host", lambda r: Failed(reason="no such file")), {})
    assert summary.warnings == (
        "Every launch of host in micro 2n x 1r failed (n = 10): 10 of 10 launches failed: no such file",
    )
    assert summary.exit_code == 4
    assert of(summary, "overlay").verdict is Verdict.COSTS


def repeated(plan: Plan, name: str, rounds: set[int], value_of: Callable[[int], float]) -> list[Trial]:
    """Return a second launch of an environment in some rounds, as it is made when a machine disturbed the first."""
    (cell,) = [cell for cell in plan.cells if cell.environment.name == name]
    return [
        replace(
            make_trial(cell, r, took(value_of(r))),
            key=TrialKey(cell=cell.key, round=r, block=0, attempt=0, repeat=1),
        )
        for r in rounds
    ]


def base_s(r: int) -> float:
    return 8e-6 * (1 + 0.2 * (r % 3))


def test_a_cost_removed_by_repeats_is_not_called_no_cost() -> None:
    plan = make_plan("host")
    slow = {0, 4, 8}
    first = scaled(make_trials(plan), "host", lambda r: 1.3 if r in slow else 1.0)
    summary = summarise(plan, [*first, *repeated(plan, "host", slow, base_s)], {})
    host = of(summary, "host")
    assert abs(host.overhead.value) < 0.005, "by the launches that count alone nothing is seen"
    assert host.verdict is Verdict.INCONCLUSIVE
    assert (host.repeats.repeated, host.repeats.launches) == (3, 13)
    assert host.repeats.overhead.value == pytest.approx(math.exp(math.log(1.3) * 3 / 13) - 1, abs=0.015)
    assert summary.counts["repeated"] == 3


def test_repeats_that_change_nothing_leave_the_verdict() -> None:
    plan = make_plan("host", "overlay")
    extra = repeated(plan, "host", {2}, base_s) + repeated(plan, BARE, {5}, base_s)
    summary = summarise(plan, [*make_trials(plan), *extra], {})
    assert of(summary, "host").verdict is Verdict.NO_COST
    assert of(summary, "overlay").verdict is Verdict.COSTS
    repeats = of(summary, "host").repeats
    assert repeats.p_value == 1.0


# --- A4: the machine's state --------------------------------------------------------------------------------------


def far(trial: Trial, index: int) -> bool:
    return random.Random(f"{trial.key.round}/{index}").random() < 0.5


def test_the_effect_of_the_distance_of_vcpus_is_removed_and_reported() -> None:
    plan = make_plan("host", "overlay", "slow", "fast", "other")
    order = {cell.key: index for index, cell in enumerate(plan.cells)}
    trials = []
    for trial in make_trials(plan):
        away = far(trial, order[trial.key.cell])
        noise = {"core_hand_over_s": 200e-9 if away else 40e-9}
        trials.append(replace(slower(trial, 1.3 if away else 1.0), noise=noise))
    summary = summarise(plan, trials, {})
    assert of(summary, "host").verdict is Verdict.NO_COST
    (effect,) = summary.state_effects
    assert effect.state == "vCPU distance"
    doublings = math.log2(5)
    assert (1 + effect.effect.value) ** doublings == pytest.approx(1.3, rel=0.02)
    assert of(summary, "host").adjusted_for == ("vCPU distance",)
    blind = [replace(trial, noise={}) for trial in trials]
    assert of(summarise(plan, blind, {}), "host").verdict is Verdict.INCONCLUSIVE


def test_costs_of_blocks_in_different_states_stay_as_they_were_measured() -> None:
    """A coefficient is of launches in one block, and blocks are far apart: it says nothing about these."""
    plan = make_plan("host", "overlay", "slow", "fast", "other")
    dice = random.Random(5)
    trials = []
    for trial in make_trials(plan):
        factor = dice.uniform(0.98, 1.02)
        distance = (200e-9 if trial.key.round % 2 else 40e-9) * factor
        trials.append(replace(slower(trial, factor), noise={"core_hand_over_s": distance}))
    found, blind = (of(summarise(plan, its, {}), "host") for its in (trials, make_trials(plan)))
    assert found.adjusted_for == ("vCPU distance",)
    assert found.values_s == pytest.approx(blind.values_s, rel=0.05)


def test_a_state_whose_effect_is_not_estimated_adjusts_nothing_and_is_not_shown() -> None:
    """In turns, launches of a block are nearly in one state, so that a coefficient may be anything."""
    plan = make_plan("host", "overlay", "slow", "fast", "other")
    dice = random.Random(5)
    trials = []
    for trial in make_trials(plan):
        distance = (200e-9 if trial.key.round % 2 else 40e-9) * dice.uniform(0.999, 1.001)
        trials.append(replace(trial, noise={"core_hand_over_s": distance}))
    summary, blind = (summarise(plan, its, {}) for its in (trials, make_trials(plan)))
    assert summary.state_effects == ()
    assert summary.comparisons == blind.comparisons


def test_the_effect_of_slower_vcpus_is_removed_by_the_state_during_the_metric_not_the_launch() -> None:
    plan = make_plan("host", "overlay", "slow", "fast", "other")
    order = {cell.key: index for index, cell in enumerate(plan.cells)}
    trials = []
    for trial in make_trials(plan):
        slow = far(trial, order[trial.key.cell])
        value = trial.outcome.metrics[0].value * (1.4 if slow else 1.0)
        outcome = took(value, noise={"core_counting_s": 1.4e-6 if slow else 1e-6})
        noise = {"core_counting_s": 1.2e-6}  # of the whole launch: always the same
        trials.append(replace(trial, outcome=outcome, noise=noise))
    summary = summarise(plan, trials, {})
    assert of(summary, "host").verdict is Verdict.NO_COST
    (effect,) = summary.state_effects
    assert (effect.state, effect.per) == ("vCPU speed", "10 % slower vCPUs")
    assert effect.effect.value == pytest.approx(0.1, abs=0.01)


def test_a_state_that_an_environment_brings_is_not_taken_out_and_moving_vcpus_are_named_first() -> None:
    plan = make_plan("slow", "host", "other", "fast")
    trials = []
    for trial in make_trials(plan):
        times = (5.0 if trial.key.cell.endswith("/slow") else 1.0) * (1 + 0.2 * far(trial, len(trials) % 7))
        trials.append(replace(slower(trial, times**0.3), noise={"core_hand_over_s": 40e-9 * times}))
    slow = of(summarise(plan, trials, {}), "slow")
    assert slow.verdict is Verdict.COSTS
    assert slow.adjusted_for == ()
    assert "vCPU distance differs from the baseline's" in slow.reason
    plan = make_plan("host")
    noise = {"core_hand_over_s": 40e-9, "cores_elsewhere": 0.6}
    trials = [replace(trial, noise=noise) for trial in make_trials(plan)]
    summary = summarise(plan, trials, {})
    assert summary.warnings[0].startswith("The host migrated this machine's vCPUs during 30 of 30 launches")


def test_further_looks_decide_more_strictly_and_between_them_there_are_no_verdicts() -> None:
    plan = make_plan("overlay", repetition=Repetition(rounds=20, max_rounds=20))
    trials = make_trials(plan, 20)
    at_once, after = (of(summarise(plan, trials, {}, looks=looks), "overlay") for looks in ((), (10,)))
    assert after.simultaneous.high - after.simultaneous.low > at_once.simultaneous.high - at_once.simultaneous.low
    summary = summarise(plan, make_trials(plan, 13), {}, looks=(10,))
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.INCONCLUSIVE
    assert overlay.reason == "13 of 20 rounds are done: verdicts are given at 20"
    assert overlay.overhead is not None
    assert (summary.looks, summary.next_look) == ((10, 20), 20)


# --- A6, A8: statements with a verdict --------------------------------------------------------------------------


def test_a_table_states_what_its_launches_may_all_have_missed() -> None:
    plan = make_plan("host")
    host = of(summarise(plan, make_trials(plan), {}), "host")
    assert host.misses == pytest.approx(0.259, abs=0.001)
    blocks = of(summarise(plan, make_trials(plan, blocks=2), {}), "host")
    assert blocks.misses == pytest.approx(0.139, abs=0.001)


@pytest.mark.parametrize(("spread", "within"), [(0.003, 0.02), (0.03, 0.05), (0.07, 0.10), (0.2, None)])
def test_no_cost_is_stated_within_the_smallest_margin_that_holds(spread: float, within: float | None) -> None:
    plan = make_plan("host")
    signs = (1, -1, 1, -1, 1, -1, 1, -1, 1, -1)
    trials = [replace(trial, outcome=took(base_s(trial.key.round))) for trial in make_trials(plan)]
    host = of(summarise(plan, scaled(trials, "host", lambda r: math.exp(spread * signs[r])), {}), "host")
    assert host.within == within
    assert host.verdict is (Verdict.INCONCLUSIVE if within is None else Verdict.NO_COST)
    assert 0 < host.at_most < 0.25


def tailed(trial: Trial) -> Trial:
    """Return a launch whose mean is half as much again as its median if it is one of `host`."""
    value = trial.outcome.metrics[0].value
    tail = 1.5 if trial.key.cell.endswith("/host") else 1.0
    return replace(trial, outcome=took(value * tail, median_s=value, samples=1000))


def test_the_typical_launch_gives_the_verdict_and_the_mean_can_only_take_it_away() -> None:
    plan = make_plan("host", "overlay")
    summary = summarise(plan, [tailed(trial) for trial in make_trials(plan)], {})
    host = of(summary, "host")
    assert abs(host.overhead.value) < 0.01
    assert host.mean.overhead.value == pytest.approx(0.5, abs=0.02)
    assert host.mean.significant
    assert host.verdict is Verdict.INCONCLUSIVE
    assert "the mean is 50 % [" in host.reason
    assert of(summary, "overlay").verdict is Verdict.COSTS

    plan = make_plan("host", limit=0.25)
    summary = summarise(plan, [tailed(trial) for trial in make_trials(plan)], {})
    assert of(summary, "host").over_limit, "the limit is of the mean"
    assert summary.exit_code == 1


def test_two_modes_are_found_over_all_environments_together() -> None:
    pytest.importorskip("diptest")
    plan = make_plan(*(f"e{index}" for index in range(8)))
    trials = []
    for index, trial in enumerate(make_trials(plan)):
        slow = random.Random(index).random() < 0.4
        trials.append(slower(trial, 1.5 if slow else 1.0))
    (modes,) = summarise(plan, trials, {}).modes
    assert modes.n == 100
    assert modes.centres[1] / modes.centres[0] == pytest.approx(1.5, rel=0.05)
    assert sum(modes.shares) == pytest.approx(1.0)
    assert summarise(plan, make_trials(plan), {}).modes == ()


def test_a_study_that_judges_nothing_does_not_fail_for_what_is_unavailable() -> None:
    plan = make_plan("host", "overlay")
    unjudged = [replace(trial, outcome=took(1e-5, judged=False)) for trial in make_trials(plan)]
    trials = change(unjudged, "overlay", lambda r: Unavailable(reason="no vxlan in this kernel"))
    summary = summarise(plan, trials, {})
    assert of(summary, "host").verdict is Verdict.NOT_JUDGED
    assert of(summary, "overlay").verdict is Verdict.UNAVAILABLE
    assert summary.exit_code == 0


def test_a_metric_that_is_not_judged_has_values_and_no_influence() -> None:
    plan = make_plan("overlay")
    trials = []
    for trial in make_trials(plan, more=(1e-3,)):
        first, other = trial.outcome.metrics
        value = other.value * (2.0 if trial.key.cell.endswith("/overlay") else 1.0)
        spacing = replace(other, value=value, judged=False)
        trials.append(replace(trial, outcome=Completed(metrics=(first, spacing))))
    summary = summarise(plan, trials, {})
    spacing = of(summary, "overlay", "other0")
    assert spacing.verdict is Verdict.NOT_JUDGED
    assert spacing.overhead is not None
    assert spacing.p_holm is None
    assert summary.exit_code == 0
    assert "other 0" not in summary.headline
