"""Launches, pairs and intervals: they agree with scipy and do not depend on the unit or on the order of rounds."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from tare.analysis import stats
from tare.analysis.stats import resampling
from tare.analysis.stats.arrays import FloatArray
from tare.model import Estimate, Verdict
from unit.stats_inputs import RELAXED, logs, pairs


def split(values: list[tuple[float, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    array = np.asarray(values, dtype=float).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def alike(first: Estimate | None, second: Estimate | None, factor: float = 1.0) -> bool:
    if first is None or second is None:
        return first is second
    return first.n == second.n and all(
        math.isclose(getattr(first, name) * factor, getattr(second, name), rel_tol=1e-6, abs_tol=1e-9 * factor)
        for name in ("value", "low", "high")
    )


def test_statistics_of_a_launch_are_those_of_its_samples_and_one_late_one_leaves_the_median() -> None:
    quiet = stats.launch_statistics([60e-6] * 1000)
    late = stats.launch_statistics([60e-6] * 999 + [0.2])
    assert late.median_s == quiet.median_s
    assert late.mean_s == pytest.approx(4.33 * quiet.mean_s, rel=0.01)
    assert late.n == 1000
    launch = stats.launch_statistics(np.arange(101) * 1e-6)
    assert (launch.median_s, launch.p99_s) == pytest.approx((50e-6, 99e-6))
    assert stats.p99_minus_median(np.arange(101) * 1e-6) == pytest.approx(49e-6)


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_a_launch_without_proper_samples_is_refused(samples: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"samples|finite|shape"):
        stats.launch_statistics(samples)


# --- pairs ------------------------------------------------------------------------------------------------------


def test_only_blocks_that_both_have_are_paired_and_what_a_block_does_to_both_cancels() -> None:
    environment = {(0, 0): 2.0, (0, 1): 8.0, (1, 0): 3.0, (2, 0): 5.0}
    baseline = {(0, 0): 1.0, (0, 1): 2.0, (1, 0): 1.0, (3, 0): 1.0}
    paired = stats.pair_rounds(environment, baseline)
    assert paired.rounds == (0, 1)
    assert paired.log_ratios == pytest.approx([math.log(math.sqrt(2.0 * 4.0)), math.log(3.0)])
    assert paired.environment_s == pytest.approx([5.0, 3.0])
    assert paired.baseline_s == pytest.approx([1.5, 1.0])
    quiet = stats.pair_rounds({(0, 0): 1.1, (0, 1): 1.1}, {(0, 0): 1.0, (0, 1): 1.0})
    disturbed = stats.pair_rounds({(0, 0): 1.1, (0, 1): 55.0}, {(0, 0): 1.0, (0, 1): 50.0})
    assert disturbed.log_ratios == pytest.approx(quiet.log_ratios)
    paired = stats.pair_rounds({(0, 0): 1.0}, {(1, 0): 1.0})
    assert paired.rounds == ()
    assert paired.log_ratios.shape == (0,)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_costs_that_are_not_positive_and_finite_have_no_ratio(bad: float) -> None:
    with pytest.raises(ValueError, match=r"not positive|not finite"):
        stats.log_ratios([1.0, bad], [1.0, 1.0])


def test_unequal_numbers_of_costs_are_not_paired() -> None:
    for function in (
        stats.log_ratios,
        lambda a, b: stats.paired_difference(a, b, 0.95),
        lambda a, b: stats.bca_ratio_of_medians(a, b, 0.95),
    ):
        with pytest.raises(ValueError, match="cannot be paired"):
            function([1.0, 2.0], [1.0])


# --- intervals --------------------------------------------------------------------------------------------------


def test_the_paired_interval_is_that_of_scipy() -> None:
    d = np.random.default_rng(1).normal(0.1, 0.05, 10)
    interval = scipy_stats.ttest_1samp(d, 0.0).confidence_interval(0.95)
    estimate = stats.paired_t(d, 0.95)
    assert (estimate.low, estimate.high) == pytest.approx((math.expm1(interval.low), math.expm1(interval.high)))
    assert estimate.value == pytest.approx(math.expm1(d.mean()))
    assert stats.paired_p(d) == pytest.approx(scipy_stats.ttest_1samp(d, 0.0).pvalue)


@given(pairs)
@RELAXED
def test_estimates_are_absent_below_two_rounds_and_ordered_numbers_above(values: list[tuple[float, float]]) -> None:
    environment, baseline = split(values)
    d = stats.log_ratios(environment, baseline)
    estimates = (
        stats.paired_t(d, 0.95),
        stats.paired_difference(environment, baseline, 0.95),
        stats.bca_ratio_of_medians(environment, baseline, 0.95),
        stats.mean_interval(environment, 0.95),
    )
    for estimate in estimates:
        assert (estimate is None) == (len(values) < 2)
        if estimate is not None:
            assert estimate.low <= estimate.value <= estimate.high
            assert estimate.n == len(values)
    assert (stats.paired_p(d) is None) == (len(values) < 2)
    assert stats.verdict(d, margin=0.02).verdict in Verdict


@given(pairs, st.floats(min_value=1e-3, max_value=1e3))
@RELAXED
def test_overheads_do_not_depend_on_the_unit_and_added_times_scale_with_it(
    values: list[tuple[float, float]], factor: float
) -> None:
    environment, baseline = split(values)
    d, scaled = (stats.log_ratios(environment * k, baseline * k) for k in (1.0, factor))
    assert alike(stats.paired_t(d, 0.95), stats.paired_t(scaled, 0.95))
    assert alike(
        stats.bca_ratio_of_medians(environment, baseline, 0.95),
        stats.bca_ratio_of_medians(environment * factor, baseline * factor, 0.95),
    )
    assert alike(
        stats.paired_difference(environment, baseline, 0.95),
        stats.paired_difference(environment * factor, baseline * factor, 0.95),
        factor,
    )


@given(logs, st.randoms(use_true_random=False))
@RELAXED
def test_the_order_of_rounds_does_not_matter(values: list[float], shuffling: random.Random) -> None:
    shuffled = list(values)
    shuffling.shuffle(shuffled)
    assert alike(stats.paired_t(values, 0.95), stats.paired_t(shuffled, 0.95))
    assert stats.paired_p(values) == pytest.approx(stats.paired_p(shuffled), rel=1e-6, abs=1e-9)


@given(logs)
def test_exchanging_environment_and_baseline_inverts_the_ratio(values: list[float]) -> None:
    there, back = stats.paired_t(values, 0.95), stats.paired_t([-value for value in values], 0.95)
    assume(there.high < 1e6 and back.high < 1e6)
    assert 1.0 + there.value == pytest.approx(1.0 / (1.0 + back.value))
    assert 1.0 + there.low == pytest.approx(1.0 / (1.0 + back.high))


def test_no_spread_gives_an_interval_of_no_width_and_an_enormous_one_an_open_one() -> None:
    d = stats.log_ratios(np.full(8, 1.1e-6) * np.arange(1, 9), 1e-6 * np.arange(1, 9))
    estimate = stats.paired_t(d, 0.95)
    assert estimate.low == estimate.value == estimate.high == pytest.approx(0.1)
    assert stats.paired_p(d) == 0.0
    assert stats.paired_p(np.zeros(8)) == 1.0
    assert stats.normality_p(d) is None
    assert stats.signed_rank_p(np.zeros(8)) is None
    assert stats.rounds_needed(d, 0.01) == 2
    estimate = stats.paired_t([-600.0, 600.0], 0.95)
    assert (estimate.low, estimate.value, estimate.high) == (-1.0, 0.0, math.inf)


def test_the_bootstrap_interval_is_reproducible_and_that_of_scipy_before_it_is_expanded() -> None:
    rng = np.random.default_rng(2)
    baseline = rng.lognormal(0.0, 0.1, 40)
    environment = baseline * rng.lognormal(0.2, 0.1, 40)
    ours = stats.bca_ratio_of_medians(environment, baseline, 0.95, seed=7)
    assert ours == stats.bca_ratio_of_medians(environment, baseline, 0.95, seed=7)
    theirs = scipy_stats.bootstrap(
        (environment, baseline),
        lambda a, b, axis: np.median(a, axis=axis) / np.median(b, axis=axis),
        paired=True,
        n_resamples=4000,
        method="BCa",
        rng=np.random.default_rng(3),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.25 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.25 * width)


def test_the_coefficient_of_a_state_is_that_of_least_squares_with_dummies() -> None:
    rng = np.random.default_rng(3)
    cells, blocks = (np.array(ids) for ids in zip(*[(c, b) for c in range(5) for b in range(12)], strict=True))
    keep = rng.random(cells.size) < 0.9
    cells, blocks = cells[keep], blocks[keep]
    states = rng.normal(size=(cells.size, 2))
    logs = 0.3 * states[:, 0] - 0.1 * states[:, 1] + 0.2 * cells + 0.05 * blocks + rng.normal(0, 0.02, cells.size)
    dummies = np.concatenate([states, np.eye(5)[cells], np.eye(12)[blocks]], axis=1)
    theirs = np.linalg.lstsq(dummies, logs, rcond=None)[0][:2]
    fit = stats.fit_states(logs, states, cells, blocks)
    assert fit.coefficients == pytest.approx(theirs, abs=1e-6)
    assert fit.estimates[0].low < 0.3 < fit.estimates[0].high


def test_too_few_launches_or_a_state_that_never_varies_in_a_block_adjust_nothing() -> None:
    cells, blocks = np.repeat([0, 1], 10), np.tile(np.arange(10), 2)
    rng = np.random.default_rng(4)
    assert stats.fit_states(rng.normal(size=20), rng.normal(size=(20, 1)), cells, blocks) is None
    cells, blocks = np.repeat(np.arange(8), 10), np.tile(np.arange(10), 8)
    shared = np.arange(10.0)[blocks][:, None]
    assert stats.fit_states(rng.normal(size=80), shared, cells, blocks) is None


# --- all launches -------------------------------------------------------------------------------------------------


def test_over_all_launches_a_repeated_one_weighs_like_any_other() -> None:
    environment = {(r, 0): 1.0 + 0.1 * r for r in range(6)}
    baseline = {(r, 0): 1.0 + 0.05 * r * r for r in range(6)}
    pairs = stats.pair_rounds(environment, baseline)
    lists = [{block: [cost] for block, cost in side.items()} for side in (environment, baseline)]
    assert stats.all_launches(*lists) == pytest.approx(pairs.log_ratios)
    environment = {(r, 0): [1.0] for r in range(9)} | {(9, 0): [math.e, 1.0]}
    baseline = {(r, 0): [1.0] for r in range(10)}
    d = stats.all_launches(environment, baseline)
    assert float(d.mean()) == pytest.approx(1 / 11, abs=0.02)
    assert stats.all_launches({(0, 0): [1.0]}, {(0, 0): [1.0]}).size == 0


SIZES = (2, 3, 4, 5, 6, 9, 10, 29, 30, 100, 255, 256, 999, 2048)


def samples_of(n: int) -> list[FloatArray]:
    dice = np.random.default_rng(n)
    smooth = dice.lognormal(size=n)
    return [smooth, np.round(smooth, 1) + 0.1, np.ones(n), np.sort(smooth), np.sort(smooth)[::-1]]


@pytest.mark.parametrize("n", SIZES)
def test_medians_of_resamples_are_those_of_sorted_resamples(n: int) -> None:
    indices = np.random.default_rng([7, n]).integers(0, n, size=(resampling.BOOTSTRAP_RESAMPLES, n), dtype=np.intp)
    for values in samples_of(n):
        ordered = np.sort(values[indices], axis=1)
        plain = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2.0
        assert np.array_equal(resampling.resampled_medians(values, 7), plain)


def test_a_median_beyond_the_ranks_that_are_tried_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (values, *_) = samples_of(2048)
    plain = resampling.resampled_medians(values, 1)
    monkeypatch.setattr("math.isqrt", lambda _n: 0)
    assert np.array_equal(resampling.resampled_medians(values, 1), plain)


@pytest.mark.parametrize("n", SIZES)
def test_medians_without_one_value_are_those_of_the_others(n: int) -> None:
    for values in samples_of(n):
        plain = [float(np.median(np.delete(values, place))) for place in range(n)]
        assert resampling.leave_one_out_medians(values).tolist() == plain


@pytest.mark.parametrize("n", SIZES)
def test_medians_and_quantiles_are_those_of_numpy(n: int) -> None:
    assert all(resampling.median(values) == np.median(values) for values in samples_of(n))
    levels = [0.0, 1.0, 0.025, 0.5, 0.975, 1e-12, *np.random.default_rng(n).random(200)]
    for values in samples_of(n):
        assert resampling.quantiles(values, levels) == np.quantile(values, levels).tolist()
        assert resampling.quantiles(values, levels[:1]) == [values.min()], "other places stay unsorted"
