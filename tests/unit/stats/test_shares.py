"""The share of a cost that a factor explains, and how often its interval has the true one."""

from __future__ import annotations

import numpy as np
import pytest

from tare import stats


def test_a_factor_that_explains_all_has_the_share_one() -> None:
    cost = [0.30, 0.32, 0.29, 0.31, 0.28, 0.30]
    share = stats.share_of_cost(cost, cost)
    assert share is not None
    assert share.value == pytest.approx(1.0)
    assert share.low == pytest.approx(1.0)
    assert share.high == pytest.approx(1.0)


def test_a_cost_that_may_be_none_has_no_share() -> None:
    assert stats.share_of_cost([0.1, -0.1, 0.0, 0.1], [0.1, -0.2, 0.1, 0.05]) is None
    assert stats.share_of_cost([0.1], [0.2]) is None


def test_rounds_must_be_paired() -> None:
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
