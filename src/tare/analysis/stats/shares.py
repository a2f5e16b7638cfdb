"""How much of a cost one factor explains: the ratio of two paired means, with Fieller's interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import t_quantile, vector
from tare.model import Estimate


def share_of_cost(explained: ArrayLike, cost: ArrayLike, confidence: float = 0.95) -> Estimate | None:
    """Return mean(explained) / mean(cost) with its interval (Fieller, J. R. Stat. Soc. B 16, 1954).

    Both have shape (rounds,): log ratios of the same rounds, `cost` of a cell to its baseline, `explained` what
    of it goes away with one factor. 1 means that the factor explains all of the cost. Fieller's interval takes into
    account that both means are uncertain and share rounds. None for fewer than two rounds, or if the cost itself does
    not differ from zero at this confidence: then any share is possible. Raises ValueError if the shapes differ.
    """
    x, y = vector(explained), vector(cost)
    if x.shape != y.shape:
        raise ValueError(f"{x.size} explained costs cannot be paired with {y.size}")
    n = x.size
    if n < 2:
        return None
    t2 = t_quantile(n, confidence) ** 2 / n
    deviations = x - x.mean(), y - y.mean()
    var_x, var_y = (float(np.dot(each, each)) / (n - 1) for each in deviations)
    covariance = float(np.dot(*deviations)) / (n - 1)
    mean_x, mean_y = float(x.mean()), float(y.mean())
    a = mean_y**2 - t2 * var_y
    if a <= 0 or mean_y == 0:
        return None
    b = mean_x * mean_y - t2 * covariance
    c = mean_x**2 - t2 * var_x
    half = math.sqrt(max(0.0, b * b - a * c)) / a
    value = mean_x / mean_y
    return Estimate(value=value, low=min(value, b / a - half), high=max(value, b / a + half), n=n)
