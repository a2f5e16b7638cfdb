"""Medians of bootstrap resamples and of jackknife samples, without sorting each of them.

A resample is stored as how often it has each round. The running sum of these counts over the rounds, ordered by their
values, passes half of n at the resample's median. So one sort serves all resamples; the medians are the same to the
last bit as those of sorted resamples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.analysis.stats.arrays import FloatArray

BOOTSTRAP_RESAMPLES: Final = 2000
_TOGETHER: Final = 100
"""Resamples that are drawn together; all at once would take gigabytes for many rounds."""


def resampled_medians(values: FloatArray, seed: int) -> FloatArray:
    """Return the median of each bootstrap resample of values (n,), shape (BOOTSTRAP_RESAMPLES,).

    The resamples are the same for all values with equal n and seed.
    """
    n = values.size
    counts = _counts(n, seed)
    order = np.argsort(values)
    # A resample's median is the value of a rank near n / 2; its standard deviation is sqrt(n) / 2.
    reach = 4 * math.isqrt(n) + 4
    while (ranks := _middle_ranks(counts, order, reach)) is None:
        reach *= 4
    ordered = values[order]
    medians: FloatArray = (ordered[ranks[0]] + ordered[ranks[1]]) / 2.0
    return medians


def _middle_ranks(
    counts: NDArray[np.unsignedinteger], order: NDArray[np.intp], reach: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Return the ranks of each resample's two middle values; None if one is further than `reach` from n / 2."""
    n = order.size
    first, last = max(0, n // 2 - reach), min(n, n // 2 + reach)
    count = np.min_scalar_type(n)
    sums = counts.take(order[first:last], axis=0).astype(count, copy=False)
    if first:
        sums[0] += np.add.reduce(counts.take(order[:first], axis=0), axis=0, dtype=count)
    for before, after in pairwise(sums):  # `np.add.accumulate` takes ten times as long along this axis
        np.add(after, before, out=after)
    low, high = (
        np.add.reduce((sums <= middle).view(np.uint8), axis=0, dtype=count).astype(np.intp)
        for middle in ((n - 1) // 2, n // 2)
    )
    if (first > 0 and not low.all()) or (last < n and (high == last - first).any()):
        return None
    return low + first, high + first


@lru_cache(maxsize=8)
def _counts(n: int, seed: int) -> NDArray[np.unsignedinteger]:
    """Return how often each resample has each of n rounds, shape (n, BOOTSTRAP_RESAMPLES)."""
    generator = np.random.default_rng([seed, n])
    counts = np.empty((n, BOOTSTRAP_RESAMPLES), dtype=np.uint16)
    for first in range(0, BOOTSTRAP_RESAMPLES, _TOGETHER):
        drawn = generator.integers(0, n, size=(_TOGETHER, n), dtype=np.intp)
        drawn += n * np.arange(_TOGETHER)[:, None]
        of_resample = np.bincount(drawn.ravel(), minlength=_TOGETHER * n).reshape(_TOGETHER, n)
        counts[:, first : first + _TOGETHER] = np.minimum(of_resample, np.iinfo(np.uint16).max).T
    return counts if counts.max() > np.iinfo(np.uint8).max else counts.astype(np.uint8)


def leave_one_out_medians(values: FloatArray) -> FloatArray:
    """Return the median of all values (n,) but one, shape (n,)."""
    n = values.size
    order = np.argsort(values)
    ranks = np.empty(n, dtype=np.intp)
    ranks[order] = np.arange(n)
    ordered = values[order]
    low, high = (ordered[middle + (ranks <= middle)] for middle in ((n - 2) // 2, (n - 1) // 2))
    medians: FloatArray = (low + high) / 2.0
    return medians


def median(values: FloatArray) -> float:
    """Return the median of values (n,) as `np.median` does, whose checks take ten times as long."""
    ordered = np.sort(values)
    return (float(ordered[(values.size - 1) // 2]) + float(ordered[values.size // 2])) / 2.0


def quantiles(values: FloatArray, levels: Sequence[float]) -> list[float]:
    """Return quantiles of values as `np.quantile` does, whose checks take ten times as long."""
    last = values.size - 1
    places = [last * level for level in levels]
    ends = [(min(math.floor(place), last), min(math.floor(place) + 1, last)) for place in places]
    ordered = np.partition(values, sorted({end for both in ends for end in both}))
    result = []
    for place, (first, second) in zip(places, ends, strict=True):
        low, high = float(ordered[first]), float(ordered[second])
        part = place - first
        result.append(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
    return result
