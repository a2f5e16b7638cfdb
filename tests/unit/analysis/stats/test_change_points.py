"""Changes of level are found in short series, and seldom where there are none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.analysis.stats import MOST_RESULTS, change_points, levels
from tare.analysis.stats.arrays import FloatArray

SERIES = 1000


def noise(n: int, seed: int, tails: float | None = None) -> FloatArray:
    generator = np.random.default_rng([seed, n])
    return generator.standard_normal((SERIES, n)) if tails is None else generator.standard_t(tails, (SERIES, n))


def alarms(series: FloatArray, alpha: float) -> float:
    return sum(bool(change_points(each, alpha=alpha)) for each in series) / len(series)


def places(pattern: list[float], sd: float = 1.0, seed: int = 1) -> list[tuple[int, ...]]:
    generator = np.random.default_rng(seed)
    series = np.array(pattern) + generator.normal(0, sd, (100, len(pattern)))
    return [tuple(change.at for change in change_points(each)) for each in series]


@pytest.mark.parametrize(("n", "alpha"), [(5, 0.05), (8, 0.05), (12, 0.05), (30, 0.05), (12, 0.01)])
def test_false_alarms_are_as_rare_as_stated(n: int, alpha: float) -> None:
    three_errors = 3 * math.sqrt(alpha * (1 - alpha) / SERIES)
    assert abs(alarms(noise(n, 7), alpha) - alpha) <= three_errors


@pytest.mark.parametrize(("n", "stated"), [(12, 0.05), (30, 0.11)])
def test_false_alarms_with_heavy_tails_are_as_stated(n: int, stated: float) -> None:
    assert alarms(noise(n, 8, tails=4), 0.05) == pytest.approx(stated, abs=0.03)


def test_errors_of_the_results_prevent_alarms_and_a_single_bad_result_is_none() -> None:
    series = noise(8, 9)[:300]
    plain = [bool(change_points(each)) for each in series]
    wide = [bool(change_points(each, np.full(8, 10.0))) for each in series]
    narrow = [bool(change_points(each, np.full(8, 1e-9))) for each in series]
    assert not any(wide)
    assert narrow == plain
    assert any(plain)
    assert places([0.0] * 6 + [1000.0], sd=0.001).count(()) == 100


@pytest.mark.parametrize(
    ("pattern", "at", "least"),
    [
        ([0.0] * 10 + [5.0] * 3, (10,), 80),
        ([0.0] * 4 + [8.0] * 2, (4,), 80),
        ([0.0] * 10 + [5.0] * 5 + [0.0] * 10, (10, 15), 80),
        ([0.0] * 8 + [5.0] * 8 + [10.0] * 8, (8, 16), 80),
    ],
    ids=["newest three", "newest two of six", "repaired", "twice"],
)
def test_changes_are_found_where_they_are(pattern: list[float], at: tuple[int, ...], least: int) -> None:
    assert places(pattern).count(at) >= least


def test_a_shift_has_its_size_and_levels_and_one_below_the_least_is_not_reported() -> None:
    values = [1.0, 1.1, 0.9, 1.0, 2.0, 2.1, 1.9, 2.0]
    (change,) = change_points(values)
    assert change.at == 4
    assert change.shift.value == pytest.approx(1.0)
    assert change.shift.low < 1.0 < change.shift.high
    assert change.p_value < 1e-4
    assert levels(values, (change,)) == ((0, 4, pytest.approx(1.0)), (4, 8, pytest.approx(2.0)))
    values = [0.0, 0.001, -0.001, 0.0, 0.011, 0.01, 0.009, 0.01]
    assert change_points(values)
    assert change_points(values, least=0.0095)
    assert not change_points(values, least=0.02)
    assert change_points([3.0] * 20) == ()
    assert [change.at for change in change_points([3.0] * 5 + [4.0] * 5)] == [5]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_results_have_no_changes(n: int) -> None:
    assert change_points(list(range(n))) == ()
    assert len(levels(list(range(n)), ())) == (n > 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=4, max_size=16), st.floats(0.01, 1000), st.floats(-100, 100))
def test_neither_unit_nor_origin_matters(values: list[float], scale: float, origin: float) -> None:
    series = np.array(values) + np.random.default_rng(5).normal(0, 1, len(values))
    assert [c.at for c in change_points(series)] == [c.at for c in change_points(series * scale + origin)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=4, max_size=16))
def test_a_series_backwards_has_its_changes_backwards(values: list[float]) -> None:
    series = np.array(values) + np.random.default_rng(6).normal(0, 1, len(values))
    there = [change.at for change in change_points(series)]
    assert [len(values) - change.at for change in change_points(series[::-1])] == there[::-1]


def test_too_many_results_and_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 200"):
        change_points(np.zeros(MOST_RESULTS + 1))
    with pytest.raises(ValueError, match="not finite"):
        change_points([1.0, math.inf, 2.0, 3.0])
