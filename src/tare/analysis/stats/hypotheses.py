"""Hypothesis tests: paired t, equivalence, Holm, the limit, and tests for the report's remarks."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import ROUNDING, Moments, log_moments, moments_of, upper_tail, vector
from tare.analysis.stats.intervals import log_interval

MIN_ROUNDS: Final = 6
"""Rounds below which no verdict is given."""
MODALITY_ROUNDS: Final = 20
"""Rounds below which no dip test is made."""
DIP_LARGEST: Final = 72_000
"""The largest sample of diptest's table of critical values; of larger ones every second, third, ... value is taken."""


def paired_p(d: ArrayLike | Moments) -> float | None:
    """Return the two-sided p of the paired t test of "no difference"; None for fewer than two rounds.

    Without spread, p is 1 if the mean is zero and otherwise 0.
    """
    mean, error, n = log_moments(d)
    if n < 2:
        return None
    return min(1.0, 2.0 * upper_tail(abs(mean), error, n))


def equivalent(d: ArrayLike | Moments, margin: float, confidence: float = 0.90) -> bool:
    """Tell whether the 90 % interval lies inside +-ln(1 + margin): two one-sided tests at 5 % (Schuirmann 1987)."""
    logs = log_interval(d, confidence)
    bound = math.log1p(margin) if margin > 0 else 0.0
    return logs is not None and -bound < logs.low and logs.high < bound


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's step-down adjusted p values, in the order given (Holm 1979)."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return tuple(adjusted)


def holm_confidences(p_values: Sequence[float], confidence: float) -> tuple[float, ...]:
    """Return the confidence at which each comparison's interval makes the same decision as Holm's test.

    The comparison of rank k (smallest p first) of m has 1 - alpha/(m - k + 1); from the first that is not rejected,
    all have that one's level, so their intervals cover zero. The probability that any interval in the table wrongly
    excludes zero is <= alpha. Simultaneous coverage of all true values is not guaranteed: Bonferroni intervals have it,
    but they disagree with Holm's decisions.
    """
    alpha = 1.0 - confidence
    levels = [confidence] * len(p_values)
    stopped: float | None = None
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        step = alpha / (len(p_values) - rank)
        if stopped is None and p_values[index] > step:
            stopped = step
        levels[index] = 1.0 - (step if stopped is None else stopped)
    return tuple(levels)


def over_limit(series: Sequence[ArrayLike | Moments], limit: float, confidence: float) -> tuple[bool, ...]:
    """Tell for each comparison whether its overhead is above `limit` (a fraction), which leads to exit code 1.

    `series`: one `d` per comparison of the table. If there is one: its interval's lower bound is above the limit (and
    there are at least MIN_ROUNDS rounds). If there are more, the one-sided tests of "not above the limit" are adjusted
    by Holm, so that the probability of any wrong decision is <= (1 - confidence)/2.
    """
    p_values = [not_above_p(d, math.log1p(limit)) for d in series]
    return tuple(p <= (1.0 - confidence) / 2.0 for p in holm(p_values))


def dip_p_value(d: ArrayLike) -> float | None:
    """Return the p of Hartigan's dip test of unimodality; None below MODALITY_ROUNDS rounds or without `diptest`."""
    values = vector(d)
    if values.size < MODALITY_ROUNDS:
        return None
    if moments_of(values, 1.0).error == 0.0:
        return 1.0
    try:
        import diptest  # GPL, therefore optional
    except ImportError:
        return None
    return float(diptest.diptest(values[:: -(-len(values) // DIP_LARGEST)])[1])


def normality_p(d: ArrayLike) -> float | None:
    """Return the p of Shapiro & Wilk's test of normality; None below three rounds or without spread."""
    values = vector(d)
    if not 3 <= values.size <= 5000 or moments_of(values, 1.0).error == 0.0:
        return None
    shapiro = inspect.unwrap(scipy.stats.shapiro)  # the wrapper handles axes and NaN, in 20 times as long
    return float(shapiro(values).pvalue)


def signed_rank_p(d: ArrayLike) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test; None if all differences are zero."""
    values = vector(d)
    values = values[np.abs(values) > ROUNDING]
    if values.size == 0:
        return None
    distinct = np.unique(np.abs(values)).size == values.size
    method: Literal["exact", "approx"] = "exact" if values.size <= 50 and distinct else "approx"
    return min(1.0, float(scipy.stats.wilcoxon(values, method=method).pvalue))


def not_above_p(d: ArrayLike | Moments, bound: float, *, least: int = MIN_ROUNDS) -> float:
    """Return the one-sided p of the t test of "mean d <= bound" (a logarithm); 1 below `least` values.

    Times have long tails, so fewer than MIN_ROUNDS of them decide nothing. Numbers that hardly vary may do with fewer.
    """
    mean, error, n = log_moments(d)
    return 1.0 if n < least else upper_tail(mean - bound, error, n)


def not_below_p(d: ArrayLike | Moments, bound: float, *, least: int = MIN_ROUNDS) -> float:
    """Return the one-sided p of the t test of "mean d >= bound"; see `not_above_p`."""
    mean, error, n = log_moments(d)
    return 1.0 if n < least else upper_tail(bound - mean, error, n)
