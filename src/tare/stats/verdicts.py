"""When to stop, and what to say: the stopping rule and the verdict of one comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import scipy
from numpy.typing import ArrayLike

from tare.model import Estimate, Repetition, Verdict
from tare.stats.arrays import FloatArray, mean_and_error, t_quantile, vector
from tare.stats.hypotheses import MIN_ROUNDS, equivalent
from tare.stats.intervals import log_interval
from tare.stats.looks import is_look

LADDER: Final = (0.05, 0.10)
"""Margins that are tried after the study's own."""
MAX_ROUNDS_NEEDED: Final = 100_000
"""Where `rounds_needed` stops counting."""


def enough(d: ArrayLike, repetition: Repetition, rounds_done: int | None = None) -> bool:
    """Tell whether the estimate is precise enough to stop (METHOD.md section 1, rule 4).

    True only at a look (`is_look`) and if the half-width of the log interval is <= max(target, |mean d| / 4). Never
    looks at a p value. `rounds_done` counts the rounds that were run where some gave no valid pair; it defaults to n.
    """
    values = vector(d)
    logs = log_interval(values, repetition.confidence)
    if logs is None or values.size < MIN_ROUNDS:
        return False
    if not is_look(values.size if rounds_done is None else rounds_done, repetition):
        return False
    return (logs.high - logs.low) / 2.0 <= max(repetition.target_half_width, abs(logs.value) / 4.0)


def rounds_needed(d: ArrayLike, target: float, confidence: float = 0.95) -> int | None:
    """Estimate how many rounds give the log interval a half-width <= `target`, from the spread seen so far.

    Smallest n >= 2 with t(n-1) s / sqrt(n) <= target; at most MAX_ROUNDS_NEEDED. None if the spread is not known
    (n < 2) or the target not positive.
    """
    values = vector(d)
    if values.size < 2 or target <= 0:
        return None
    deviation = mean_and_error(values, 1.0)[1] * math.sqrt(values.size)
    normal = float(scipy.special.ndtri(0.5 + confidence / 2.0)) * deviation / target
    if normal**2 >= MAX_ROUNDS_NEEDED:
        return MAX_ROUNDS_NEEDED
    needed = max(2, math.ceil(normal**2))
    while t_quantile(needed, confidence) * deviation > target * math.sqrt(needed):
        needed += 1
    return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, why, and about how many more rounds would decide (None where it is decided or not known).

    `within` is the margin of the ladder inside which NO_COST was shown.
    """

    verdict: Verdict
    reason: str = ""
    more_rounds: int | None = None
    within: float | None = None


def ladder(margin: float) -> tuple[float, ...]:
    """Return the margins of "no cost", ascending: the study's own, then those of the ladder that are larger."""
    return (margin, *(step for step in LADDER if step > margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Other log ratios of the same comparison with which a verdict must hold as well, each of shape (rounds,).

    `equal` for NO_COST, `above` for COSTS, `below` for GAINS. What holds in every view is wrong no more often than in
    any one of them.
    """

    equal: tuple[FloatArray, ...] = ()
    above: tuple[FloatArray, ...] = ()
    below: tuple[FloatArray, ...] = ()


def verdict(
    d: ArrayLike,
    *,
    margin: float,
    confidence: float = 0.95,
    adjusted: float | None = None,
    equivalence: float = 0.90,
    views: Views = Views(),
    floor: Estimate | None = None,
) -> Judgement:
    """Judge one comparison (METHOD.md section 1, rules 5 and 11).

    The first of these that holds, in `views` too:

    1. fewer than MIN_ROUNDS rounds: INCONCLUSIVE, whatever the figures;
    2. the interval at confidence `equivalence` (90 %) inside +-ln(1 + margin): NO_COST within the margin, also
       where a small cost is clear (the reason then says so). Not adjusted for the table: "no cost anywhere" needs
       each of its tests to pass, which cannot raise the error (intersection-union);
    3. the interval at confidence `adjusted` (from `holm_confidences`; default: `confidence`) above zero: COSTS;
    4. the same below zero: GAINS;
    5. the interval of 2 inside a larger margin of the ladder: NO_COST within that. The tests are nested, so that the
       smallest margin of a ladder that holds has the error of one test;
    6. INCONCLUSIVE, with the rounds after which 3 or 5 would hold if mean and spread stay as they are.

    `floor` is the interval of A/A, as fractions. COSTS and GAINS need an interval (at `confidence`) that does not touch
    it, NO_COST within a margin needs one of A/A that reaches into the margin.
    """
    values = vector(d)
    level = confidence if adjusted is None else adjusted
    steps = ladder(margin)
    alone, table = log_interval(values, confidence), log_interval(values, level)
    more = _rounds_to_decide(values, steps[-1], level, equivalence)
    if alone is None or table is None or values.size < MIN_ROUNDS:
        reason = f"{values.size} of the at least {MIN_ROUNDS} rounds that a verdict needs"
        missing = max(MIN_ROUNDS - values.size, more or 0)
        return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=missing)
    low, high = (-math.inf, math.inf) if floor is None else (floor.low, floor.high)
    reached = [step for step in steps if low < step and high > -step]
    same = (values, *views.equal)
    within = next((step for step in reached if all(equivalent(view, step, equivalence) for view in same)), None)
    costs = all(_bounds(view, level)[0] > 0 for view in (values, *views.above))
    gains = all(_bounds(view, level)[1] < 0 for view in (values, *views.below))
    touches = floor is not None and _log1p(low) <= alone.high and alone.low <= _log1p(high)
    if within == margin:
        clear = f"a {'cost' if costs else 'gain'} is clear, but within the margin" if costs or gains else ""
        return Judgement(verdict=Verdict.NO_COST, reason=clear, within=within)
    if (costs or gains) and not touches:
        return Judgement(verdict=Verdict.COSTS if costs else Verdict.GAINS)
    if within is not None:
        return Judgement(verdict=Verdict.NO_COST, within=within)
    reason = "its interval touches that of A/A, the noise floor" if costs or gains else _open(alone, table, steps[-1])
    return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=more)


def _log1p(fraction: float) -> float:
    """Return ln(1 + fraction), also of a bound that rounding has put at -1 or that is infinite."""
    return math.log1p(fraction) if fraction > -1.0 else -math.inf


def _open(alone: Estimate, table: Estimate, largest: float) -> str:
    """Say why an interval decides nothing."""
    if table.low > 0 or table.high < 0:
        return "it does not hold with all launches"
    if alone.low > 0 or alone.high < 0:
        return f"{'above' if alone.low > 0 else 'below'} zero alone, but not among all comparisons of the table (Holm)"
    return f"the interval holds zero and reaches beyond {100 * largest:.2g} %"


def _bounds(d: FloatArray, confidence: float) -> tuple[float, float]:
    """Return the log interval's bounds; without enough rounds everything is possible."""
    logs = log_interval(d, confidence) if d.size >= MIN_ROUNDS else None
    return (-math.inf, math.inf) if logs is None else (logs.low, logs.high)


def _rounds_to_decide(d: FloatArray, margin: float, confidence: float, equivalence: float) -> int | None:
    """Return how many more rounds make `d` equivalent or different, whichever comes first; at least 1."""
    mean, _, n = mean_and_error(d, 1.0)
    if n < 2:
        return None
    room = math.log1p(margin) - abs(mean) if margin > 0 else 0.0
    options = (rounds_needed(d, room, equivalence), rounds_needed(d, abs(mean), confidence))
    needed = min((option for option in options if option is not None), default=None)
    return None if needed is None else max(1, needed - n)
