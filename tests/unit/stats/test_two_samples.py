"""Two results are compared by Welch's t test on the logs of their rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from tare.model import Verdict
from tare.stats import MIN_ROUNDS, paired_p, paired_t, two_sample, verdict

SERIES = 4000


def covered(n: tuple[int, int], deviations: tuple[float, float], truth: float) -> float:
    """Return how often the 95 % interval of the ratio holds the true one, in seeded simulations."""
    generator = np.random.default_rng([2947, *n])
    held = 0
    for _ in range(SERIES):
        first = generator.normal(1.0, deviations[0], n[0])
        second = generator.normal(1.0 + math.log(truth), deviations[1], n[1])
        estimate = paired_t(two_sample(first, second), 0.95)
        assert estimate is not None
        held += estimate.low <= truth - 1.0 <= estimate.high
    return held / SERIES


@pytest.mark.parametrize(
    ("n", "deviations"),
    [((6, 6), (0.02, 0.02)), ((6, 20), (0.06, 0.02)), ((20, 6), (0.06, 0.02)), ((10, 40), (0.01, 0.1))],
)
def test_the_interval_holds_the_true_ratio_in_95_of_100_results(
    n: tuple[int, int], deviations: tuple[float, float]
) -> None:
    assert 0.94 <= covered(n, deviations, truth=1.2) <= 0.97


def test_unequal_spreads_would_fool_a_test_that_pools_them() -> None:
    generator = np.random.default_rng(11)
    welch = pooled = 0
    for _ in range(2000):
        first, second = generator.normal(0, 0.10, 6), generator.normal(0, 0.01, 30)
        welch += (paired_p(two_sample(first, second)) or 0.0) < 0.05
        pooled += scipy.stats.ttest_ind(first, second).pvalue < 0.05
    assert welch / 2000 <= 0.06
    assert pooled / 2000 > 0.2


def test_the_moments_are_those_of_scipys_welch_test() -> None:
    first, second = [0.1, 0.2, 0.15, 0.3, 0.22, 0.18, 0.25], [0.5, 0.7, 0.4, 0.9, 0.6, 0.55]
    moments = two_sample(first, second)
    expected = scipy.stats.ttest_ind(second, first, equal_var=False)
    assert moments.mean / moments.error == pytest.approx(expected.statistic)
    assert moments.n == math.floor(expected.df) + 1
    assert moments.n >= MIN_ROUNDS


def test_swapping_the_results_inverts_the_ratio() -> None:
    first, second = [0.1, 0.2, 0.15, 0.3, 0.22, 0.18], [0.5, 0.7, 0.4, 0.9, 0.6, 0.55]
    there, back = two_sample(first, second), two_sample(second, first)
    assert (there.mean, there.error, there.n) == (-back.mean, back.error, back.n)


@pytest.mark.parametrize("few", [2, MIN_ROUNDS - 1])
def test_a_result_of_few_rounds_gets_no_verdict_however_many_the_other_has(few: int) -> None:
    generator = np.random.default_rng(3)
    moments = two_sample(generator.normal(0, 0.001, few), generator.normal(9, 0.001, 100))
    judged = verdict(moments, margin=0.02)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert f"at least {MIN_ROUNDS} rounds" in judged.reason


def test_one_round_has_no_interval() -> None:
    assert paired_t(two_sample([0.1], [0.1, 0.2, 0.3]), 0.95) is None


def test_values_without_spread_differ_or_do_not() -> None:
    assert paired_p(two_sample([1.0] * 6, [1.0] * 6)) == 1.0
    assert paired_p(two_sample([1.0] * 6, [1.1] * 6)) == 0.0


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        two_sample([math.nan, 1.0], [1.0, 2.0])
