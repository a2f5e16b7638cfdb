"""A standard deviation over rounds errs as often as stated, with normal values and with heavy tails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tare import stats
from tare.stats.arrays import FloatArray


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
