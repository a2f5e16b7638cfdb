"""Estimate a standard deviation so that a t interval over its parts is valid without normal values.

The chi-square and F tests of variances err with heavy tails; the jackknife of the logarithm of the variance does not
(Miller, Ann. Math. Stat. 39, 1968). Its parts are one a value, so that two series with values of the same rounds can be
compared by the differences of their parts, which keeps what the rounds share out of the comparison.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import ROUNDING, vector

FEWEST: Final = 3


def jackknifed_log_deviation(values: ArrayLike) -> tuple[float, ...]:
    """Return parts whose mean estimates the logarithm of the standard deviation, one a value.

    Empty for fewer than three values, or if the values without one of them have no spread.
    """
    series = vector(values)
    n = series.size
    if n < FEWEST:
        return ()
    centred = series - series.mean()
    squares = float(np.square(centred).sum())
    without = (squares - n / (n - 1) * np.square(centred)) / (n - 2)
    if float(without.min()) <= (ROUNDING * max(1.0, float(np.abs(series).max()))) ** 2:
        return ()
    parts = n * np.log(squares / (n - 1)) / 2 - (n - 1) * np.log(without) / 2
    return tuple(map(float, parts))
