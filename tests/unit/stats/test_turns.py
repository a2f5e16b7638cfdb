"""The typical cost of launches that took turns has neither bursts nor drifts of the machine, and keeps real costs."""

from __future__ import annotations

import numpy as np
import pytest

from tare import stats


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


def test_the_level_is_that_of_the_turns() -> None:
    assert stats.typical_turns([[1.0, 2.0, 3.0], [1.5, 2.5, 3.5]]).tolist() == [2.0, 2.5]
    assert stats.typical_turns([[1.0, 5.0, 1.0]]).tolist() == [1.0]


@pytest.mark.parametrize("logs", [[], [1.0, 2.0], [[], []]])
def test_another_shape_is_refused(logs: list[float]) -> None:
    with pytest.raises(ValueError, match="expected shape"):
        stats.typical_turns(logs)
