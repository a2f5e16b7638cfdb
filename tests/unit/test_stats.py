from __future__ import annotations

import math
import random
import sys
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from tare import stats
from tare.model import Estimate, Repetition, Verdict

RELAXED = settings(deadline=None, max_examples=60)
costs = st.floats(min_value=1e-8, max_value=1e3)
pairs = st.lists(st.tuples(costs, costs), min_size=0, max_size=14)
logs = st.lists(st.floats(min_value=-2, max_value=2), min_size=2, max_size=20)


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


# --- one launch -------------------------------------------------------------------------------------------------


def test_one_late_iteration_moves_the_mean_and_leaves_the_median() -> None:
    quiet = stats.launch_statistics([60e-6] * 1000)
    late = stats.launch_statistics([60e-6] * 999 + [0.2])
    assert late.median_s == quiet.median_s
    assert late.mean_s == pytest.approx(4.33 * quiet.mean_s, rel=0.01)
    assert late.n == 1000


def test_percentiles_of_a_launch_are_those_of_its_samples() -> None:
    launch = stats.launch_statistics(np.arange(101) * 1e-6)
    assert (launch.median_s, launch.p99_s) == pytest.approx((50e-6, 99e-6))
    assert stats.p99_minus_median(np.arange(101) * 1e-6) == pytest.approx(49e-6)


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_a_launch_without_proper_samples_is_refused(samples: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"samples|finite|shape"):
        stats.launch_statistics(samples)


# --- pairs ------------------------------------------------------------------------------------------------------


def test_only_blocks_that_both_have_are_paired_and_blocks_are_averaged_to_rounds() -> None:
    environment = {(0, 0): 2.0, (0, 1): 8.0, (1, 0): 3.0, (2, 0): 5.0}
    baseline = {(0, 0): 1.0, (0, 1): 2.0, (1, 0): 1.0, (3, 0): 1.0}
    paired = stats.pair_rounds(environment, baseline)
    assert paired.rounds == (0, 1)
    assert paired.log_ratios == pytest.approx([math.log(math.sqrt(2.0 * 4.0)), math.log(3.0)])
    assert paired.differences_s == pytest.approx([3.5, 2.0])
    assert paired.environment_s == pytest.approx([5.0, 3.0])
    assert paired.baseline_s == pytest.approx([1.5, 1.0])


def test_what_a_block_does_to_both_cancels() -> None:
    quiet = stats.pair_rounds({(0, 0): 1.1, (0, 1): 1.1}, {(0, 0): 1.0, (0, 1): 1.0})
    disturbed = stats.pair_rounds({(0, 0): 1.1, (0, 1): 55.0}, {(0, 0): 1.0, (0, 1): 50.0})
    assert disturbed.log_ratios == pytest.approx(quiet.log_ratios)


def test_no_common_block_gives_no_pairs() -> None:
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
    assert estimate is not None
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
    assert there is not None
    assert back is not None
    assume(there.high < 1e6 and back.high < 1e6)
    assert 1.0 + there.value == pytest.approx(1.0 / (1.0 + back.value))
    assert 1.0 + there.low == pytest.approx(1.0 / (1.0 + back.high))


def test_rounds_without_any_spread_give_an_interval_of_no_width() -> None:
    d = stats.log_ratios(np.full(8, 1.1e-6) * np.arange(1, 9), 1e-6 * np.arange(1, 9))
    estimate = stats.paired_t(d, 0.95)
    assert estimate is not None
    assert estimate.low == estimate.value == estimate.high == pytest.approx(0.1)
    assert stats.paired_p(d) == 0.0
    assert stats.paired_p(np.zeros(8)) == 1.0
    assert stats.normality_p(d) is None
    assert stats.signed_rank_p(np.zeros(8)) is None
    assert stats.rounds_needed(d, 0.01) == 2


def test_an_enormous_spread_gives_an_open_interval_and_no_overflow() -> None:
    estimate = stats.paired_t([-600.0, 600.0], 0.95)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (-1.0, 0.0, math.inf)


def test_the_bootstrap_interval_is_reproducible_and_that_of_scipy_before_it_is_expanded() -> None:
    rng = np.random.default_rng(2)
    baseline = rng.lognormal(0.0, 0.1, 40)
    environment = baseline * rng.lognormal(0.2, 0.1, 40)
    ours = stats.bca_ratio_of_medians(environment, baseline, 0.95, seed=7)
    assert ours == stats.bca_ratio_of_medians(environment, baseline, 0.95, seed=7)
    assert ours is not None
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


