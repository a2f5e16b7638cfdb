"""Patterns of distributions: planted ones are found, and a table without any is silent in 99 % of studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tare.analysis import stats
from tare.analysis.summary import summarise
from tare.analysis.summary.modes import modes_of
from tare.analysis.summary.patterns import patterns_of
from tare.analysis.summary.patterns.iterations import patterns_of_iterations
from tare.analysis.summary.rows import Row, rows
from tare.analysis.summary.select import metric_infos, select
from tare.model import Completed, PatternKind, Plan, Trial
from unit.summaries import BARE, SELF, latency, make_plan, make_trial

NAMES = ("a", "b", "c", "d", "e", "f", "g")
METRICS = 5
Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 0.03, n)


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.02 * rng.standard_t(3, n)


TABLES = ((normal, 10), (heavy, 10), (normal, 24))


def make(plan: Plan, seed: int, rounds: int, noise: Noise) -> list[Trial]:
    """Return trials without any effect: costs differ by round and at random, tails at random."""
    rng = np.random.default_rng(seed)
    trials = []
    for r in range(rounds):
        of_round = rng.normal(0, 0.05, METRICS)
        for cell in plan.cells:
            costs = 8e-6 * np.exp(of_round + noise(rng, METRICS))
            tails = np.exp(0.3 + rng.normal(0, 0.2, METRICS))
            metrics = tuple(
                latency(cost, key=f"m{number}", label=f"metric {number}", median_s=cost, p99_s=cost * tail)
                for number, (cost, tail) in enumerate(zip(costs, tails, strict=True))
            )
            trials.append(make_trial(cell, r, Completed(metrics=metrics)))
    return trials


def table_of(plan: Plan, trials: Sequence[Trial]) -> tuple[Row, ...]:
    selection = select(plan, trials)
    return rows(plan, selection, metric_infos(plan, selection))


@pytest.mark.parametrize(
    ("noise", "rounds", "many"),
    [(normal, 10, 10), *(pytest.param(*each, 100, marks=pytest.mark.long) for each in TABLES)],
)
def test_tables_without_patterns_are_silent_in_99_percent(noise: Noise, rounds: int, many: int) -> None:
    plan = make_plan(*NAMES)
    tables = [table_of(plan, make(plan, seed, rounds, noise)) for seed in range(many)]
    alarms = sum(bool(patterns_of(table) or modes_of(table)) for table in tables)
    assert alarms <= 3 * many // 100, f"{alarms} of {many} tables"  # 4 of 100 happen at 1 % in 2 % of all seeds


@pytest.mark.parametrize(
    ("spread", "many"), [(0.05, 10), *(pytest.param(each, 100, marks=pytest.mark.long) for each in (0.05, 0.4))]
)
def test_iterations_without_order_are_silent_in_99_percent(spread: float, many: int) -> None:
    rng = np.random.default_rng(8)
    alarms = 0
    for _ in range(many):
        launches = {}
        for name in (BARE, SELF, *NAMES):
            for number in range(METRICS):
                samples = rng.lognormal(0, spread, (10, 100))
                samples[rng.random(samples.shape) < 0.01] *= 20
                launches[name, f"m{number}"] = stats.lag1_of_launches(samples), stats.profile_of_launches(samples)
        alarms += bool(patterns_of_iterations("group", launches))
    assert alarms <= 3 * many // 100, f"{alarms} of {many} tables"


def changed(
    trials: Sequence[Trial], name: str, metric: int, change: Callable[[int], tuple[float, float]]
) -> list[Trial]:
    """Return trials whose metric is multiplied in one environment, its median and its p99, by round."""
    result = []
    for trial in trials:
        if trial.key.cell.endswith(f"/{name}") or not name:
            median, p99 = change(trial.key.round)
            metrics = list(trial.outcome.metrics)
            old = metrics[metric]
            metrics[metric] = replace(
                old, value=old.value * median, median_s=old.median_s * median, p99_s=old.p99_s * median * p99
            )
            trial = replace(trial, outcome=Completed(metrics=tuple(metrics)))  # noqa: PLW2901 - the changed one
        result.append(trial)
    return result


def test_a_drift_of_one_environment_is_found_with_its_size() -> None:
    plan = make_plan(*NAMES)
    trials = changed(make(plan, 1, 30, normal), "c", 2, lambda r: (1.0 + 0.2 * r / 29, 1.0))
    (found,) = patterns_of(table_of(plan, trials))
    assert (found.kind, found.environment, found.metric) == (PatternKind.DRIFT, "c", "m2")
    assert np.exp(found.value) - 1 == pytest.approx(0.2, abs=0.06)
    text = summarise(plan, trials, {})
    assert text.patterns == (found,)


def test_a_drift_of_the_machine_and_a_longer_tail_are_found() -> None:
    plan = make_plan(*NAMES)
    trials = changed(make(plan, 2, 24, normal), "", 0, lambda r: (1.0 + 0.5 * r / 23, 1.0))
    found = patterns_of(table_of(plan, trials))
    assert [(one.kind, one.environment, one.metric) for one in found] == [(PatternKind.DRIFT, "", "m0")]
    trials = changed(make(plan, 3, 12, normal), "b", 1, lambda r: (1.0, 2.0))
    (found,) = patterns_of(table_of(plan, trials))
    assert (found.kind, found.environment, found.metric) == (PatternKind.TAIL, "b", "m1")
    assert np.exp(found.value) == pytest.approx(2.0, rel=0.15)


def test_a_slow_start_and_dependent_iterations_are_told_apart() -> None:
    rng = np.random.default_rng(9)
    slow = rng.lognormal(0, 0.1, (10, 200)) * np.where(np.arange(200) < 20, 1.15, 1.0)
    waves = np.exp(0.2 * np.sin(np.arange(200) / 2) + rng.normal(0, 0.05, (10, 200)))
    found = patterns_of_iterations(
        "group",
        {
            (name, "m"): (stats.lag1_of_launches(samples), stats.profile_of_launches(samples))
            for name, samples in (("slow", slow), ("waves", waves), ("none", rng.lognormal(0, 0.1, (10, 200))))
        },
    )
    assert {(one.kind, one.environment) for one in found} >= {
        (PatternKind.WARM_UP, "slow"), (PatternKind.DEPENDENCE, "waves"),
    }  # fmt: skip
    assert not any(one.environment == "none" for one in found)


def test_modes_name_the_covariate_that_separates_them() -> None:
    pytest.importorskip("diptest")
    plan = make_plan(*NAMES)
    rng = np.random.default_rng(10)
    trials = []
    for trial in make(plan, 4, 60, normal):
        far = bool(rng.random() < 0.4)
        (moved,) = changed([trial], "", 3, lambda r, far=far: (1.4 if far else 1.0, 1.0))
        noise = {"far_away": float(far) + rng.normal(0, 0.1), "unrelated": float(rng.random())}
        trials.append(replace(moved, noise=noise))
    (found,) = modes_of(table_of(plan, trials))
    assert (found.metric, found.separated_by) == ("m3", "far away")
    silent = [replace(trial, noise={"unrelated": float(rng.random())}) for trial in trials]
    (unknown,) = modes_of(table_of(plan, silent))
    assert unknown.separated_by == ""
