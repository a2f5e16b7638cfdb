"""Compare two results whose rounds cannot be paired, because they are of other days or machines."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import Moments, log_moments
from tare.analysis.stats.hypotheses import MIN_ROUNDS


def two_sample(first: ArrayLike | Moments, second: ArrayLike | Moments) -> Moments:
    """Return mean(second) - mean(first) as moments for the t functions of this package (Welch's t test).

    Both are logs with one value per round, shapes (n1,) and (n2,): of costs, so that exp(mean) is the ratio of typical
    costs; or log ratios to a baseline, so that exp(mean) is the ratio of overheads (a difference in differences). The
    error is sqrt(s1^2/n1 + s2^2/n2) (Welch, Biometrika 34, 1947). `n` is the degrees of freedom plus one, with

        df = (v1 + v2)^2 / (v1^2 / (n1 - 1) + v2^2 / (n2 - 1)),  v = s^2 / n    (Satterthwaite, Biometrics 2, 1946),

    rounded down, which makes intervals a little wider. df is at least that of the smaller sample, which is used if one
    has fewer than MIN_ROUNDS rounds, so that `verdict` gives none then. The interval covers the rounds of these two
    results: a difference between days or boots that has no name belongs to the difference. n < 2 (no interval) if one
    sample has fewer than two values. Raises ValueError for values that are not finite.
    """
    one, other = log_moments(first), log_moments(second)
    mean = other.mean - one.mean
    fewest = min(one.n, other.n)
    variances = (one.error**2, other.error**2)
    error = math.sqrt(sum(variances))
    if fewest < MIN_ROUNDS or error == 0.0:
        return Moments(mean, error, fewest)
    shares = [variance / sum(variances) for variance in variances]
    inverse = sum(share**2 / (n - 1) for share, n in zip(shares, (one.n, other.n), strict=True))
    return Moments(mean, error, max(fewest, math.floor(1.0 / inverse) + 1))