def test_a_bootstrap_interval_takes_a_few_milliseconds() -> None:
    rng = np.random.default_rng(4)
    environment, baseline = rng.lognormal(size=(2, 20))
    stats.bca_ratio_of_medians(environment, baseline, 0.95)
    started = time.process_time()
    for _ in range(20):
        stats.bca_ratio_of_medians(environment, baseline, 0.95)
    assert (time.process_time() - started) / 20 < 0.02


def test_the_noise_floor_is_the_far_end_of_the_interval_not_its_point() -> None:
    a_a = Estimate(value=0.001, low=-0.012, high=0.014, n=10)
    assert stats.noise_floor([a_a]) == 0.014
    assert stats.noise_floor([a_a, Estimate(value=0.0, low=-0.03, high=0.03, n=10)]) == 0.03
    assert stats.noise_floor([]) is None


# --- tests ------------------------------------------------------------------------------------------------------


def test_holm_gives_the_textbook_values() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == ()


@given(st.lists(st.lists(st.floats(-0.1, 0.2), min_size=6, max_size=10), min_size=1, max_size=8))
@RELAXED
def test_adjusted_intervals_leave_out_zero_exactly_where_holm_rejects(series: list[list[float]]) -> None:
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


# --- when to stop -----------------------------------------------------------------------------------------------


def test_looks_double() -> None:
    assert [stats.next_look(n) for n in (0, 9, 10, 19, 20, 40)] == [10, 10, 20, 20, 40, 80]
    assert stats.next_look(15, first=15) == 30


def test_the_rule_looks_at_ten_twenty_and_forty_rounds_only() -> None:
    still = np.resize([-1e-4, 1e-4], 50)
    assert [n for n in range(51) if stats.enough(still[:n], Repetition())] == [10, 20, 40]
    assert [n for n in range(51) if stats.enough(still[:n], Repetition(rounds=15))] == [15, 30]
    assert [n for n in range(51) if stats.enough(still[:n], Repetition(rounds=6))] == [10, 20, 40]


def test_a_round_without_a_valid_pair_does_not_put_off_the_look() -> None:
    assert stats.enough(np.resize([-1e-4, 1e-4], 9), Repetition(), rounds_done=10)
    assert not stats.enough(np.resize([-1e-4, 1e-4], 5), Repetition(), rounds_done=10)


def test_precision_is_a_hundredth_or_a_quarter_of_the_effect() -> None:
    d = np.resize([-0.05, 0.05], 10)
    assert not stats.enough(d, Repetition())
    assert stats.enough(d + 0.2, Repetition())
    assert stats.enough(d, Repetition(target_half_width=0.04))


def test_a_spread_of_four_percent_needs_about_nineteen_rounds_for_two() -> None:
    d = np.resize([-1.0, 1.0], 10) * 0.04 * math.sqrt(0.9)
    assert stats.rounds_needed(d, 0.02) == pytest.approx(19, abs=1)


@given(logs, st.floats(0.001, 1.0))
@RELAXED
def test_the_rounds_needed_are_the_fewest_that_reach_the_target(values: list[float], target: float) -> None:
    needed = stats.rounds_needed(values, target)
    assert needed is not None
    deviation = float(np.std(values, ddof=1))
    assume(needed < stats.MAX_ROUNDS_NEEDED and deviation > 1e-9)

    def half(n: int) -> float:
        return float(scipy_stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)

    assert half(needed) <= target * (1 + 1e-9)
    assert needed == 2 or half(needed - 1) > target * (1 - 1e-9)


def test_rounds_needed_is_unknown_without_a_spread_or_a_target() -> None:
    assert stats.rounds_needed([0.1], 0.01) is None
    assert stats.rounds_needed([0.1, 0.2], 0.0) is None
    assert stats.rounds_needed([-1.0, 1.0], 1e-9) == stats.MAX_ROUNDS_NEEDED


def test_verdicts_are_given_at_the_planned_looks_and_where_runs_ended_before() -> None:
    assert stats.looks_of(Repetition()) == (10,)
    assert stats.looks_of(Repetition(rounds=6, max_rounds=6)) == (6,)
    assert stats.looks_of(Repetition(rounds=10, max_rounds=40)) == (10, 20, 40)
    assert stats.looks_of(Repetition(rounds=30, max_rounds=30), (10, 20, 10)) == (10, 20, 30)


def test_all_looks_together_spend_the_error_once() -> None:
    shares = [stats.share_of_look(number) for number in range(60)]
    assert shares[0] == 0.6
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)


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


# --- the machine's state ------------------------------------------------------------------------------------------


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
    assert fit is not None
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


def test_all_launches_are_the_pairs_where_each_was_made_once() -> None:
    environment = {(r, 0): 1.0 + 0.1 * r for r in range(6)}
    baseline = {(r, 0): 1.0 + 0.05 * r * r for r in range(6)}
    pairs = stats.pair_rounds(environment, baseline)
    lists = [{block: [cost] for block, cost in side.items()} for side in (environment, baseline)]
    assert stats.all_launches(*lists) == pytest.approx(pairs.log_ratios)


