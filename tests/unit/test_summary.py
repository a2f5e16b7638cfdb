from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tare.errors import ResultsError
from tare.model import (
    Cell,
    Comparison,
    Completed,
    Environment,
    Failed,
    Interrupted,
    Invalid,
    KernelSpec,
    LabSpec,
    Metric,
    MetricKind,
    Outcome,
    Placement,
    Plan,
    Repetition,
    Role,
    Study,
    Summary,
    Trial,
    TrialKey,
    Unavailable,
    Verdict,
    Workload,
)
from tare.summary import exit_code, precise_enough, summarise
from tare.summary.select import select

BARE, SELF = "bare", "bare (A/A)"
MICRO = Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),))
TEN_ROUNDS = Repetition()


def make_plan(
    *names: str,
    unavailable: Mapping[str, str] | None = None,
    placements: tuple[Placement, ...] = (Placement(),),
    workload: Workload = MICRO,
    cluster: str = "lab",
    limit: float | None = None,
    repetition: Repetition = TEN_ROUNDS,
) -> Plan:
    """Return a plan of the baseline, its A/A and these environments, each in every placement."""
    cells = []
    for placement in placements:
        group = f"{workload.name} {placement.label}"
        for name in (BARE, SELF, *names):
            role = {BARE: Role.BASELINE, SELF: Role.SELF}.get(name, Role.ENVIRONMENT)
            cells.append(
                Cell(
                    key=f"{group}/{name}",
                    group=group,
                    role=role,
                    workload=workload,
                    environment=Environment(name=name, runtime="fake", network="host"),
                    placement=placement,
                )
            )
    study = Study(
        name="example",
        cluster=cluster,
        lab=LabSpec(),
        baseline=BARE,
        environments=tuple(cell.environment for cell in cells if cell.role is not Role.SELF),
        placements=placements,
        workloads=(workload,),
        repetition=repetition,
        limit=limit,
    )
    held = {
        cell.key: reason
        for cell in cells
        for name, reason in (unavailable or {}).items()
        if cell.environment.name == name
    }
    return Plan(study=study, cells=tuple(cells), unavailable=held, digest="abc")


def latency(value: float, **more: object) -> Metric:
    values: dict[str, object] = {
        "key": "latency:8",
        "label": "8-byte latency",
        "kind": MetricKind.COST,
        "value": value,
        "median_s": value,
        "p99_s": 2 * value,
        "message_bytes": 8,
    }
    return Metric(**{**values, **more})  # type: ignore[arg-type]


def make_trial(cell: Cell, r: int, outcome: Outcome, *, block: int = 0, attempt: int = 0) -> Trial:
    return Trial(
        key=TrialKey(cell=cell.key, round=r, block=block, attempt=attempt),
        position=0,
        started_unix_s=1e9 + r,
        elapsed_s=1.0,
        outcome=outcome,
        mpi_library="Open MPI 4.1.4",
    )


def factor_of(name: str) -> float:
    return {"overlay": 1.6, "slow": 1.1, "fast": 0.7}.get(name, 1.0)


def noise(r: int, index: int) -> float:
    """Return a deterministic factor near 1 that differs between cells and rounds."""
    return math.exp(random.Random(1000 * r + index).gauss(0.0, 0.003))


def make_trials(plan: Plan, rounds: int = 10, *, blocks: int = 1, more: Iterable[float] = ()) -> list[Trial]:
    """Return completed trials with round effects; `more` adds metrics of these costs, the same in all environments."""
    trials = []
    for r in range(rounds):
        for b in range(blocks):
            for index, cell in enumerate(plan.cells):
                if cell.key in plan.unavailable:
                    continue
                value = 8e-6 * (1 + 0.2 * (r % 3)) * factor_of(cell.environment.name) * noise(r + 31 * b, index)
                others = tuple(
                    Metric(
                        key=f"other{m}", label=f"other {m}", kind=MetricKind.COST, value=base * noise(r, index + 9 * m)
                    )
                    for m, base in enumerate(more)
                )
                trials.append(make_trial(cell, r, Completed(metrics=(latency(value), *others)), block=b))
    return trials


