"""Hypothesis tests, failure rates, modes, shares and deviations: values of textbooks and of scipy, error rates."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from tare.analysis import stats
from tare.analysis.stats import MIN_ROUNDS, paired_p, paired_t, two_sample, verdict
from tare.analysis.stats.arrays import FloatArray
from tare.model import Verdict
from unit.stats_inputs import RELAXED

# --- tests ------------------------------------------------------------------------------------------------------


def test_holm_normality_and_ranks_are_those_of_textbooks_and_scipy() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == ()
    d = np.random.default_rng(6).exponential(size=12)
    assert stats.normality_p(d) == pytest.approx(scipy_stats.shapiro(d).pvalue)
    assert stats.signed_rank_p(d) == pytest.approx(scipy_stats.wilcoxon(d, method="exact").pvalue)
    assert stats.normality_p([0.0, 1.0]) is None


@given(st.lists(st.lists(st.floats(-0.1, 0.2), min_size=6, max_size=10), min_size=1, max_size=8))
@RELAXED
def test_adjusted_intervals_exclude_zero_exactly_if_holm_rejects(series: list[list[float]]) -> None:
    p_values = [p for d in series if (p := stats.paired_p(d)) is not None]
    for d, raw, adjusted, confidence in zip(
        series, p_values, stats.holm(p_values), stats.holm_confidences(p_values, 0.95), strict=True
    ):
        assert raw <= adjusted <= 1.0
        assume(abs(adjusted - 0.05) > 1e-6)
        interval, alone = stats.paired_t(d, confidence), stats.paired_t(d, 0.95)
        assert (interval.low > 0 or interval.high < 0) == (adjusted < 0.05)
        assert interval.low <= alone.low
        assert interval.high >= alone.high


def test_equality_is_claimed_only_by_the_interval_inside_the_margin() -> None:
    spread = np.array([-1, 1, -1, 1, -1, 1, -1, 1]) * 0.001
    assert stats.equivalent(spread, 0.02)
    assert stats.equivalent(spread + 0.015, 0.02)
    assert not stats.equivalent(spread + 0.0197, 0.02), "the interval crosses ln(1.02)"
    assert not stats.equivalent(spread * 100, 0.02), "overlapping zero is not equality"
    assert not stats.equivalent(spread, 0.0)
    assert not stats.equivalent([0.0], 0.02)


def test_two_modes_are_seen_from_twenty_rounds_on_if_the_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    one = rng.normal(0.0, 0.01, 30)
    two = np.concatenate([rng.normal(0.0, 0.01, 15), rng.normal(0.2, 0.01, 15)])
    of_two, of_one = stats.dip_p_value(two), stats.dip_p_value(one)
    assert of_two < 0.01
    assert of_one > 0.05
    assert stats.dip_p_value(two[:19]) is None
    assert stats.dip_p_value(np.zeros(20)) == 1.0
    monkeypatch.setitem(sys.modules, "diptest", None)
    assert stats.dip_p_value(np.arange(20.0)) is None


# --- failures ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 12), st.integers(1, 12))
@RELAXED
def test_failure_rates_are_compared_as_scipy_does_it(hits: int, n: int, base_hits: int, base_n: int) -> None:
    hits, base_hits = min(hits, n), min(base_hits, base_n)
    table = [[hits, n - hits], [base_hits, base_n - base_hits]]
    theirs = scipy_stats.fisher_exact(table, alternative="greater").pvalue
    assert stats.more_often_p(hits, n, base_hits, base_n) == pytest.approx(1.0 if hits == 0 else theirs)
    assert stats.as_often_p(hits, n, base_hits, base_n) >= scipy_stats.fisher_exact(table).pvalue / 2


@given(st.integers(0, 30), st.integers(1, 30))
@RELAXED
def test_the_interval_of_a_share_is_that_of_clopper_and_pearson(hits: int, n: int) -> None:
    hits = min(hits, n)
    theirs = scipy_stats.binomtest(hits, n).proportion_ci(method="exact")
    assert stats.share_interval(hits, n) == pytest.approx((theirs.low, theirs.high))


def test_failures_that_may_have_been_missed_and_modes_that_are_tightest() -> None:
    assert stats.missed_share(10) == pytest.approx(0.2589, abs=1e-4)
    assert stats.missed_share(59) < 0.05 < stats.missed_share(58)
    assert stats.missed_share(0) == 1.0
    centres, shares = stats.split_modes([0.0, 0.1, 0.05, 5.0, 5.1])
    assert centres == pytest.approx((0.05, 5.05))
    assert shares == pytest.approx((0.6, 0.4))
    with pytest.raises(ValueError, match="at least two values"):
        stats.split_modes([1.0])


# --- modes ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_a_sample_beyond_the_dip_test_s_table_is_thinned_and_keeps_its_modes() -> None:
    rng = np.random.default_rng(3)
    modes = np.where(rng.random(100_000) < 0.5, 0.0, 10.0) + rng.normal(size=100_000)
    assert stats.dip_p_value(modes) == pytest.approx(0.0, abs=1e-3)
    assert (stats.dip_p_value(rng.normal(size=100_000)) or 0.0) > 0.05


SERIES = 4000


def covered(n: tuple[int, int], deviations: tuple[float, float], truth: float) -> float:
    """Return how often the 95 % interval of the ratio holds the true one, in seeded simulations."""
    generator = np.random.default_rng([2947, *n])
    held = 0
    for _ in range(SERIES):
        first = generator.normal(1.0, deviations[0], n[0])
        second = generator.normal(1.0 + math.log(truth), deviations[1], n[1])
        estimate = paired_t(two_sample(first, second), 0.95)
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
    for _ in range(500):
        first, second = generator.normal(0, 0.10, 6), generator.normal(0, 0.01, 30)
        welch += (paired_p(two_sample(first, second)) or 0.0) < 0.05
        pooled += scipy_stats.ttest_ind(first, second).pvalue < 0.05
    assert welch / 500 <= 0.06
    assert pooled / 500 > 0.2


def test_the_moments_are_those_of_scipys_welch_test_and_swapped_with_the_results() -> None:
    first, second = [0.1, 0.2, 0.15, 0.3, 0.22, 0.18, 0.25], [0.5, 0.7, 0.4, 0.9, 0.6, 0.55]
    moments = two_sample(first, second)
    expected = scipy_stats.ttest_ind(second, first, equal_var=False)
    assert moments.mean / moments.error == pytest.approx(expected.statistic)
    assert moments.n == math.floor(expected.df) + 1
    assert moments.n >= MIN_ROUNDS
    back = two_sample(second, first)
    assert (moments.mean, moments.error, moments.n) == pytest.approx((-back.mean, back.error, back.n))


@pytest.mark.parametrize("few", [2, MIN_ROUNDS - 1])
def test_a_result_of_few_rounds_gets_no_verdict_however_many_the_other_has(few: int) -> None:
    generator = np.random.default_rng(3)
    moments = two_sample(generator.normal(0, 0.001, few), generator.normal(9, 0.001, 100))
    judged = verdict(moments, margin=0.02)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert f"at least {MIN_ROUNDS} rounds" in judged.reason


def test_one_round_has_no_interval_and_values_without_spread_differ_or_do_not() -> None:
    assert paired_t(two_sample([0.1], [0.1, 0.2, 0.3]), 0.95) is None
    assert paired_p(two_sample([1.0] * 6, [1.0] * 6)) == 1.0
    assert paired_p(two_sample([1.0] * 6, [1.1] * 6)) == 0.0
    with pytest.raises(ValueError, match="not finite"):
        two_sample([math.nan, 1.0], [1.0, 2.0])


def test_shares_are_of_certain_costs_of_paired_rounds() -> None:
    cost = [0.30, 0.32, 0.29, 0.31, 0.28, 0.30]
    share = stats.share_of_cost(cost, cost)
    assert (share.value, share.low, share.high) == pytest.approx((1.0, 1.0, 1.0))
    assert stats.share_of_cost([0.1, -0.1, 0.0, 0.1], [0.1, -0.2, 0.1, 0.05]) is None
    assert stats.share_of_cost([0.1], [0.2]) is None
    with pytest.raises(ValueError, match="2 explained costs cannot be paired with 3"):
        stats.share_of_cost([0.1, 0.2], [0.1, 0.2, 0.3])


@pytest.mark.parametrize(("share", "rounds"), [(0.0, 6), (0.5, 6), (1.0, 10), (0.3, 20)])
def test_the_interval_has_the_true_share_as_often_as_it_says(share: float, rounds: int) -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        baseline, cell, without = random.normal(0, 0.03, (3, rounds))
        cost = 0.2 + cell - baseline
        explained = 0.2 * share + cell - without
        found = stats.share_of_cost(explained, cost)
        covered += found is not None and found.low <= share <= found.high
    assert 0.93 <= covered / 2000 <= 0.97


def test_the_parts_estimate_the_logarithm_of_the_deviation() -> None:
    values = np.random.default_rng(3).normal(5.0, 0.02, 4000)
    parts = stats.jackknifed_log_deviation(values)
    assert len(parts) == 4000
    assert np.mean(parts) == pytest.approx(math.log(0.02), abs=0.03)


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [3.0] * 8, [3.0] * 7 + [4.0]])
def test_there_are_no_parts_without_spread(values: list[float]) -> None:
    assert stats.jackknifed_log_deviation(values) == ()


def drawn(random: np.random.Generator, tails: float) -> FloatArray:
    return random.standard_t(tails, 12) if tails < math.inf else random.standard_normal(12)


@pytest.mark.parametrize("tails", [4.0, math.inf])
def test_equal_deviations_are_said_to_differ_no_more_often_than_stated(tails: float) -> None:
    random = np.random.default_rng(11)
    wrong = 0
    for _ in range(1000):
        drift = random.normal(0, 0.05, 12)
        first, second = (drift + 0.05 * drawn(random, tails) for _ in range(2))
        of_first, of_second = (np.array(stats.jackknifed_log_deviation(each)) for each in (first, second))
        wrong += stats.not_above_p(of_first - of_second, 0.0) < 0.05
    assert wrong / 1000 < 0.075
