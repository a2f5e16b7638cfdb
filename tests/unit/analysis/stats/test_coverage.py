"""Coverage and error rates on simulated studies with a known truth (benchmarks/coverage.py prints more of the same).

Every rate is that of a seeded simulation, so the tests do not flicker. `at_least` and `at_most` mean that the exact
99 % interval of the simulated rate allows it: where the true rate is near the bound, more could not be asked of so few
repetitions.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from source_tree import program
from tare.analysis import stats

benchmark = partial(program, folder="benchmarks")
simulation, truth = benchmark("simulation"), benchmark("truth")
intervals, looks, reports = benchmark("coverage_intervals"), benchmark("coverage_looks"), benchmark("coverage_reports")

COVERAGE = 0.93
FALSE_ALARMS = 0.05


def at_least(rate: Any, wanted: float) -> bool:
    return bool(rate.bounds(0.99)[1] >= wanted)


def at_most(rate: Any, wanted: float) -> bool:
    return bool(rate.bounds(0.99)[0] <= wanted)


by_scenario = pytest.mark.parametrize("scenario", simulation.SCENARIOS, ids=lambda scenario: scenario.name)


@by_scenario
@pytest.mark.parametrize("of", ["overhead", "added"])
def test_the_interval_of_the_overhead_and_of_the_added_time_holds_the_truth(of: str, scenario: Any) -> None:
    rate = getattr(intervals, f"{of}_coverage")(scenario, 2000)
    assert rate.value >= COVERAGE, rate


@pytest.mark.parametrize("scenario", simulation.SCENARIOS[:-1], ids=lambda scenario: scenario.name)
def test_the_interval_of_the_ratio_of_medians_holds_the_truth(scenario: Any) -> None:
    rate = intervals.median_coverage(scenario, 600)
    assert at_least(rate, COVERAGE), rate


@by_scenario
def test_an_environment_is_seldom_called_different_from_itself(scenario: Any) -> None:
    rate = intervals.self_called_different(scenario, 2000)
    assert at_most(rate, FALSE_ALARMS), rate


@pytest.mark.parametrize("environments", [5, 20])
def test_over_a_table_holm_keeps_false_alarms_as_rare_as_for_one(environments: int) -> None:
    rate = intervals.table_called_different(simulation.SEVERAL_BLOCKS, environments, 600)
    assert at_most(rate, FALSE_ALARMS), rate
    naive = intervals.table_called_different(simulation.SEVERAL_BLOCKS, environments, 600, adjusted=False)
    assert naive.value > 0.15, naive


@pytest.mark.parametrize(
    "scenario",
    [simulation.ONE_BLOCK, simulation.SEVERAL_BLOCKS, simulation.LARGE_COST, simulation.HARDEST_STOP],
    ids=lambda scenario: scenario.name,
)
def test_stopping_by_precision_keeps_coverage_and_false_alarms(scenario: Any) -> None:
    result = looks.sequential(scenario, 1500)
    assert at_least(result.covered, COVERAGE), result.covered
    assert at_most(result.different, FALSE_ALARMS), result.different


def test_stopping_by_precision_and_holm_together_keep_false_alarms() -> None:
    rate = looks.sequential_table_called_different(simulation.HARDEST_STOP, 5, 600)
    assert at_most(rate, FALSE_ALARMS), rate


@pytest.mark.long
def test_whole_reports_rarely_call_equal_things_different_and_find_costs() -> None:
    rates = reports.pipeline(simulation.SEVERAL_BLOCKS, 60, metrics=2)
    assert at_most(rates.self_different, FALSE_ALARMS), rates.self_different
    assert at_most(rates.null_called, FALSE_ALARMS), rates.null_called
    assert at_most(rates.wrong_no_cost, FALSE_ALARMS), rates.wrong_no_cost
    assert at_least(rates.covered, COVERAGE), rates.covered
    assert rates.power.value > 0.95, rates.power


@pytest.mark.parametrize("spread", [0.04, 0.2, 0.5])
@pytest.mark.parametrize("n", [6, 10, 20])
def test_the_interval_of_a_cost_is_above_zero_and_holds_the_truth_as_often_as_that_of_the_mean(
    spread: float, n: int
) -> None:
    rng = np.random.default_rng(n)
    mean = math.exp(spread**2 / 2)
    held, of_mean = 0, 0
    for _ in range(1000):
        costs = rng.lognormal(0.0, spread, n)
        estimate, plain = stats.mean_cost(costs, 0.95), stats.mean_interval(costs, 0.95)
        assert 0 < estimate.low <= estimate.value == pytest.approx(plain.value)
        held += estimate.low <= mean <= estimate.high
        of_mean += plain.low <= mean <= plain.high
    assert held >= max(of_mean - 10, 920), (held, of_mean)


@pytest.mark.parametrize(
    "scenario", [one for one in truth.SCENARIOS if one.adjusts], ids=lambda scenario: scenario.name
)
def test_the_states_of_the_machine_make_no_false_verdicts_and_the_median_interval_no_wider(scenario: Any) -> None:
    rates = truth.simulate(scenario, 80)
    assert any("wider" in rate.what for rate in rates)
    assert not [str(rate) for rate in rates if not rate.holds]


def test_pooled_blocks_pooled_iterations_and_stopping_on_p_would_be_wrong() -> None:
    rate = intervals.pooled_blocks_coverage(simulation.SEVERAL_BLOCKS, 1000)
    assert rate.bounds(0.99)[1] < 0.85, rate
    rate = intervals.pooled_iterations_called_different(300)
    assert rate.bounds(0.99)[0] > 0.5, rate
    rate = intervals.stop_on_p_called_different(200)
    assert rate.bounds(0.99)[0] > 0.10, rate