def change(trials: Iterable[Trial], name: str, outcome: Callable[[int], Outcome | None]) -> list[Trial]:
    """Return trials with other outcomes for the rounds of one environment where `outcome` gives one."""
    changed = []
    for trial in trials:
        other = outcome(trial.key.round) if trial.key.cell.endswith(f"/{name}") else None
        changed.append(trial if other is None else replace(trial, outcome=other))
    return changed


def of(summary: Summary, environment: str, metric: str = "latency:8") -> Comparison:
    (found,) = [c for c in summary.comparisons if (c.environment, c.metric) == (environment, metric)]
    return found


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


def test_estimates_carry_the_effect_the_added_time_and_the_number_of_rounds() -> None:
    plan = make_plan("overlay")
    overlay = of(summarise(plan, make_trials(plan), {}), "overlay")
    assert overlay.overhead is not None
    assert overlay.overhead.low < 0.6 < overlay.overhead.high
    assert overlay.overhead.n == 10
    assert overlay.added_s is not None
    assert overlay.added_s.value == pytest.approx(0.6 * 9.6e-6 * (1 - 0.02), rel=0.03)
    assert overlay.median_ratio is not None
    assert overlay.median_ratio.value == pytest.approx(1.6, rel=0.01)
    assert overlay.simultaneous is not None
    assert overlay.simultaneous.low <= overlay.overhead.low
    assert overlay.p_value is not None
    assert overlay.p_holm is not None
    assert overlay.p_value <= overlay.p_holm < 0.05


def test_the_baseline_row_carries_absolute_values_and_no_ratio() -> None:
    plan = make_plan("overlay")
    base = of(summarise(plan, make_trials(plan), {}), BARE)
    assert base.absolute_s is not None
    assert base.absolute_s.low < 9.44e-6 < base.absolute_s.high
    assert base.absolute_s.n == 10
    assert (base.overhead, base.added_s, base.median_ratio, base.p_value) == (None, None, None, None)
    assert base.rounds == tuple(range(10))
    assert len(base.values_s) == 10
    assert base.median_s is not None
    assert base.p99_s == pytest.approx(2 * base.median_s)


def test_no_ratio_stands_without_the_absolute_value_of_its_baseline() -> None:
    plan = make_plan("overlay", "host")
    trials = change(make_trials(plan), BARE, lambda r: Invalid(reason="wrong interface"))
    summary = summarise(plan, trials, {})
    for comparison in summary.comparisons:
        assert comparison.overhead is None
        assert comparison.verdict is Verdict.INVALID
    assert "baseline bare is invalid" in of(summary, "host").reason


def test_several_blocks_of_a_round_give_one_value_to_the_interval() -> None:
    plan = make_plan("overlay")
    overlay = of(summarise(plan, make_trials(plan, 8, blocks=3), {}), "overlay")
    assert overlay.overhead is not None
    assert overlay.overhead.n == 8
    assert overlay.rounds == tuple(r for r in range(8) for _ in range(3))
    assert len(overlay.values_s) == 24


def test_the_order_of_trials_does_not_matter_and_summaries_repeat_exactly() -> None:
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
    assert "8-byte latency (micro 2n x" in summary.headline


def test_columns_that_only_some_cells_have_are_listed_for_all() -> None:
    plan = make_plan("overlay")
    trials = change(make_trials(plan, more=(1.0,)), "overlay", lambda r: Completed(metrics=(latency(9e-6),)))
    comparison = of(summarise(plan, trials, {}), "overlay", "other0")
    assert comparison.verdict is Verdict.INVALID
    assert comparison.reason == "10 of 10 trials invalid: the trial has no such figure"


def test_a_group_of_which_nothing_completed_keeps_its_planned_columns() -> None:
    plan = make_plan("overlay")
    trials = [make_trial(cell, r, Failed(reason="mpirun: no slots")) for r in range(6) for cell in plan.cells]
    summary = summarise(plan, trials, {})
    assert [info.key for info in summary.metrics] == ["latency:bytes=8"]
    assert {c.verdict for c in summary.comparisons} == {Verdict.INVALID}
    assert summary.exit_code == 4
    command = make_plan("overlay", workload=Workload(name="miniFE", command=("miniFE",)))
    assert [info.key for info in summarise(command, [], {}).metrics] == ["miniFE"]


