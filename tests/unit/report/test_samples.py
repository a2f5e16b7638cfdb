"""Millions of samples become curves whose error is known, one trial at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samples_factory as factory
from factory_options import Options
from tare.report.samples import BIN_RATIO, LogHistogram, collect, columns_of, gap_columns, main_column


@given(st.integers(1, 5000), st.floats(1e-6, 10.0), st.integers(0, 2**31))
def test_every_quantile_is_within_half_a_bin_of_the_exact_one(n: int, scale: float, seed: int) -> None:
    samples = scale * np.random.default_rng(seed).lognormal(0.0, 1.0, n)
    histogram = LogHistogram()
    for part in np.array_split(samples, 3):
        histogram.add(part)
    curve = histogram.curve(240)
    exact = np.quantile(samples, curve.fractions, method="inverted_cdf")
    half_a_bin = np.expm1(BIN_RATIO / 2)  # bins are equal in the logarithm
    assert np.all(np.abs(curve.values_s / exact - 1) <= half_a_bin + 1e-12)
    assert curve.values_s[0] == samples.min()
    assert curve.values_s[-1] == samples.max()
    assert curve.n == n


def test_a_curve_has_no_more_points_than_asked_for_and_never_falls() -> None:
    histogram = LogHistogram()
    histogram.add(np.random.default_rng(1).exponential(1e-5, 200_000))
    curve = histogram.curve(240)
    assert curve.values_s.size <= 242
    assert np.all(np.diff(curve.values_s) >= 0)


def test_times_outside_the_range_and_not_a_number_do_no_harm() -> None:
    histogram = LogHistogram()
    histogram.add(np.array([0.0, -1e-6, 1e9, np.nan, 1e-5]))
    assert histogram.n == 4
    assert histogram.curve().values_s[0] == -1e-6
    histogram.add(np.array([]))
    assert histogram.launches == 1


def test_densities_of_two_histograms_have_the_same_bars_and_count_everything() -> None:
    rng = np.random.default_rng(2)
    first, second = LogHistogram(), LogHistogram()
    first.add(rng.normal(1e-4, 1e-6, 10_000))
    second.add(rng.normal(1e-4, 5e-6, 10_000))
    bars = [histogram.density(5e-5, 2e-4, 60) for histogram in (first, second)]
    assert np.array_equal(bars[0][0], bars[1][0])
    assert bars[0][0].size <= 61
    assert bars[0][1].sum() == pytest.approx(1.0)


def test_samples_are_read_once_per_trial_and_only_for_trials_that_are_asked_for() -> None:
    result = factory.make(Options(rounds=2, samples=50))
    collect(result.samples, (("row", trial) for trial in result.trials[:5]))
    assert result.samples.asked == [trial.key for trial in result.trials[:5]]


def test_a_metric_finds_its_columns_even_if_two_metrics_share_a_kernel() -> None:
    keys = [("latency:8", "max_s"), ("latency:8", "mean_s"), ("spacing:8@10", "send_gap_s")]
    keys.append(("spacing:8@10", "receive_gap_s"))
    assert columns_of("latency:8", keys) == ("latency:8", ("max_s", "mean_s"))
    assert columns_of("spacing:8@10.receive", keys) == ("spacing:8@10", ("receive_gap_s",))
    assert columns_of("wall", keys)[1] == ()
    assert main_column(["mean_s", "max_s"]) == "max_s"
    assert gap_columns(["send_gap_s", "max_s", "receive_gap_s"]) == ("receive_gap_s", "send_gap_s")
