"""What the order of observations shows: dependence of neighbours, a slow start, a trend. Pure functions.

Sources: Box & Jenkins, Time Series Analysis, section 2.1 (autocorrelation, Bartlett's bound); Mann, Econometrica 13
(1945) and Kendall, Rank Correlation Methods (the trend test); Sen, JASA 63 (1968) (the slope).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tare.analysis.stats.arrays import FloatArray, vector
from tare.analysis.stats.resampling import median

MOST_FOR_TREND: Final = 400
"""More observations than this are thinned evenly for a trend, whose cost grows with their square."""
TENTHS: Final = 10


def lag1_of_launches(samples: FloatArray) -> FloatArray:
    """Return the autocorrelation at lag 1 of the ranks of m launches with n samples, shape (m, n), as shape (m,).

    It is corrected for its bias of about -1 / n. Ranks, so that one slow iteration does not hide the rest. 0 if all
    samples are equal or n < 3.
    """
    m, n = samples.shape
    if n < 3:
        return np.zeros(m)
    centred = _ranks(samples) - (n - 1) / 2
    power = np.einsum("ij,ij->i", centred, centred)
    product = np.einsum("ij,ij->i", centred[:, 1:], centred[:, :-1])
    known = power > 0
    lags: FloatArray = np.where(known, product / np.where(known, power, 1.0) + 1.0 / n, 0.0)
    return lags


def _ranks(samples: FloatArray) -> FloatArray:
    """Return the ranks from 0 within each row, shape (m, n); equal samples have their mean rank."""
    m, n = samples.shape
    places = np.argsort(samples, axis=1)
    places += (np.arange(m) * n)[:, None]
    ordered = samples.ravel()[places]
    at = np.arange(n, dtype=np.float64)
    ranks = np.empty(m * n)
    equal = ordered[:, 1:] == ordered[:, :-1]
    if equal.any():
        starts, ends = np.ones((2, m, n), dtype=np.bool_)
        starts[:, 1:] = ends[:, :-1] = ~equal
        first = np.maximum.accumulate(np.where(starts, at, 0), axis=1)
        last = np.minimum.accumulate(np.where(ends, at, n - 1)[:, ::-1], axis=1)[:, ::-1]
        ranks[places] = (first + last) / 2
    else:
        ranks[places] = at
    return ranks.reshape(m, n)


def lag1_bound(n: int) -> float:
    """Return the bound that the |autocorrelation| of n independent samples exceeds in 5 % of launches (Bartlett)."""
    return 1.96 / math.sqrt(n)


def profile_of_launches(samples: FloatArray) -> FloatArray:
    """Return the median of each tenth of samples, in order, as ln of its ratio to the median of the last nine.

    `samples` are n >= 10 positive ones of each of m launches, shape (m, n); the result has shape (m, 10). The first
    samples are left out if ten does not divide their number.
    """
    m, n = samples.shape
    length = n // TENTHS
    tenths = samples[:, n - length * TENTHS :].reshape(m, TENTHS, length)
    medians = _medians(tenths)
    rest = _medians(tenths[:, 1:].reshape(m, -1))
    logs: FloatArray = np.log(medians / rest[:, None])
    return logs


def _medians(values: FloatArray) -> FloatArray:
    """Return medians along the last axis, as `np.median` does, whose checks take longer."""
    ordered = np.sort(values, axis=-1)
    n = values.shape[-1]
    medians: FloatArray = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2
    return medians


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
    first, second = _pairs(n)
    differences = every[second] - every[first]
    s = float(np.sign(differences).sum())
    variance = (n * (n - 1) * (2 * n + 5) - _ties(every)) / 18.0
    z = (abs(s) - 1) / math.sqrt(variance) if variance > 0 and s else 0.0
    slope = median(differences / (at[second] - at[first]))
    return Trend(change=slope * float(at[-1] - at[0]), p_value=float(2 * scipy.special.ndtr(-max(z, 0.0))), n=n)


def _ties(values: FloatArray) -> float:
    """Return what equal observations take from the variance of Kendall's score, times 18."""
    ordered = np.sort(values)
    if (ordered[1:] != ordered[:-1]).all():
        return 0.0
    counts = np.unique(values, return_counts=True)[1]
    return float((counts * (counts - 1) * (2 * counts + 5)).sum())


@lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of all pairs of n observations, the earlier one first."""
    first, second = np.triu_indices(n, 1)
    return first, second