def test_the_a_a_row_gives_its_interval_as_noise_floor_and_covers_zero() -> None:
    plan = make_plan("overlay")
    row = of(summarise(plan, make_trials(plan), {}), SELF)
    assert row.verdict is Verdict.NOISE_FLOOR
    assert row.simultaneous is not None
    assert row.simultaneous.low <= 0 <= row.simultaneous.high
    assert row.reason == ""


def test_a_baseline_that_differs_from_itself_is_told() -> None:
    plan = make_plan("overlay")
    trials = change(make_trials(plan), SELF, lambda r: Completed(metrics=(latency(8e-6 * 1.3 * (1 + 0.2 * (r % 3))),)))
    summary = summarise(plan, trials, {})
    assert of(summary, SELF).reason == "the baseline differs from itself"


def test_a_self_cell_of_the_baselines_name_gets_a_row_of_its_own() -> None:
    plan = make_plan("overlay")
    cells = tuple(
        replace(cell, environment=replace(cell.environment, name=BARE)) if cell.role is Role.SELF else cell
        for cell in plan.cells
    )
    summary = summarise(replace(plan, cells=cells), make_trials(plan), {})
    assert summary.self_name == SELF
    assert of(summary, SELF).verdict is Verdict.NOISE_FLOOR


def test_a_cost_that_is_not_larger_than_the_noise_floor_says_so() -> None:
    plan = make_plan("slow")
    wide = (1.25, 0.8, 1.25, 0.8, 1.25, 0.8, 1.25, 0.8, 1.25, 0.8)
    trials = change(
        make_trials(plan), SELF, lambda r: Completed(metrics=(latency(8e-6 * (1 + 0.2 * (r % 3)) * wide[r]),))
    )
    slow = of(summarise(plan, trials, {}), "slow")
    assert slow.verdict is Verdict.COSTS
    assert re.search(r"not larger than the noise floor of \d+ %", slow.reason)


def test_log_ratios_that_do_not_look_normal_are_judged_by_ranks_beside() -> None:
    plan = make_plan("host")
    trials = change(make_trials(plan), "host", lambda r: Completed(metrics=(latency(1e-3),)) if r == 4 else None)
    assert "by ranks (Wilcoxon) p = " in of(summarise(plan, trials, {}), "host").reason


def test_holm_runs_over_the_whole_table() -> None:
    plan = make_plan("host", "overlay")
    alone = of(summarise(plan, make_trials(plan), {}), "host")
    among = of(summarise(plan, make_trials(plan, more=(1e-3,) * 6), {}), "host")
    assert alone.p_value == among.p_value
    assert alone.overhead == among.overhead
    assert alone.simultaneous is not None
    assert among.simultaneous is not None
    assert among.simultaneous.high - among.simultaneous.low > alone.simultaneous.high - alone.simultaneous.low


def test_more_ranks_than_cores_get_figures_and_no_verdict() -> None:
    plan = make_plan("overlay", placements=(Placement(oversubscribe=True),), limit=0.1)
    summary = summarise(plan, make_trials(plan), {})
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.INCONCLUSIVE
    assert "share cores" in overlay.reason
    assert overlay.overhead is not None
    assert summary.exit_code == 3


def test_two_modes_are_looked_for_from_twenty_rounds_on() -> None:
    plan = make_plan("overlay")
    assert of(summarise(plan, make_trials(plan, 19), {}), "overlay").dip_p_value is None
    assert of(summarise(plan, make_trials(plan, 20), {}), "overlay").dip_p_value is not None


# --- what does not count ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_few_rounds_give_no_verdict_and_say_how_many_are_missing(n: int) -> None:
    plan = make_plan("overlay")
    summary = summarise(plan, make_trials(plan, n), {})
    overlay = of(summary, "overlay", "latency:8" if n else "latency:bytes=8")
    assert overlay.verdict is Verdict.INCONCLUSIVE
    assert overlay.reason == f"{n} of the at least 6 rounds that a verdict needs"
    assert overlay.more_rounds is not None
    assert overlay.more_rounds >= 6 - n
    assert (overlay.overhead is None) == (n < 2)
    assert summary.exit_code == 3
    assert summary.rounds_done == n
    assert f"nothing is decided after {n} round" in summary.headline


