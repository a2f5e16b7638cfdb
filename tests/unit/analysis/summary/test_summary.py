"""The table of a summary, and its exit code."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from counted_calls import count_calls
from tare.analysis.summary import study_is_precise_enough, summarise
from tare.model import Environment, Failed, Invalid, Placement, Repetition, Role, Verdict, Workload
from unit.summaries import BARE, SELF, change, make_plan, make_trial, make_trials, of, scaled, summary_of, took

# --- the table --------------------------------------------------------------------------------------------------


def test_every_planned_cell_is_listed_the_baseline_first_then_a_a() -> None:
    plan = make_plan("host", "overlay", "gone", unavailable={"gone": "no such runtime"})
    summary = summarise(plan, make_trials(plan), {})
    assert [(c.environment, c.verdict) for c in summary.comparisons] == [
        (BARE, Verdict.BASELINE),
        (SELF, Verdict.NOISE_FLOOR),
        ("host", Verdict.NO_COST),
        ("overlay", Verdict.COSTS),
        ("gone", Verdict.UNAVAILABLE),
    ]
    assert of(summary, "gone").reason == "no such runtime"
    assert summary.cells == plan.cells
    assert summary.self_name == SELF


def test_a_cell_with_another_mpi_than_the_baseline_is_reported_as_two_changes() -> None:
    plan = make_plan("host", "other", "gone", unavailable={"gone": "no such runtime"})
    mpich = {name: Environment(name=name, runtime="fake", network="host", mpi="mpich") for name in ("other", "gone")}
    cells = [replace(cell, environment=mpich.get(cell.environment.name, cell.environment)) for cell in plan.cells]
    plan = replace(plan, cells=tuple(cells))
    (finding,) = summarise(plan, make_trials(plan), {}).findings
    assert (finding.environment, finding.kind, finding.launches, finding.of) == ("other", "another MPI", 10, 10)
    assert "it uses mpich and bare uses openmpi, so its figures include both changes" in finding.text


def test_estimates_carry_the_effect_the_added_time_and_the_number_of_rounds() -> None:
    overlay = of(summary_of("overlay"), "overlay")
    assert overlay.overhead.low < 0.6 < overlay.overhead.high
    assert overlay.overhead.n == 10
    assert overlay.added_s.value == pytest.approx(0.6 * 9.6e-6 * (1 - 0.02), rel=0.03)
    assert overlay.median_ratio.value == pytest.approx(1.6, rel=0.01)
    assert overlay.simultaneous.low <= overlay.overhead.low
    assert overlay.p_value <= overlay.p_holm < 0.05


def test_the_row_of_the_baseline_has_absolute_values_and_without_them_no_ratio_is_shown() -> None:
    plan = make_plan("overlay")
    base = of(summarise(plan, make_trials(plan), {}), BARE)
    assert base.absolute_s.low < 9.44e-6 < base.absolute_s.high
    assert base.absolute_s.n == 10
    assert (base.overhead, base.added_s, base.median_ratio, base.p_value) == (None, None, None, None)
    assert base.rounds == tuple(range(10))
    assert len(base.values_s) == 10
    assert base.median_s is not None
    assert base.p99_s == pytest.approx(2 * base.median_s)
    plan = make_plan("overlay", "host")
    trials = change(make_trials(plan), BARE, lambda r: Invalid(reason="wrong interface"))
    summary = summarise(plan, trials, {})
    for comparison in summary.comparisons:
        assert comparison.overhead is None
        assert comparison.verdict is Verdict.INVALID
    assert "baseline bare is invalid" in of(summary, "host").reason


def test_blocks_of_a_round_are_one_value_and_the_order_of_trials_does_not_matter() -> None:
    plan = make_plan("overlay")
    overlay = of(summarise(plan, make_trials(plan, 8, blocks=3), {}), "overlay")
    assert overlay.overhead.n == 8
    assert overlay.rounds == tuple(r for r in range(8) for _ in range(3))
    assert len(overlay.values_s) == 24
    plan = make_plan("host", "overlay")
    trials = make_trials(plan, 12, blocks=2, more=(1e-3,))
    shuffled = list(trials)
    random.Random(1).shuffle(shuffled)
    assert summarise(plan, trials, {}) == summarise(plan, shuffled, {})


def test_a_group_of_each_placement_has_its_own_baseline_and_columns() -> None:
    plan = make_plan("overlay", placements=(Placement(), Placement(ranks_per_node=4)))
    trials = make_trials(plan)
    summary = summarise(plan, trials, {})
    assert [(info.group, info.key) for info in summary.metrics] == [
        ("micro 2n x 1r", "latency:8"),
        ("micro 2n x 4r", "latency:8"),
    ]
    assert [c.environment for c in summary.comparisons] == [BARE, BARE, SELF, SELF, "overlay", "overlay"]
    assert "8-byte latency, micro 2n x" in summary.headline


def test_columns_are_listed_for_all_cells_and_a_group_without_launches_keeps_one() -> None:
    plan = make_plan("overlay")
    trials = change(make_trials(plan, more=(1.0,)), "overlay", lambda r: took(9e-6))
    comparison = of(summarise(plan, trials, {}), "overlay", "other0")
    assert comparison.verdict is Verdict.INVALID
    assert comparison.reason == "10 of 10 launches invalid: the launch did not report this metric"
    trials = [make_trial(cell, r, Failed(reason="mpirun: no slots")) for r in range(6) for cell in plan.cells]
    summary = summarise(plan, trials, {})
    assert [info.label for info in summary.metrics] == ["micro"]
    assert {c.verdict for c in summary.comparisons} == {Verdict.INVALID}
    assert summary.exit_code == 4
    command = make_plan("overlay", workload=Workload(name="miniFE", command=("miniFE",)))
    assert [info.key for info in summarise(command, [], {}).metrics] == ["miniFE"]


def test_the_a_a_row_is_a_noise_floor_that_covers_zero_or_says_that_it_differs() -> None:
    plan = make_plan("overlay")
    row = of(summarise(plan, make_trials(plan), {}), SELF)
    assert row.verdict is Verdict.NOISE_FLOOR
    assert row.simultaneous.low <= 0 <= row.simultaneous.high
    assert row.reason == ""
    summary = summarise(plan, scaled(make_trials(plan), SELF, lambda _: 1.3), {})
    assert of(summary, SELF).reason == "the baseline differs from itself"
    cells = tuple(
        replace(cell, environment=replace(cell.environment, name=BARE)) if cell.role is Role.SELF else cell
        for cell in plan.cells
    )
    summary = summarise(replace(plan, cells=cells), make_trials(plan), {})
    assert summary.self_name == SELF
    assert of(summary, SELF).verdict is Verdict.NOISE_FLOOR


def test_a_cost_whose_interval_touches_that_of_a_a_is_not_called_one() -> None:
    plan = make_plan("slow")
    trials = scaled(make_trials(plan), SELF, lambda r: 0.8 if r % 2 else 1.25)
    slow = of(summarise(plan, trials, {}), "slow")
    assert slow.verdict is Verdict.INCONCLUSIVE
    assert "overlaps the noise floor" in slow.reason
    assert of(summarise(plan, make_trials(plan), {}), "slow").verdict is Verdict.COSTS


def test_holm_runs_over_the_table_and_odd_ratios_get_a_rank_test_too() -> None:
    plan = make_plan("host")
    trials = change(make_trials(plan), "host", lambda r: took(1e-3) if r == 4 else None)
    assert "Wilcoxon's signed-rank test: p = " in of(summarise(plan, trials, {}), "host").reason
    plan = make_plan("host", "overlay")
    alone = of(summarise(plan, make_trials(plan), {}), "host")
    among = of(summarise(plan, make_trials(plan, more=(1e-3,) * 6), {}), "host")
    assert alone.p_value == among.p_value
    assert alone.overhead == among.overhead
    assert among.simultaneous.high - among.simultaneous.low > alone.simultaneous.high - alone.simultaneous.low


def test_more_ranks_than_cores_get_figures_and_no_verdict() -> None:
    summary = summary_of("overlay", placements=(Placement(oversubscribe=True),), limit=0.1)
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.INCONCLUSIVE
    assert "share cores" in overlay.reason
    assert overlay.overhead is not None
    assert summary.exit_code == 3


# --- exit codes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "code"), [(None, 0), (0.3, 1), (0.59, 1), (0.9, 0)])
def test_only_an_overhead_beyond_the_limit_makes_exit_code_one(limit: float | None, code: int) -> None:
    summary = summary_of("host", "overlay", limit=limit)
    assert summary.exit_code == code
    assert of(summary, "overlay").over_limit == bool(code)
    assert ("above the limit" in of(summary, "overlay").reason) == bool(code)


def test_an_overhead_whose_interval_reaches_the_limit_is_not_beyond_it() -> None:
    plan = make_plan("overlay")
    overlay = of(summarise(plan, make_trials(plan), {}), "overlay")
    within = (overlay.overhead.low + overlay.overhead.value) / 2
    assert summarise(make_plan("overlay", limit=within), make_trials(plan), {}).exit_code == 0


def test_noise_is_inconclusive_and_the_baseline_alone_is_done() -> None:
    plan = make_plan("host")
    swing = (1.3, 0.8)
    trials = change(make_trials(plan), "host", lambda r: took(9e-6 * swing[r % 2]))
    summary = summarise(plan, trials, {})
    host = of(summary, "host")
    assert host.verdict is Verdict.INCONCLUSIVE
    assert host.more_rounds > 0
    assert summary.exit_code == 3
    summary = summary_of()
    assert summary.exit_code == 0
    assert "nothing is compared with the baseline" in summary.headline


# --- the rest of the summary ------------------------------------------------------------------------------------


def test_the_machine_is_one_line_of_facts_and_the_manifest_describes_the_comparison() -> None:
    plan = make_plan()
    assert summarise(plan, [], {"machine": "a laptop"}).machine == "a laptop"
    facts = {"cpu": "AMD EPYC", "cores": 2, "memory_bytes": 8 * 2**30, "kernel": "6.1.0", "os": "Debian 12"}
    assert summarise(plan, [], facts).machine == "AMD EPYC, 2 cores, 8 GiB, Linux 6.1.0, Debian 12"
    assert summarise(plan, [], {}).machine == ""
    plan = make_plan("host")
    manifest = summarise(plan, make_trials(plan), {"cpu": "AMD EPYC"}).manifest
    assert manifest["plan digest"] == "abc"
    assert manifest["MPI libraries"] == ["Open MPI 4.1.4"]
    assert manifest["host"] == {"cpu": "AMD EPYC"}


@pytest.mark.parametrize(("counters", "turns"), [({}, 20), ({"TcpOutSegs": 9.0}, 1), ({"turns": 5.0}, 5)])
def test_the_manifest_has_the_turns_that_launches_took_and_not_those_that_were_planned(
    counters: dict[str, float], turns: int
) -> None:
    plan = make_plan("host", repetition=Repetition(turns=20))
    trials = [replace(trial, counters=counters) for trial in make_trials(plan)]
    assert summarise(plan, trials, {}).manifest["turns"] == turns


def test_a_study_stops_at_a_look_when_every_comparison_is_precise() -> None:
    plan = make_plan("host", "overlay", repetition=Repetition(max_rounds=40))
    assert study_is_precise_enough(plan, make_trials(plan, 10))
    assert not study_is_precise_enough(plan, make_trials(plan, 9))
    assert not study_is_precise_enough(plan, make_trials(plan, 11))
    noisy = change(make_trials(plan), "host", lambda r: took(8e-6 * (1 + r % 2)))
    assert not study_is_precise_enough(plan, noisy)
    invalid = change(make_trials(plan), "host", lambda r: Invalid(reason="x"))
    assert study_is_precise_enough(plan, invalid), "a cell without figures does not keep the study going"


def test_many_trials_of_eight_metrics_are_summarised_in_finite_figures_by_work_that_grows_with_them() -> None:
    plan = make_plan(*(f"env{i}" for i in range(6)))
    trials = make_trials(plan, 20, more=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0))
    summary = summarise(plan, trials, {})
    half, whole = (count_calls(partial(summarise, plan, trials[:n], {})) for n in (len(trials) // 2, len(trials)))
    assert whole < 2.2 * half
    assert len(summary.comparisons) == 8 * 8
    figures = [e for c in summary.comparisons for e in (c.overhead, c.added_s, c.median_ratio, c.absolute_s) if e]
    assert all(np.isfinite([e.low, e.value, e.high]).all() for e in figures)
