"""Samples become curves whose error is known; they are read once, and a file that cannot be read is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samples_factory as factory
from factory_options import Options
from tare.analysis.summary import summarise
from tare.errors import ResultsError
from tare.report import render_html
from tare.report.plots.histograms import BIN_RATIO, LogHistogram, collect, columns_of, gap_columns, main_column
from tare.store.results import read_only
from tare.store.writer import Store
from unit.summaries import make_plan, make_trials

PLAN = make_plan("overlay", "fast")


def test_a_damaged_file_of_samples_is_named(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    with Store.create_or_open(tmp_path / "results", PLAN, {}) as store:
        for trial in make_trials(PLAN, 3):
            store.append(trial, {"latency:8/max_s": dice.lognormal(-10, 1, 40)})
    results = read_only(tmp_path / "results")
    summary = summarise(PLAN, results.trials, {})
    assert '"ecdf-' in render_html(summary, results.trials, results)
    file = results.path / results.trials[0].samples_file
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ResultsError, match=f"{file.name} is damaged"):
        render_html(summary, results.trials, results)


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


def test_curves_and_densities_have_the_points_asked_for_and_count_everything() -> None:
    histogram = LogHistogram()
    histogram.add(np.random.default_rng(1).exponential(1e-5, 200_000))
    curve = histogram.curve(240)
    assert curve.values_s.size <= 242
    assert np.all(np.diff(curve.values_s) >= 0)
    histogram = LogHistogram()
    histogram.add(np.array([0.0, -1e-6, 1e9, np.nan, 1e-5]))
    assert histogram.n == 4
    assert histogram.curve().values_s[0] == -1e-6
    histogram.add(np.array([]))
    assert histogram.launches == 1
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
    latency = [("latency:8", "max_s"), ("latency:8", "mean_s")]
    keys = [*latency, ("spacing:8@10", "send_gap_s"), ("spacing:8@10", "receive_gap_s")]
    assert columns_of("latency:8", keys) == ("latency:8", ("max_s", "mean_s"))
    assert columns_of("spacing:8@10.receive", keys) == ("spacing:8@10", ("receive_gap_s",))
    assert columns_of("wall", keys)[1] == ()
    assert main_column(["mean_s", "max_s"]) == "max_s"
    assert gap_columns(["send_gap_s", "max_s", "receive_gap_s"]) == ("receive_gap_s", "send_gap_s")