def test_some_bad_trials_cost_their_rounds_and_are_counted_in_the_reason() -> None:
    plan = make_plan("host", "overlay")
    trials = change(make_trials(plan), "overlay", lambda r: Failed(reason="timed out") if r in {2, 5} else None)
    summary = summarise(plan, trials, {})
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.COSTS
    assert overlay.reason == "2 of 10 trials failed: timed out"
    assert overlay.overhead is not None
    assert overlay.overhead.n == 8
    host = of(summary, "host")
    assert host.overhead is not None
    assert host.overhead.n == 10, "a failed cell does not break the pairs of others"
    assert summary.exit_code == 0


def test_half_of_the_trials_bad_make_a_cell_invalid() -> None:
    plan = make_plan("host", "overlay")
    trials = change(
        make_trials(plan),
        "overlay",
        lambda r: (Invalid(reason="traffic took eth0") if r % 2 else Failed(reason="timed out")) if r < 5 else None,
    )
    summary = summarise(plan, trials, {})
    overlay = of(summary, "overlay")
    assert overlay.verdict is Verdict.INVALID
    assert overlay.reason == "5 of 10 trials failed or invalid: timed out"
    assert overlay.overhead is None
    assert summary.exit_code == 4


@pytest.mark.parametrize("bad", [0.0, -1e-6, math.nan, math.inf])
def test_a_cost_that_is_not_positive_is_an_invalid_trial_not_a_figure(bad: float) -> None:
    plan = make_plan("host")
    trials = change(make_trials(plan), "host", lambda r: Completed(metrics=(latency(bad),)) if r == 0 else None)
    host = of(summarise(plan, trials, {}), "host")
    assert host.overhead is not None
    assert host.overhead.n == 9
    assert host.reason.startswith("1 of 10 trials invalid: a cost of ")


def test_a_cell_that_turns_out_to_be_unavailable_is_that_and_not_invalid() -> None:
    plan = make_plan("host", "overlay")
    trials = change(make_trials(plan), "overlay", lambda r: Unavailable(reason="no vxlan in this kernel"))
    summary = summarise(plan, trials, {})
    assert of(summary, "overlay").verdict is Verdict.UNAVAILABLE
    assert of(summary, "overlay").reason == "no vxlan in this kernel"
    assert summary.exit_code == 0


def test_without_a_baseline_nothing_is_compared() -> None:
    plan = make_plan("host", unavailable={BARE: "no mpirun"})
    summary = summarise(plan, make_trials(plan), {})
    assert of(summary, "host").verdict is Verdict.UNAVAILABLE
    assert of(summary, "host").reason == "the baseline bare is unavailable: no mpirun"
    assert summary.exit_code == 3
    assert "nothing could be compared" in summary.headline


def test_a_trial_of_an_unknown_cell_is_refused() -> None:
    plan = make_plan("host")
    stranger = make_trial(replace(plan.cells[0], key="other/bare"), 0, Completed(metrics=()))
    with pytest.raises(ResultsError, match="'other/bare'"):
        summarise(plan, [stranger], {})


# --- which attempt counts ---------------------------------------------------------------------------------------


def again(plan: Plan, r: int, attempt: int, value: float, cells: int = 99) -> list[Trial]:
    return [make_trial(cell, r, Completed(metrics=(latency(value),)), attempt=attempt) for cell in plan.cells[:cells]]


def values_of(plan: Plan, trials: list[Trial]) -> list[float]:
    chosen = select(plan, trials).trials[plan.cells[0].key].values()
    return [trial.outcome.metrics[0].value for trial in chosen if isinstance(trial.outcome, Completed)]


def test_the_last_whole_attempt_of_a_block_counts() -> None:
    plan = make_plan("host")
    assert values_of(plan, again(plan, 0, 0, 1.0) + again(plan, 0, 1, 2.0)) == [2.0]


def test_an_attempt_that_was_cut_short_does_not_count() -> None:
    plan = make_plan("host")
    trials = again(plan, 0, 0, 1.0) + again(plan, 0, 1, 2.0, cells=2)
    assert values_of(plan, trials) == [1.0]
    assert values_of(plan, again(plan, 0, 0, 1.0, cells=2)) == []


def test_an_interrupted_line_breaks_its_attempt() -> None:
    plan = make_plan("host")
    broken = [*again(plan, 0, 1, 2.0, cells=2), make_trial(plan.cells[2], 0, Interrupted(), attempt=1)]
    assert values_of(plan, again(plan, 0, 0, 1.0) + broken) == [1.0]
    assert values_of(plan, broken + again(plan, 0, 2, 3.0)) == [3.0]


