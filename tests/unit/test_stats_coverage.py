"""What the figures promise, on simulated studies whose truth is known (benchmarks/coverage.py does the simulating).

Every rate is that of a seeded simulation, so the tests do not flicker. `at_least` and `at_most` mean that the exact
99 % interval of the simulated rate allows it: where the true rate is near the bound, more could not be asked of so few
repetitions.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("tare_benchmarks_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


simulation = _load()

COVERAGE = 0.93
FALSE_ALARMS = 0.05


def at_least(rate: Any, wanted: float) -> bool:
    return bool(rate.bounds(0.99)[1] >= wanted)


def at_most(rate: Any, wanted: float) -> bool:
    return bool(rate.bounds(0.99)[0] <= wanted)


by_scenario = pytest.mark.parametrize("scenario", simulation.SCENARIOS, ids=lambda scenario: scenario.name)


@by_scenario
def test_the_interval_of_the_overhead_holds_the_truth(scenario: Any) -> None:
    rate = simulation.overhead_coverage(scenario, 2000)
    assert rate.value >= COVERAGE, rate


@by_scenario
def test_the_interval_of_the_added_time_holds_the_truth(scenario: Any) -> None:
    rate = simulation.added_coverage(scenario, 2000)
    assert rate.value >= COVERAGE, rate


@pytest.mark.parametrize("scenario", simulation.SCENARIOS[:-1], ids=lambda scenario: scenario.name)
def test_the_interval_of_the_ratio_of_medians_holds_the_truth(scenario: Any) -> None:
    rate = simulation.median_coverage(scenario, 600)
    assert at_least(rate, COVERAGE), rate


@by_scenario
def test_an_environment_is_seldom_called_different_from_itself(scenario: Any) -> None:
    rate = simulation.self_called_different(scenario, 2000)
    assert at_most(rate, FALSE_ALARMS), rate


@pytest.mark.parametrize("environments", [5, 20])
def test_over_a_table_holm_keeps_false_alarms_as_rare_as_for_one(environments: int) -> None:
    rate = simulation.table_called_different(simulation.SEVERAL_BLOCKS, environments, 600)
    assert at_most(rate, FALSE_ALARMS), rate
    naive = simulation.table_called_different(simulation.SEVERAL_BLOCKS, environments, 600, adjusted=False)
    assert naive.value > 0.15, naive


@pytest.mark.parametrize(
    "scenario",
    [simulation.ONE_BLOCK, simulation.SEVERAL_BLOCKS, simulation.LARGE_COST, simulation.HARDEST_STOP],
    ids=lambda scenario: scenario.name,
)
def test_stopping_by_precision_keeps_coverage_and_false_alarms(scenario: Any) -> None:
    result = simulation.sequential(scenario, 1500)
    assert at_least(result.covered, COVERAGE), result.covered
    assert at_most(result.different, FALSE_ALARMS), result.different


def test_stopping_by_precision_and_holm_together_keep_false_alarms() -> None:
    rate = simulation.sequential_table_called_different(simulation.HARDEST_STOP, 5, 600)
    assert at_most(rate, FALSE_ALARMS), rate


def test_whole_reports_seldom_call_equal_things_different_and_find_what_costs() -> None:
    reports = simulation.pipeline(simulation.SEVERAL_BLOCKS, 60, metrics=2)
    assert at_most(reports.self_different, FALSE_ALARMS), reports.self_different
    assert at_most(reports.null_called, FALSE_ALARMS), reports.null_called
    assert at_most(reports.wrong_no_cost, FALSE_ALARMS), reports.wrong_no_cost
    assert at_least(reports.covered, COVERAGE), reports.covered
    assert reports.power.value > 0.95, reports.power


def test_blocks_taken_for_independent_would_cover_far_too_little() -> None:
    rate = simulation.pooled_blocks_coverage(simulation.SEVERAL_BLOCKS, 1000)
    assert rate.bounds(0.99)[1] < 0.85, rate


def test_iterations_pooled_over_launches_would_call_most_things_different_from_themselves() -> None:
    rate = simulation.pooled_iterations_called_different(300)
    assert rate.bounds(0.99)[0] > 0.5, rate


def test_stopping_on_a_small_p_would_raise_false_alarms() -> None:
    rate = simulation.stop_on_p_called_different(200)
    assert rate.bounds(0.99)[0] > 0.10, rate
