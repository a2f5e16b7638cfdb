"""Hypothesis tests, failure rates and modes: textbook values and those of scipy."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from tare import stats
from unit.stats_inputs import RELAXED

# --- tests ------------------------------------------------------------------------------------------------------


def test_holm_gives_the_textbook_values() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == ()


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
        assert interval is not None
        assert alone is not None
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


def test_two_modes_are_seen_from_twenty_rounds_on() -> None:
    rng = np.random.default_rng(5)
    one = rng.normal(0.0, 0.01, 30)
    two = np.concatenate([rng.normal(0.0, 0.01, 15), rng.normal(0.2, 0.01, 15)])
    of_two, of_one = stats.dip_p_value(two), stats.dip_p_value(one)
    assert of_two is not None
    assert of_one is not None
    assert of_two < 0.01
    assert of_one > 0.05
    assert stats.dip_p_value(two[:19]) is None
    assert stats.dip_p_value(np.zeros(20)) == 1.0


def test_without_the_optional_package_there_is_no_dip_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diptest", None)
    assert stats.dip_p_value(np.arange(20.0)) is None


def test_normality_and_ranks_are_those_of_scipy() -> None:
    d = np.random.default_rng(6).exponential(size=12)
    assert stats.normality_p(d) == pytest.approx(scipy_stats.shapiro(d).pvalue)
    assert stats.signed_rank_p(d) == pytest.approx(scipy_stats.wilcoxon(d, method="exact").pvalue)
    assert stats.normality_p([0.0, 1.0]) is None


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


def test_what_launches_may_all_have_missed() -> None:
    assert stats.missed_share(10) == pytest.approx(0.2589, abs=1e-4)
    assert stats.missed_share(59) < 0.05 < stats.missed_share(58)
    assert stats.missed_share(0) == 1.0


# --- modes ------------------------------------------------------------------------------------------------------


def test_modes_are_split_where_the_parts_are_tightest() -> None:
    centres, shares = stats.split_modes([0.0, 0.1, 0.05, 5.0, 5.1])
    assert centres == pytest.approx((0.05, 5.05))
    assert shares == pytest.approx((0.6, 0.4))
    with pytest.raises(ValueError, match="at least two values"):
        stats.split_modes([1.0])


@pytest.mark.filterwarnings("error")
def test_a_sample_beyond_the_dip_test_s_table_is_thinned_and_keeps_its_modes() -> None:
    rng = np.random.default_rng(3)
    modes = np.where(rng.random(100_000) < 0.5, 0.0, 10.0) + rng.normal(size=100_000)
    assert stats.dip_p_value(modes) == pytest.approx(0.0, abs=1e-3)
    assert (stats.dip_p_value(rng.normal(size=100_000)) or 0.0) > 0.05