def test_a_failed_trial_does_not_break_the_attempt() -> None:
    plan = make_plan("host")
    trials = change(again(plan, 0, 0, 1.0), "host", lambda r: Failed(reason="x"))
    assert values_of(plan, trials) == [1.0]


def test_cells_that_are_unavailable_are_not_waited_for() -> None:
    plan = make_plan("host", unavailable={"host": "x"})
    assert values_of(plan, again(plan, 0, 0, 1.0, cells=2)) == [1.0]


def test_an_attempt_is_whole_for_each_group_by_itself() -> None:
    plan = make_plan("host", placements=(Placement(), Placement(ranks_per_node=2)))
    first = select(plan, again(plan, 0, 0, 1.0, cells=4))
    assert len(first.trials[plan.cells[0].key]) == 1
    assert len(first.trials[plan.cells[3].key]) == 0
    assert first.rounds_done == 0


def test_launches_made_again_are_counted_per_environment() -> None:
    plan = make_plan("host")
    trials = make_trials(plan, 6) + again(plan, 0, 1, 1e-5) + again(plan, 3, 1, 1e-5, cells=2)
    summary = summarise(plan, trials, {})
    assert [(c.environment, c.reruns) for c in summary.comparisons] == [(BARE, 2), (SELF, 2), ("host", 1)]
    assert summary.counts["reruns"] == 5
    assert summary.counts["trials"] == len(trials)
    assert summary.counts["trials that count"] == 18


# --- exit codes -------------------------------------------------------------------------------------------------


def test_exit_codes_follow_their_precedence() -> None:
    assert [exit_code(codes) for codes in ([], [3], [3, 1], [1, 3, 4], [4, 5, 1])] == [0, 3, 1, 4, 5]


@pytest.mark.parametrize(("limit", "code"), [(None, 0), (0.3, 1), (0.59, 1), (0.9, 0)])
def test_only_an_overhead_beyond_the_limit_makes_exit_code_one(limit: float | None, code: int) -> None:
    plan = make_plan("host", "overlay", limit=limit)
    summary = summarise(plan, make_trials(plan), {})
    assert summary.exit_code == code
    assert of(summary, "overlay").over_limit == bool(code)
    assert ("beyond the limit" in of(summary, "overlay").reason) == bool(code)


def test_an_overhead_whose_interval_reaches_the_limit_is_not_beyond_it() -> None:
    plan = make_plan("overlay")
    overlay = of(summarise(plan, make_trials(plan), {}), "overlay")
    assert overlay.overhead is not None
    within = (overlay.overhead.low + overlay.overhead.value) / 2
    assert summarise(make_plan("overlay", limit=within), make_trials(plan), {}).exit_code == 0


def test_a_noisy_environment_is_inconclusive_and_exits_with_three() -> None:
    plan = make_plan("host")
    swing = (1.3, 0.8)
    trials = change(make_trials(plan), "host", lambda r: Completed(metrics=(latency(9e-6 * swing[r % 2]),)))
    summary = summarise(plan, trials, {})
    host = of(summary, "host")
    assert host.verdict is Verdict.INCONCLUSIVE
    assert host.more_rounds is not None
    assert host.more_rounds > 0
    assert summary.exit_code == 3


def test_a_study_of_the_baseline_alone_is_done() -> None:
    plan = make_plan()
    summary = summarise(plan, make_trials(plan), {})
    assert summary.exit_code == 0
    assert "nothing is compared with the baseline (10 rounds)" in summary.headline


# --- headline ---------------------------------------------------------------------------------------------------


def test_the_headline_names_the_cluster_the_largest_cost_with_its_interval_and_what_costs_nothing() -> None:
    plan = make_plan("host", "slow", "overlay")
    summary = summarise(plan, make_trials(plan, more=(1.0,)), {})
    assert re.fullmatch(
        r"In this emulated lab overlay adds 5\.\d+ us \[\d+\.\d+, \d+\.\d+\] "
        r"\(\+\S+ % \[\+59\S*, \+60\S*\] on bare's 9\.\d+ us, n = 10\) to 8-byte latency, "
        r"and nothing beyond 2 % to other 0; "
        r"host shows no cost beyond 2 % on anything compared \(n = 10\)\.",
        summary.headline,
    ), summary.headline
    assert summary.emulated