def test_over_all_launches_a_repeated_one_weighs_like_any_other() -> None:
    environment = {(r, 0): [1.0] for r in range(9)} | {(9, 0): [math.e, 1.0]}
    baseline = {(r, 0): [1.0] for r in range(10)}
    d = stats.all_launches(environment, baseline)
    assert float(d.mean()) == pytest.approx(1 / 11, abs=0.02)
    assert stats.all_launches({(0, 0): [1.0]}, {(0, 0): [1.0]}).size == 0


def test_modes_are_split_where_the_parts_are_tightest() -> None:
    centres, shares = stats.split_modes([0.0, 0.1, 0.05, 5.0, 5.1])
    assert centres == pytest.approx((0.05, 5.05))
    assert shares == pytest.approx((0.6, 0.4))
    with pytest.raises(ValueError, match="no modes"):
        stats.split_modes([1.0])


# --- verdict ----------------------------------------------------------------------------------------------------

ZIGZAG = np.resize([-1.0, 1.0], 10)


@pytest.mark.parametrize(
    ("d", "expected"),
    [
        (ZIGZAG * 0.002, Verdict.NO_COST),
        (ZIGZAG * 0.01 + 0.10, Verdict.COSTS),
        (ZIGZAG * 0.01 - 0.10, Verdict.GAINS),
        (ZIGZAG * 0.10, Verdict.NO_COST),
        (ZIGZAG * 0.30, Verdict.INCONCLUSIVE),
        (np.zeros(10), Verdict.NO_COST),
        (np.full(10, 0.5), Verdict.COSTS),
    ],
)
def test_verdicts(d: NDArray[np.float64], expected: Verdict) -> None:
    assert stats.verdict(d, margin=0.02).verdict is expected


def test_a_clear_cost_within_the_margin_is_no_cost_beyond_it_and_is_told() -> None:
    judged = stats.verdict(ZIGZAG * 0.001 + 0.008, margin=0.02)
    assert judged.verdict is Verdict.NO_COST
    assert judged.reason == "a cost is clear, but within the margin"
    assert stats.verdict(ZIGZAG * 0.001 + 0.008, margin=0.001).verdict is Verdict.COSTS


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_rounds_give_no_verdict_whatever_the_figures(n: int) -> None:
    judged = stats.verdict(np.full(n, 3.0), margin=0.02)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.more_rounds is not None
    assert judged.more_rounds >= 6 - n


def test_what_is_clear_alone_but_not_in_the_table_is_inconclusive() -> None:
    d = ZIGZAG * 0.12 + 0.1
    assert stats.verdict(d, margin=0.01).verdict is Verdict.COSTS
    judged = stats.verdict(d, margin=0.01, adjusted=0.999)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "Holm" in judged.reason
    assert judged.more_rounds is not None
    assert judged.more_rounds > 0


def test_the_rounds_that_an_inconclusive_verdict_asks_for_decide_if_nothing_changes() -> None:
    d = ZIGZAG * 0.06 + 0.03
    judged = stats.verdict(d, margin=0.02, adjusted=0.999)
    assert judged.verdict is Verdict.NO_COST
    d = ZIGZAG * 0.15 + 0.06
    judged = stats.verdict(d, margin=0.02)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.more_rounds is not None
    longer = np.resize([-1.0, 1.0], 10 + 2 * judged.more_rounds) * 0.15 + 0.06
    assert stats.verdict(longer, margin=0.02).verdict is Verdict.COSTS


# --- limit ------------------------------------------------------------------------------------------------------


def test_beyond_the_limit_means_that_the_whole_interval_is() -> None:
    low_above = ZIGZAG * 0.01 + math.log(1.15)
    only_point_above = ZIGZAG * 0.15 + math.log(1.15)
    assert stats.over_limit([low_above, only_point_above], 0.10, 0.95) == (True, False)
    assert stats.over_limit([low_above[:5]], 0.10, 0.95) == (False,), "too few rounds for a verdict"
    assert stats.over_limit([], 0.10, 0.95) == ()


@given(st.lists(st.floats(-0.2, 0.4), min_size=6, max_size=12), st.floats(0.0, 0.2))
@RELAXED
def test_for_one_comparison_the_limit_is_compared_with_the_lower_bound(d: list[float], limit: float) -> None:
    estimate = stats.paired_t(d, 0.95)
    assert estimate is not None
    assume(abs(estimate.low - limit) > 1e-6)
    assert stats.over_limit([d], limit, 0.95) == (estimate.low > limit,)
