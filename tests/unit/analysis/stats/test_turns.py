"""The typical cost of launches in turns; the order of observations: dependence, slow starts and trends are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as scipy_stats

from tare.analysis import stats


def drawn(rng: np.random.Generator, effects: list[float], turns: int = 25) -> stats.FloatArray:
    """Return logarithms of turns on a machine that drifts by 20 %, with bursts of 2 to 5 times in one turn of eight."""
    drift = 0.2 * np.sin(np.linspace(0.0, 6.0, turns) + rng.uniform(0.0, 6.0))
    shape = (len(effects), turns)
    bursts = np.where(rng.random(shape) < 0.125, rng.uniform(0.7, 1.6, shape), 0.0)
    logs: stats.FloatArray = np.asarray(effects)[:, None] + drift + bursts + rng.normal(0.0, 0.02, shape)
    return logs


def test_equal_launches_differ_less_than_by_the_median_turn_and_far_less_than_by_the_mean() -> None:
    rng = np.random.default_rng(5)
    logs = [drawn(rng, [0.0] * 4) for _ in range(300)]
    typical = np.std([stats.typical_turns(each)[0] - stats.typical_turns(each)[1] for each in logs])
    medians = np.std([np.median(each[0]) - np.median(each[1]) for each in logs])
    means = np.std([np.log(np.exp(each[0]).mean() / np.exp(each[1]).mean()) for each in logs])
    assert typical < 0.5 * medians < 0.5 * means


@pytest.mark.parametrize("launches", [2, 3, 4, 7])
def test_a_cost_in_all_turns_is_found_whatever_the_number_of_launches(launches: int) -> None:
    rng = np.random.default_rng(6)
    effects = [0.1, *[0.0] * (launches - 1)]
    found = [stats.typical_turns(drawn(rng, effects)) for _ in range(200)]
    assert np.mean([each[0] - each[1] for each in found]) == pytest.approx(0.1, abs=0.004)


def test_the_level_and_the_profile_are_those_of_the_turns() -> None:
    assert stats.typical_turns([[1.0, 2.0, 3.0], [1.5, 2.5, 3.5]]).tolist() == [2.0, 2.5]
    assert stats.typical_turns([[1.0, 5.0, 1.0]]).tolist() == [1.0]
    values = np.full(200, 2.0)
    values[:20] = 2.2
    assert stats.profile_of_launches(values[None, :])[0] == pytest.approx([np.log(1.1), *[0.0] * 9])


@pytest.mark.parametrize("logs", [[], [1.0, 2.0], [[], []]])
def test_another_shape_is_refused(logs: list[float]) -> None:
    with pytest.raises(ValueError, match="expected shape"):
        stats.typical_turns(logs)


def lag1(values: np.ndarray) -> float:
    return float(stats.lag1_of_launches(values[None, :])[0])


def test_lag1_of_independent_samples_is_zero_on_average_and_within_its_bound_in_95_percent() -> None:
    rng = np.random.default_rng(1)
    lags = np.array([lag1(rng.lognormal(0, 0.3, 100)) for _ in range(4000)])
    assert abs(lags.mean()) < 0.006
    assert (np.abs(lags) <= stats.lag1_bound(100)).mean() == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize("correlation", [-0.5, 0.3, 0.9])
def test_lag1_is_the_correlation_of_neighbours(correlation: float) -> None:
    rng = np.random.default_rng(2)
    values = np.zeros(20_000)
    for at, noise in enumerate(rng.normal(size=values.size)):
        values[at] = correlation * values[at - 1] + noise
    assert lag1(values) == pytest.approx(correlation, abs=0.03)  # ranks: a little nearer to zero


def test_lag1_does_not_depend_on_one_outlier_or_on_the_scale() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(10, 1, 500).cumsum() / 10 + 10
    hit = values.copy()
    hit[250] *= 1e6
    assert lag1(hit) == pytest.approx(lag1(values), abs=0.02)
    assert lag1(np.exp(values / 100)) == pytest.approx(lag1(values))
    assert lag1(np.ones(50)) == lag1(np.array([1.0, 2.0])) == 0.0


@given(arrays(np.float64, st.integers(3, 60), elements=st.sampled_from([1.0, 2.0, 3.0, 5.0])))
def test_lag1_of_tied_samples_is_that_of_their_mean_ranks(values: np.ndarray) -> None:
    ranks = scipy_stats.rankdata(values)
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    expected = float(centred[1:] @ centred[:-1]) / power + 1 / values.size if power else 0.0
    assert lag1(values) == pytest.approx(expected)


def test_a_trend_has_its_change_and_kendalls_p_also_of_many_observations() -> None:
    rng = np.random.default_rng(4)
    at = np.arange(60)
    values = 3.0 + 0.01 * at + rng.normal(0, 0.1, 60)
    found = stats.trend(values)
    assert found.change == pytest.approx(scipy_stats.theilslopes(values, at).slope * 59)
    assert found.p_value == pytest.approx(scipy_stats.kendalltau(at, values, method="asymptotic").pvalue, rel=0.1)
    assert stats.trend(-values).change == pytest.approx(-found.change)
    assert stats.trend(values[:3]).p_value == 1.0
    assert stats.trend(np.ones(50)).p_value == 1.0
    rng = np.random.default_rng(5)
    found = stats.trend(np.linspace(0, 1, 100_000) + rng.normal(0, 0.2, 100_000))
    assert found.n == 400
    assert found.change == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("n", [6, 10, 40])
def test_the_trend_test_keeps_its_level(n: int) -> None:
    rng = np.random.default_rng(6)
    p_values = np.array([stats.trend(rng.standard_t(3, n)).p_value for _ in range(4000)])
    for level in (0.05, 0.01):
        assert (p_values <= level).mean() <= 1.3 * level


def test_a_covariate_separates_groups_as_mann_and_whitney_say() -> None:
    rng = np.random.default_rng(7)
    lower = np.arange(60) < 25
    values = np.round(rng.normal(0, 1, 60) + np.where(lower, 0.0, 2.5), 1)
    found = stats.separation(values, lower)
    expected = scipy_stats.mannwhitneyu(values[lower], values[~lower], use_continuity=False, method="asymptotic")
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6)
    assert found.part == pytest.approx(1 - expected.statistic / (25 * 35))
    values[:10] = np.nan
    assert stats.separation(values, lower).part == 0.5, "too few launches have the covariate"
