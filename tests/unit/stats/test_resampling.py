"""Medians of resamples and quantiles are those of the plain computation, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from tare.stats import resampling
from tare.stats.arrays import FloatArray

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
