"""Basic functions on vectors: checks, mean and standard error, Student's t."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import scipy  # not `from scipy import ...`: submodules load on first use, which takes a quarter of a second
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

ROUNDING: Final = 1e-12
"""Relative differences below this are rounding errors and count as zero."""


def vector(values: ArrayLike) -> FloatArray:
    """Return the values as a finite array of shape (n,)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"expected shape (n,), got {array.shape}")
    if not (math.isfinite(np.add.reduce(array)) or np.isfinite(array).all()):  # a sum is quicker, and may overflow
        raise ValueError("a value is not finite")
    return array


def positive(values: ArrayLike) -> FloatArray:
    """Return the values as a positive, finite array of shape (n,)."""
    array = vector(values)
    if (array <= 0).any():
        raise ValueError("a cost or rate is not positive, so it has no ratio")
    return array


class Moments(NamedTuple):
    """All that an interval or a t test needs of some values: their mean, its standard error, and their number.

    The error is 0 if the spread is only rounding. Functions that take log ratios also take their moments, so that
    those of a comparison, of which there are ten intervals, are computed once.
    """

    mean: float
    error: float
    n: int


def log_moments(d: ArrayLike | Moments) -> Moments:
    """Return the moments of log ratios, whose rounding is relative to 1."""
    return d if isinstance(d, Moments) else moments_of(vector(d), 1.0)


def moments_of(values: FloatArray, scale: float) -> Moments:
    """Return the moments of values, which are zero for none; a spread below ROUNDING times `scale` is rounding."""
    n = values.size
    if n == 0:
        return Moments(0.0, 0.0, 0)
    mean = float(np.add.reduce(values)) / n  # as `values.mean()` does, without its checks
    if n == 1:
        return Moments(mean, 0.0, 1)
    centred = values - mean
    deviation = math.sqrt(float(centred @ centred) / (n - 1))
    if deviation <= ROUNDING * max(scale, abs(mean) + n * deviation):  # no value is larger; the largest takes longer
        rounding = ROUNDING * max(scale, float(np.maximum.reduce(np.abs(values))))
        if deviation <= rounding:
            return Moments(mean if abs(mean) > rounding else 0.0, 0.0, n)
    return Moments(mean, deviation / math.sqrt(n), n)


@lru_cache(maxsize=4096)
def t_quantile(n: int, confidence: float) -> float:
    """Return the two-sided quantile of Student's t for n values (n - 1 degrees of freedom)."""
    return float(scipy.special.stdtrit(n - 1, 0.5 + confidence / 2.0))


def upper_tail(distance: float, error: float, n: int) -> float:
    """Return P(T > distance / error); if the error is zero, 0, 1/2 or 1 by the sign of the distance."""
    if error > 0.0:
        return float(scipy.special.stdtr(n - 1, -distance / error))
    if abs(distance) <= ROUNDING:
        return 0.5
    return 0.0 if distance > 0 else 1.0
