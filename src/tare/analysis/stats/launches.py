"""Statistics of one launch, and launches paired by blocks and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, lt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import FloatArray, Moments, moments_of, positive, vector

LEAST_IN_A_TURN: Final = 20
"""Operations of a turn below which nothing is said of its mean or modes: the typical one has none of their tail."""
LEAST_FOR_TAIL: Final = 100
"""Iterations of a turn below which its 99th percentile is its maximum."""
Block = tuple[int, int]
"""(round, block) of a trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStatistics:
    """Mean, median and 99th percentile of one launch in seconds over `n` iterations."""

    mean_s: float
    median_s: float
    p99_s: float
    n: int


def launch_statistics(samples_max: ArrayLike) -> LaunchStatistics:
    """Return the statistics of one launch (METHOD.md section 1, rule 2).

    `samples_max`: shape (iterations,), seconds, the maximum over ranks of each iteration after warm-up. Percentiles are
    interpolated linearly. Raises ValueError if there are no samples or one is not finite.
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
    statistics = launch_statistics(gaps_s)
    return statistics.p99_s - statistics.median_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLogs:
    """Logarithms of what the iterations of a launch took in each of its turns; arrays of shape (turns,).

    `spreads` are of the 99th percentile less the median; None if it is zero in a turn. `means` and `spreads` are None
    if a turn has too few iterations.
    """

    medians: FloatArray
    means: FloatArray | None
    spreads: FloatArray | None


def shares_of_turns(samples: FloatArray, turns: int) -> list[FloatArray]:
    """Return the iterations of each turn, as the kernels divide them; `samples` has shape (iterations,)."""
    return np.split(samples, [samples.size * turn // turns for turn in range(1, turns)])


def turn_logs(samples: ArrayLike, turns: int, *, operations: float = 1.0) -> TurnLogs | None:
    """Return the logarithms of a launch's turns; None if one has no iteration, or an iteration is not above zero.

    `samples`: shape (iterations,), seconds, in order; `operations` are those in an iteration, as the messages of a
    window. Raises ValueError if a sample is not finite.
    """
    values = vector(samples)
    shares = shares_of_turns(values, turns)
    least = min(share.size for share in shares)
    if least == 0 or values.min() <= 0:
        return None
    medians, p99s = np.array([np.percentile(share, (50, 99)) for share in shares]).T
    spreads = p99s - medians
    return TurnLogs(
        medians=np.log(medians),
        means=np.log([share.mean() for share in shares]) if least * operations >= LEAST_IN_A_TURN else None,
        spreads=np.log(spreads) if least >= LEAST_FOR_TAIL and spreads.min() > 0 else None,
    )


def typical_turns(logs: ArrayLike) -> FloatArray:
    """Return the typical logarithm of each of several launches that took turns: shape (launches,).

    `logs`: shape (launches, turns), of what a part took in each turn. Of two launches the median over turns of their
    difference in the same pass counts: it has neither the bursts that only some turns saw, nor the drifts that both
    saw, and no bias, as bursts hit either. A launch has the mean of its differences from all launches, its own
    included, plus the mean of all launches' median turns. Raises ValueError for another shape.
    """
    values = np.asarray(logs, dtype=np.float64)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"expected shape (launches, turns), got {values.shape}")
    differences = np.median(values[:, None, :] - values[None, :, :], axis=2)
    typical: FloatArray = differences.mean(axis=1) + np.median(values, axis=1).mean()
    return typical


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPairs:
    """An environment paired with its baseline, one entry per round in which both exist; arrays of shape (n,).

    `log_ratios` has no unit, and `logs` are its moments; the others are in seconds.
    """

    rounds: tuple[int, ...]
    log_ratios: FloatArray
    logs: Moments
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

    A block counts only if both costs exist. Within a round the *log* ratios are averaged (a geometric mean, so that
    the effect of a block on both cancels exactly), and the costs arithmetically. All rounds have the same weight.
    Raises ValueError if a cost is not positive and finite.
    """
    common = sorted([(block, cost, baseline_s[block]) for block, cost in environment_s.items() if block in baseline_s])
    environment, baseline = positive([cost for side in (1, 2) for cost in map(itemgetter(side), common)]).reshape(2, -1)
    of_blocks = np.array((np.log(environment) - np.log(baseline), environment, baseline))
    rounds, (ratios, environment, baseline) = round_means([block[0] for block, _, _ in common], of_blocks)
    return RoundPairs(
        rounds=rounds,
        log_ratios=ratios,
        logs=moments_of(ratios, 1.0),
        environment_s=environment,
        baseline_s=baseline,
    )


def all_launches(
    environment_s: Mapping[Block, Sequence[float]], baseline_s: Mapping[Block, Sequence[float]]
) -> FloatArray:
    """Return one log ratio per round, shape (rounds,), over all launches with equal weight, including repeated ones.

    The arguments hold the costs of all launches by block. If a launch that was repeated because of the machine's state
    were left out, the cost of that state would be lost, and a mean per block would give a block's repeated launches
    less weight. So the mean log cost is over launches, on both sides, and the values are jackknife pseudo-values over
    rounds (Tukey, Ann. Math. Stat. 29, 1958), whose mean and spread give the interval of that ratio. With one launch
    per block they are the rounds' log ratios.
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
    """Average values of shape (..., blocks) over the blocks of each round.

    Return the rounds in ascending order, and the means of shape (..., rounds).
    """
    array = np.asarray(values, dtype=np.float64)
    if all(map(lt, rounds, rounds[1:])):
        return tuple(rounds), array  # one block a round, as a rule
    unique, index, counts = np.unique(np.asarray(rounds, dtype=np.int64), return_inverse=True, return_counts=True)
    sums = np.zeros((*array.shape[:-1], unique.size))
    np.add.at(sums.T, index, array.T)
    return tuple(int(number) for number in unique), sums / counts