def test_the_headline_of_a_real_cluster_does_not_say_lab() -> None:
    plan = make_plan("overlay", cluster="slurm")
    summary = summarise(plan, make_trials(plan), {})
    assert summary.headline.startswith("On this slurm cluster overlay adds ")
    assert not summary.emulated


def test_the_headline_gives_rates_as_rates() -> None:
    plan = make_plan("overlay")
    rate = [
        replace(
            trial,
            outcome=Completed(
                metrics=(
                    latency(
                        trial.outcome.metrics[0].value,
                        key="bw",
                        label="64 KiB bandwidth",
                        kind=MetricKind.RATE,
                        bytes_per_sample=65536,
                    ),
                )
            ),
        )
        for trial in make_trials(plan)
        if isinstance(trial.outcome, Completed)
    ]
    headline = summarise(plan, rate, {}).headline
    assert re.search(
        r"overlay lowers 64 KiB bandwidth from 6\.\d+ GB/s to 4\.\d+ GB/s \(\+\S+ % \[\S+, \S+\] time a byte, n = 10\)",
        headline,
    ), headline


def test_the_headline_tells_gains_and_what_is_open() -> None:
    plan = make_plan("fast", "gone", unavailable={"gone": "not installed"})
    headline = summarise(plan, make_trials(plan), {}).headline
    assert re.search(
        r"fast takes 2\.\d+ us \[\S+, \S+\] \(-\S+ % \[\S+, \S+\] on bare's \S+ us, n = 10\) off 8-byte latency",
        headline,
    )
    assert headline.endswith("; 1 unavailable of 2 comparisons.")


def test_the_headline_says_so_if_nothing_costs_anything() -> None:
    plan = make_plan("host")
    headline = summarise(plan, make_trials(plan), {}).headline
    assert headline == "In this emulated lab host shows no cost beyond 2 % on anything compared (n = 10)."


# --- the rest of the summary ------------------------------------------------------------------------------------


def test_the_machine_is_one_line_of_the_hosts_facts() -> None:
    plan = make_plan()
    assert summarise(plan, [], {"machine": "a laptop"}).machine == "a laptop"
    facts = {"cpu": "AMD EPYC", "cores": 2, "memory_bytes": 8 * 2**30, "kernel": "6.1.0", "os": "Debian 12"}
    assert summarise(plan, [], facts).machine == "AMD EPYC, 2 cores, 8 GiB, Linux 6.1.0, Debian 12"
    assert summarise(plan, [], {}).machine == ""


def test_the_manifest_says_what_was_compared() -> None:
    plan = make_plan("host")
    manifest = summarise(plan, make_trials(plan), {"cpu": "AMD EPYC"}).manifest
    assert manifest["plan digest"] == "abc"
    assert manifest["MPI libraries"] == ["Open MPI 4.1.4"]
    assert manifest["host"] == {"cpu": "AMD EPYC"}


def test_a_study_stops_at_a_look_when_every_comparison_is_precise() -> None:
    plan = make_plan("host", "overlay", repetition=Repetition(max_rounds=40))
    assert precise_enough(plan, make_trials(plan, 10))
    assert not precise_enough(plan, make_trials(plan, 9))
    assert not precise_enough(plan, make_trials(plan, 11))
    noisy = change(make_trials(plan), "host", lambda r: Completed(metrics=(latency(8e-6 * (1 + r % 2)),)))
    assert not precise_enough(plan, noisy)
    invalid = change(make_trials(plan), "host", lambda r: Invalid(reason="x"))
    assert precise_enough(plan, invalid), "a cell without figures does not keep the study going"


def test_a_thousand_trials_of_eight_metrics_are_summarised_in_less_than_two_seconds() -> None:
    plan = make_plan(*(f"env{i}" for i in range(18)))
    trials = make_trials(plan, 50, more=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0))
    assert len(trials) == 1000
    started = time.process_time()
    summary = summarise(plan, trials, {})
    assert time.process_time() - started < 2.0
    assert len(summary.comparisons) == 20 * 8
    figures = [e for c in summary.comparisons for e in (c.overhead, c.added_s, c.median_ratio, c.absolute_s) if e]
    assert all(np.isfinite([e.low, e.value, e.high]).all() for e in figures)
