"""The stopping rule, and the verdict on one comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import scipy
from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import FloatArray, Moments, log_moments, t_quantile
from tare.analysis.stats.hypotheses import MIN_ROUNDS, equivalent
from tare.analysis.stats.intervals import log_interval
from tare.model import Estimate, Verdict

LADDER: Final = (0.05, 0.10)
"""Margins that are tested after the study's margin."""
MAX_ROUNDS_NEEDED: Final = 100_000
"""Upper limit of `rounds_needed`."""


def rounds_needed(d: ArrayLike | Moments, target: float, confidence: float = 0.95) -> int | None:
    """Estimate from the spread so far how many rounds reduce the half-width of the log interval to `target`.

    Smallest n >= 2 with t(n-1) s / sqrt(n) <= target; at most MAX_ROUNDS_NEEDED. None if the spread is unknown (n < 2)
    or the target is not positive.
    """
    _, error, n = log_moments(d)
    if n < 2 or target <= 0:
        return None
    deviation = error * math.sqrt(n)
    normal = float(scipy.special.ndtri(0.5 + confidence / 2.0)) * deviation / target
    if normal**2 >= MAX_ROUNDS_NEEDED:
        return MAX_ROUNDS_NEEDED
    needed = max(2, math.ceil(normal**2))
    while t_quantile(needed, confidence) * deviation > target * math.sqrt(needed):
        needed += 1
    return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, its reason, and an estimate of the rounds still needed (None if decided or unknown).

    `within` is the margin of the ladder for which NO_COST was shown.
    """

    verdict: Verdict
    reason: str = ""
    more_rounds: int | None = None
    within: float | None = None


def ladder(margin: float) -> tuple[float, ...]:
    """Return the margins of "no cost", ascending: the study's margin, then the larger ones of the ladder."""
    return (margin, *(step for step in LADDER if step > margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Other log ratios of the same comparison for which a verdict must hold as well, each of shape (rounds,).

    `equal` is for NO_COST, `above` for COSTS, `below` for GAINS. A verdict that must hold in every view is wrong no
    more often than in any one of them.
    """

    equal: tuple[FloatArray, ...] = ()
    above: tuple[FloatArray, ...] = ()
    below: tuple[FloatArray, ...] = ()


def verdict(
    d: ArrayLike | Moments,
    *,
    margin: float,
    confidence: float = 0.95,
    adjusted: float | None = None,
    equivalence: float = 0.90,
    views: Views = Views(),
    floor: Estimate | None = None,
) -> Judgement:
    """Judge one comparison (METHOD.md section 1, rules 5 and 11).

    The result is the first of these that holds, also in `views`:

    1. fewer than MIN_ROUNDS rounds: INCONCLUSIVE, whatever the figures;
    2. the interval at confidence `equivalence` (90 %) inside +-ln(1 + margin): NO_COST within the margin, even if a
       small cost is significant (then stated in the reason). Not adjusted for the table: "no cost anywhere" needs
       each of its tests to pass, which cannot raise the error (intersection-union);
    3. the interval at confidence `adjusted` (from `holm_confidences`; default: `confidence`) above zero: COSTS;
    4. the same below zero: GAINS;
    5. the interval of 2 inside a larger margin of the ladder: NO_COST within that. The tests are nested, so that the
       smallest margin that holds has the error of one test;
    6. INCONCLUSIVE, with the number of rounds after which 3 or 5 would hold if mean and spread stay the same.

    `floor` is the interval of A/A, as fractions. COSTS and GAINS need an interval (at `confidence`) that does not
    overlap it; NO_COST within a margin needs an A/A interval that reaches into the margin.
    """
    logs = log_moments(d)
    level = confidence if adjusted is None else adjusted
    steps = ladder(margin)
    alone, table = log_interval(logs, confidence), log_interval(logs, level)
    more = _rounds_to_decide(logs, steps[-1], level, equivalence)
    if alone is None or table is None or logs.n < MIN_ROUNDS:
        reason = f"a verdict needs at least {MIN_ROUNDS} rounds, {logs.n} so far"
        missing = max(MIN_ROUNDS - logs.n, more or 0)
        return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=missing)
    low, high = (-math.inf, math.inf) if floor is None else (floor.low, floor.high)
    margins = [step for step in steps if low < step and high > -step]
    same: tuple[FloatArray | Moments, ...] = (logs, *views.equal)
    above: tuple[FloatArray | Moments, ...] = (logs, *views.above)
    below: tuple[FloatArray | Moments, ...] = (logs, *views.below)
    within = next((step for step in margins if all(equivalent(view, step, equivalence) for view in same)), None)
    costs = all(_bounds(view, level)[0] > 0 for view in above)
    gains = all(_bounds(view, level)[1] < 0 for view in below)
    overlaps = floor is not None and _log1p(low) <= alone.high and alone.low <= _log1p(high)
    if within == margin:
        reason = f"a significant {'cost' if costs else 'gain'}, but within the margin" if costs or gains else ""
        return Judgement(verdict=Verdict.NO_COST, reason=reason, within=within)
    if (costs or gains) and not overlaps:
        return Judgement(verdict=Verdict.COSTS if costs else Verdict.GAINS)
    if within is not None:
        return Judgement(verdict=Verdict.NO_COST, within=within)
    overlap = "its interval overlaps the noise floor (A/A)"
    reason = overlap if costs or gains else _inconclusive_reason(alone, table, steps[-1])
    return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=more)


def _log1p(fraction: float) -> float:
    """Return ln(1 + fraction), also for bounds that are infinite or that rounding made -1."""
    return math.log1p(fraction) if fraction > -1.0 else -math.inf


def _inconclusive_reason(alone: Estimate, table: Estimate, largest: float) -> str:
    """Return why an interval decides nothing."""
    if table.low > 0 or table.high < 0:
        return "it does not hold for all launches"
    if alone.low > 0 or alone.high < 0:
        return f"{'above' if alone.low > 0 else 'below'} zero alone, but not after adjustment for the table (Holm)"
    return f"the interval includes zero and extends beyond {100 * largest:.2g} %"


def _bounds(d: FloatArray | Moments, confidence: float) -> tuple[float, float]:
    """Return the bounds of the log interval; infinite below MIN_ROUNDS rounds."""
    moments = log_moments(d)
    logs = log_interval(moments, confidence) if moments.n >= MIN_ROUNDS else None
    return (-math.inf, math.inf) if logs is None else (logs.low, logs.high)


def _rounds_to_decide(logs: Moments, margin: float, confidence: float, equivalence: float) -> int | None:
    """Return how many more rounds make `d` equivalent or different, whichever needs fewer; at least 1."""
    mean, _, n = logs
    if n < 2:
        return None
    room = math.log1p(margin) - abs(mean) if margin > 0 else 0.0
    options = (rounds_needed(logs, room, equivalence), rounds_needed(logs, abs(mean), confidence))
    needed = min((option for option in options if option is not None), default=None)
    return None if needed is None else max(1, needed - n)
