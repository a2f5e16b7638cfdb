"""The stopping rule, and the verdicts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from tare.analysis import stats
from tare.model import Estimate, Repetition, Verdict
from unit.stats_inputs import RELAXED, logs

# --- when to stop -----------------------------------------------------------------------------------------------


def test_the_rule_looks_at_ten_twenty_and_forty_rounds_also_if_a_pair_is_missing() -> None:
    assert [stats.next_look(n) for n in (0, 9, 10, 19, 20, 40)] == [10, 10, 20, 20, 40, 80]
    assert stats.next_look(15, first=15) == 30
    still = np.resize([-1e-4, 1e-4], 50)
    assert [n for n in range(51) if stats.precise_enough(still[:n], Repetition())] == [10, 20, 40]
    assert [n for n in range(51) if stats.precise_enough(still[:n], Repetition(rounds=15))] == [15, 30]
    assert [n for n in range(51) if stats.precise_enough(still[:n], Repetition(rounds=6))] == [10, 20, 40]
    assert stats.precise_enough(np.resize([-1e-4, 1e-4], 9), Repetition(), rounds_done=10)
    assert not stats.precise_enough(np.resize([-1e-4, 1e-4], 5), Repetition(), rounds_done=10)
    assert stats.looks_of(Repetition()) == (10,)
    assert stats.looks_of(Repetition(rounds=6, max_rounds=6)) == (6,)
    assert stats.looks_of(Repetition(rounds=10, max_rounds=40)) == (10, 20, 40)
    assert stats.looks_of(Repetition(rounds=30, max_rounds=30), (10, 20, 10)) == (10, 20, 30)


def test_precision_is_a_hundredth_or_a_quarter_of_the_effect_and_needs_rounds() -> None:
    d = np.resize([-0.05, 0.05], 10)
    assert not stats.precise_enough(d, Repetition())
    assert stats.precise_enough(d + 0.2, Repetition())
    assert stats.precise_enough(d, Repetition(target_half_width=0.04))
    d = np.resize([-1.0, 1.0], 10) * 0.04 * math.sqrt(0.9)
    assert stats.rounds_needed(d, 0.02) == pytest.approx(19, abs=1)
    assert stats.rounds_needed([0.1], 0.01) is None
    assert stats.rounds_needed([0.1, 0.2], 0.0) is None
    assert stats.rounds_needed([-1.0, 1.0], 1e-9) == stats.MAX_ROUNDS_NEEDED


@given(logs, st.floats(0.001, 1.0))
@RELAXED
def test_the_rounds_needed_are_the_fewest_that_reach_the_target(values: list[float], target: float) -> None:
    needed = stats.rounds_needed(values, target)
    deviation = float(np.std(values, ddof=1))
    assume(needed < stats.MAX_ROUNDS_NEEDED and deviation > 1e-9)

    def half(n: int) -> float:
        return float(scipy_stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)

    assert half(needed) <= target * (1 + 1e-9)
    assert needed == 2 or half(needed - 1) > target * (1 - 1e-9)


def test_all_looks_together_spend_the_error_once() -> None:
    shares = [stats.share_of_look(number) for number in range(60)]
    assert shares[0] == 0.6
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)


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


def test_a_cost_within_the_margin_is_none_and_one_beyond_the_limit_is_so_as_a_whole() -> None:
    judged = stats.verdict(ZIGZAG * 0.001 + 0.008, margin=0.02)
    assert judged.verdict is Verdict.NO_COST
    assert judged.reason == "a significant cost, but within the margin"
    assert stats.verdict(ZIGZAG * 0.001 + 0.008, margin=0.001).verdict is Verdict.COSTS
    low_above = ZIGZAG * 0.01 + math.log(1.15)
    only_point_above = ZIGZAG * 0.15 + math.log(1.15)
    assert stats.over_limit([low_above, only_point_above], 0.10, 0.95) == (True, False)
    assert stats.over_limit([low_above[:5]], 0.10, 0.95) == (False,), "too few rounds for a verdict"
    assert stats.over_limit([], 0.10, 0.95) == ()


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_rounds_give_no_verdict(n: int) -> None:
    judged = stats.verdict(np.full(n, 3.0), margin=0.02)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.more_rounds >= 6 - n


def test_what_is_significant_alone_but_not_in_the_table_asks_for_rounds_that_decide() -> None:
    d = ZIGZAG * 0.12 + 0.1
    assert stats.verdict(d, margin=0.01).verdict is Verdict.COSTS
    judged = stats.verdict(d, margin=0.01, adjusted=0.999)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "Holm" in judged.reason
    assert judged.more_rounds > 0
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


@given(st.lists(st.floats(-0.2, 0.4), min_size=6, max_size=12), st.floats(0.0, 0.2))
@RELAXED
def test_for_one_comparison_the_limit_is_compared_with_the_lower_bound(d: list[float], limit: float) -> None:
    estimate = stats.paired_t(d, 0.95)
    assume(abs(estimate.low - limit) > 1e-6)
    assert stats.over_limit([d], limit, 0.95) == (estimate.low > limit,)


@pytest.mark.parametrize(("low", "high"), [(-1.0, math.inf), (-1.0, 0.0), (0.0, math.inf)])
def test_a_noise_floor_without_bounds_gives_no_verdict_and_no_error(low: float, high: float) -> None:
    floor = Estimate(value=0.0, low=low, high=high, n=10)
    judgement = stats.verdict(np.resize([0.29, 0.31], 10), margin=0.02, floor=floor)
    assert judgement.verdict is (Verdict.INCONCLUSIVE if high > 0.3 else Verdict.COSTS)
