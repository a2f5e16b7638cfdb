"""What one launch says, and launches paired by blocks and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tare.stats.arrays import FloatArray, positive, vector

Block = tuple[int, int]
"""(round, block) of a trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStatistics:
    """What one launch says: mean, median and 99th percentile in seconds over `n` iterations."""

    mean_s: float
    median_s: float
    p99_s: float
    n: int


def launch_statistics(samples_max: ArrayLike) -> LaunchStatistics:
    """Summarise one launch (METHOD.md section 1, rule 2).

    `samples_max`: shape (iterations,), seconds, the maximum over ranks of each iteration after warm-up. Percentiles
    interpolate linearly. Raises ValueError if there is no sample or one is not finite.
    """
    samples = vector(samples_max)
    if samples.size == 0:
        raise ValueError("a launch without samples has no statistics")
    median, p99 = np.percentile(samples, (50, 99))
    return LaunchStatistics(mean_s=float(samples.mean()), median_s=float(median), p99_s=float(p99), n=samples.size)


def p99_minus_median(gaps_s: ArrayLike) -> float:
    """Return the spread of arrival gaps, 99th percentile - median, in seconds (the spacing metric).

    `gaps_s`: shape (gaps,), seconds. Raises ValueError as `launch_statistics` does.
    """
    figures = launch_statistics(gaps_s)
    return figures.p99_s - figures.median_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPairs:
    """An environment against its baseline, one entry a round in which both exist; arrays of shape (n,).

    `log_ratios` has no unit, the others are seconds.
    """

    rounds: tuple[int, ...]
    log_ratios: FloatArray
    differences_s: FloatArray
    environment_s: FloatArray
    baseline_s: FloatArray


def log_ratios(environment_s: ArrayLike, baseline_s: ArrayLike) -> FloatArray:
    """Return ln(environment / baseline) elementwise, shape (n,).

    Raises ValueError if shapes differ or a cost is not positive and finite.
    """
    environment, baseline = positive(environment_s), positive(baseline_s)
    if environment.shape != baseline.shape:
        raise ValueError(f"{environment.size} costs cannot be paired with {baseline.size}")
    ratios: FloatArray = np.log(environment) - np.log(baseline)
    return ratios


def pair_rounds(environment_s: Mapping[Block, float], baseline_s: Mapping[Block, float]) -> RoundPairs:
    """Pair costs block by block, then average over the blocks of each round.

    A block counts only where both costs exist. Within a round the *log* ratios are averaged (a geometric mean, so
    that what a block does to both cancels exactly), and the differences and the costs arithmetically. Every round
    weighs the same. Raises ValueError if a cost is not positive and finite.
    """
    common = sorted(environment_s.keys() & baseline_s.keys())
    environment = positive([environment_s[block] for block in common])
    baseline = positive([baseline_s[block] for block in common])
    of_round = [block[0] for block in common]
    rounds, ratios = round_means(of_round, log_ratios(environment, baseline))
    return RoundPairs(
        rounds=rounds,
        log_ratios=ratios,
        differences_s=round_means(of_round, environment - baseline)[1],
        environment_s=round_means(of_round, environment)[1],
        baseline_s=round_means(of_round, baseline)[1],
    )


def all_launches(
    environment_s: Mapping[Block, Sequence[float]], baseline_s: Mapping[Block, Sequence[float]]
) -> FloatArray:
    """Return one log ratio a round, shape (rounds,), over all launches: repeated ones weigh like any other.

    Costs by block, of as many launches as there were. A launch that was repeated because of its state and then left
    out would take the state's cost with it, and a mean by block would count a block's repeated launches less: so the
    mean log cost is over launches, on both sides, and the values are jackknife pseudo-values over rounds (Tukey, Ann.
    Math. Stat. 29, 1958), whose mean and spread have the interval of that ratio. With a launch each they are the
    rounds' log ratios.
    """
    common = sorted(environment_s.keys() & baseline_s.keys())
    rounds, index = np.unique(np.asarray([block[0] for block in common], dtype=np.int64), return_inverse=True)
    sums, counts = np.zeros((2, rounds.size)), np.zeros((2, rounds.size))
    for side, costs in enumerate((environment_s, baseline_s)):
        np.add.at(sums[side], index, [float(np.log(positive(costs[block])).sum()) for block in common])
        np.add.at(counts[side], index, [len(costs[block]) for block in common])
    if rounds.size < 2:
        return np.zeros(0)
    whole, parts = sums.sum(axis=1), counts.sum(axis=1)
    estimate = whole[0] / parts[0] - whole[1] / parts[1]
    without = (whole[0] - sums[0]) / (parts[0] - counts[0]) - (whole[1] - sums[1]) / (parts[1] - counts[1])
    values: FloatArray = rounds.size * estimate - (rounds.size - 1) * without
    return values


def round_means(rounds: Sequence[int], values: ArrayLike) -> tuple[tuple[int, ...], FloatArray]:
    """Average values over the blocks of each round: (rounds ascending, their means of shape (n,))."""
    array = vector(values)
    unique, index, counts = np.unique(np.asarray(rounds, dtype=np.int64), return_inverse=True, return_counts=True)
    sums = np.zeros(unique.size)
    np.add.at(sums, index, array)
    return tuple(int(number) for number in unique), sums / counts
