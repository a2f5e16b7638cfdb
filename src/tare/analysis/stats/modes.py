"""Split launches into modes, from all environments of a column together.

Ten rounds of one environment are too few to show modes; the residuals of all environments suffice. The test is
Hartigan's dip (Ann. Stat. 13, 1985). If it rejects unimodality, the split minimises the variance within the parts
(Otsu, IEEE Trans. SMC 9, 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tare.analysis.stats.arrays import vector

MIN_KNOWN: Final = 0.9
"""Part of the launches that must have a covariate's value."""


def split_modes(values: ArrayLike) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the centres (medians) of the lower and the upper part of the values, and their shares."""
    ordered = np.sort(vector(values))
    n = ordered.size
    if n < 2:
        raise ValueError("modes need at least two values")
    sums = np.cumsum(ordered)[:-1]
    count = np.arange(1, n)
    between = count * (n - count) * (sums / count - (ordered.sum() - sums) / (n - count)) ** 2
    cut = int(np.argmax(between)) + 1
    share = cut / n
    return (float(np.median(ordered[:cut])), float(np.median(ordered[cut:]))), (share, 1.0 - share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """How well a covariate separates two groups: the part of pairs that it orders alike (0.5 to 1), with its p."""

    part: float
    p_value: float


def separation(values: ArrayLike, lower: NDArray[np.bool_]) -> Separation:
    """Return how well values (n,) separate the launches in `lower` (n,) from the others (Mann & Whitney 1947).

    Launches whose value is NaN are left out; the p is two-sided, from the normal approximation with ties.
    """
    every = np.asarray(values, dtype=np.float64)
    known = np.isfinite(every)
    if known.sum() < MIN_KNOWN * every.size:
        return Separation(part=0.5, p_value=1.0)
    every, first = every[known], lower[known]
    n, m = int(first.sum()), int((~first).sum())
    _, index, counts = np.unique(every, return_inverse=True, return_counts=True)
    if n == 0 or m == 0 or counts.size < 2:
        return Separation(part=0.5, p_value=1.0)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[index]
    above = (float(ranks[first].sum()) - n * (n + 1) / 2) / (n * m)
    total = n + m
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (total * (total - 1))
    deviation = math.sqrt(n * m * (total + 1 - ties) / 12) / (n * m)
    return Separation(part=max(above, 1 - above), p_value=2 * float(scipy.special.ndtr(-abs(above - 0.5) / deviation)))
