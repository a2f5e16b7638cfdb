"""Split launches into modes, from all environments of a column together.

Ten rounds of one environment are too few to show modes; the residuals of all environments suffice. The test is
Hartigan's dip (Ann. Stat. 13, 1985). If it rejects unimodality, the split minimises the variance within the parts
(Otsu, IEEE Trans. SMC 9, 1979).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tare.stats.arrays import vector


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
