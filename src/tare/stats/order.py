"""What the order of observations shows: dependence of neighbours, a slow start, a trend. Pure functions.

Sources: Box & Jenkins, Time Series Analysis, section 2.1 (autocorrelation, Bartlett's bound); Mann, Econometrica 13
(1945) and Kendall, Rank Correlation Methods (the trend test); Sen, JASA 63 (1968) (the slope).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from tare.stats.arrays import FloatArray, vector

MOST_FOR_TREND: Final = 400
"""More observations than this are thinned evenly for a trend, whose cost grows with their square."""
TENTHS: Final = 10


def lag1(samples: ArrayLike) -> float:
    """Return the autocorrelation at lag 1 of the ranks of samples (n,), corrected for its bias of about -1 / n.

    Ranks, so that one slow iteration does not hide the rest. 0 if all samples are equal or n < 3.
    """
    values = vector(samples)
    n = values.size
    if n < 3:
        return 0.0
    ranks = np.empty(n)
    ranks[np.argsort(values, kind="stable")] = np.arange(n)
    if values.size != np.unique(values).size:  # equal samples have equal ranks
        _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts + 1) / 2)[index]
    centred = ranks - ranks.mean()
    power = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / power + 1.0 / n if power > 0 else 0.0


def lag1_bound(n: int) -> float:
    """Return the bound that |lag1| of n independent samples exceeds in 5 % of launches (Bartlett)."""
    return 1.96 / math.sqrt(n)


def profile(samples: ArrayLike) -> FloatArray:
    """Return the median of each tenth of samples, in order, as ln of its ratio to the median of the last nine: (10,).

    Raises ValueError for fewer than ten samples, or if one of the medians is not positive.
    """
    values = vector(samples)
    if values.size < TENTHS:
        raise ValueError(f"{values.size} samples have no tenths")
    ends = np.linspace(0, values.size, TENTHS + 1).astype(np.int64)
    medians = np.array([np.median(values[first:last]) for first, last in pairwise(ends)])
    rest = float(np.median(values[ends[1] :]))
    if rest <= 0 or (medians <= 0).any():
        raise ValueError("a median is not positive")
    logs: FloatArray = np.log(medians / rest)
    return logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A monotonic trend of n observations: Sen's change from the first to the last, and Mann and Kendall's p."""

    change: float
    p_value: float
    n: int


def trend(values: ArrayLike) -> Trend:
    """Return the trend of observations (n,) in their order; a p of 1 for fewer than four."""
    every = vector(values)
    if every.size < 4:
        return Trend(change=0.0, p_value=1.0, n=every.size)
    at = np.arange(every.size, dtype=np.float64)
    if every.size > MOST_FOR_TREND:
        kept = np.linspace(0, every.size - 1, MOST_FOR_TREND).astype(np.int64)
        at, every = at[kept], every[kept]
    n = every.size
    first, second = np.triu_indices(n, 1)
    differences = every[second] - every[first]
    s = float(np.sign(differences).sum())
    counts = np.unique(every, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float((counts * (counts - 1) * (2 * counts + 5)).sum())) / 18.0
    z = (abs(s) - 1) / math.sqrt(variance) if variance > 0 and s else 0.0
    slope = float(np.median(differences / (at[second] - at[first])))
    return Trend(change=slope * float(at[-1] - at[0]), p_value=float(2 * scipy.special.ndtr(-max(z, 0.0))), n=n)
