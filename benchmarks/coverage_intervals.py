"""Measure coverage and false alarms at a fixed number of rounds, and those of methods that tare does not use."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from simulation import BASE_S, CONFIDENCE, FloatArray, Rate, Scenario, rate, round_ratios, simulate

from tare.analysis import stats


def overhead_coverage(scenario: Scenario, repetitions: int, seed: int = 1) -> Rate:
    """Return how often the paired t interval of the overhead holds the truth."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.paired_t(round_ratios(environment, baseline), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= math.expm1(scenario.truth) <= estimate.high)
    return rate(hits)


def added_coverage(scenario: Scenario, repetitions: int, seed: int = 2) -> Rate:
    """Return how often the interval of the added seconds holds E[environment] - E[baseline]."""
    rng = np.random.default_rng(seed)
    variance = sum(sd**2 for sd in (scenario.round_sd, scenario.interaction_sd, scenario.block_sd, scenario.launch_sd))
    truth = BASE_S * math.exp(variance / 2) * (1.0 + 0.3 * scenario.slow) * math.expm1(scenario.truth)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.paired_difference(environment.mean(axis=1), baseline.mean(axis=1), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= truth <= estimate.high)
    return rate(hits)


def median_coverage(scenario: Scenario, repetitions: int, seed: int = 3) -> Rate:
    """Return how often the BCa interval of the ratio of medians holds the truth."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.bca_ratio_of_medians(environment.mean(axis=1), baseline.mean(axis=1), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= math.exp(scenario.truth) <= estimate.high)
    return rate(hits)


def self_called_different(scenario: Scenario, repetitions: int, seed: int = 4) -> Rate:
    """Return how often A/A, alone, has an interval that leaves out zero."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, again = simulate(rng, scenario, [0.0])
        estimate = stats.paired_t(round_ratios(again, baseline), CONFIDENCE)
        hits.append(estimate is None or not estimate.low <= 0 <= estimate.high)
    return rate(hits)


def table_called_different(
    scenario: Scenario, environments: int, repetitions: int, *, adjusted: bool = True, seed: int = 5
) -> Rate:
    """Return how often any of several environments equal to their common baseline is called different."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, *others = simulate(rng, scenario, [0.0] * environments)
        hits.append(any_different([round_ratios(other, baseline) for other in others], adjusted=adjusted))
    return rate(hits)


def any_different(series: Sequence[FloatArray], *, adjusted: bool, confidence: float = CONFIDENCE) -> bool:
    """Tell whether any of several series of log ratios is called different."""
    p_values = [p for d in series if (p := stats.paired_p(d)) is not None]
    levels = stats.holm_confidences(p_values, confidence) if adjusted else [confidence] * len(series)
    estimates = [stats.paired_t(d, level) for d, level in zip(series, levels, strict=True)]
    return any(item is None or not item.low <= 0 <= item.high for item in estimates)


def pooled_blocks_coverage(scenario: Scenario, repetitions: int, seed: int = 8) -> Rate:
    """Return the coverage of an interval that takes every block for independent."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        baseline, environment = simulate(rng, scenario, [scenario.truth])
        estimate = stats.paired_t(stats.log_ratios(environment.ravel(), baseline.ravel()), CONFIDENCE)
        hits.append(estimate is not None and estimate.low <= math.expm1(scenario.truth) <= estimate.high)
    return rate(hits)


def pooled_iterations_called_different(repetitions: int, *, iterations: int = 200, seed: int = 9) -> Rate:
    """Return how often A/A is called different if the iterations of 10 launches are pooled (Welch's z)."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        launches = rng.normal(0.0, 0.03, (2, 10, 1))
        first, second = (launches + rng.normal(0.0, 0.05, (2, 10, iterations))).reshape(2, -1)
        error = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / first.size)
        hits.append(abs(float(first.mean() - second.mean())) > 1.96 * error)
    return rate(hits)


def stop_on_p_called_different(repetitions: int, seed: int = 10) -> Rate:
    """Return how often A/A is called different if one looks after every round from 6 to 40 and stops on p < .05."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(repetitions):
        d = rng.normal(0.0, 0.03, 40)
        hits.append(any((stats.paired_p(d[:n]) or 1.0) < 0.05 for n in range(6, 41)))
    return rate(hits)
