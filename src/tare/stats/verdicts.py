"""When to stop, and what to say: the stopping rule and the verdict of one comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import scipy
from numpy.typing import ArrayLike

from tare.model import Repetition, Verdict
from tare.stats.arrays import FloatArray, mean_and_error, t_quantile, vector
from tare.stats.hypotheses import MIN_ROUNDS, equivalent
from tare.stats.intervals import log_interval

FIRST_LOOK: Final = 10
"""Rounds at which the stopping rule looks for the first time; later looks are at twice the rounds of the last."""
LOOKS_SHARE: Final = 0.75
"""Share of alpha left for decisions where a study may stop at several looks (`decision_confidence`)."""
MAX_ROUNDS_NEEDED: Final = 100_000
"""Where `rounds_needed` stops counting."""


def next_look(n: int, first: int = FIRST_LOOK) -> int:
    """Return the next number of rounds at which the stopping rule looks: first, 2 first, 4 first, ..., > n."""
    look = max(1, first)
    while look <= n:
        look *= 2
    return look


def is_look(rounds_done: int, repetition: Repetition) -> bool:
    """Tell whether the stopping rule may look now: at 10, 20, 40, ... rounds.

    Where more than 10 rounds are planned (`repetition.rounds`): at once, twice, four times, ... that many.
    """
    return rounds_done > 0 and next_look(rounds_done - 1, max(FIRST_LOOK, repetition.rounds)) == rounds_done


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


def decision_confidence(repetition: Repetition, confidence: float | None = None) -> float:
    """Return the confidence at which decisions are taken: the nominal one, raised where a study may stop early.

    Stopping when the interval is narrow favours rounds that by chance spread little: with looks at 10, 20 and 40
    a 95 % interval covers at worst .934 (simulated over spread and cost; still above .93, and shown as it is), A/A is
    called different in up to 6.5 %. Decisions therefore use alpha x LOOKS_SHARE (96.25 %), which keeps them within 5 %.
    `confidence` is that of the policy unless given.
    """
    nominal = repetition.confidence if confidence is None else confidence
    first = max(FIRST_LOOK, repetition.rounds)
    return 1.0 - LOOKS_SHARE * (1.0 - nominal) if repetition.max_rounds > first else nominal


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
    """A verdict, why, and about how many more rounds would decide (None where it is decided or not known)."""

    verdict: Verdict
    reason: str = ""
    more_rounds: int | None = None


def verdict(
    d: ArrayLike,
    *,
    margin: float,
    confidence: float = 0.95,
    adjusted: float | None = None,
    equivalence: float = 0.90,
) -> Judgement:
    """Judge one comparison (METHOD.md section 1, rule 5).

    The first of these that holds:

    1. fewer than MIN_ROUNDS rounds: INCONCLUSIVE, whatever the figures;
    2. the interval at confidence `equivalence` (90 %) inside +-ln(1 + margin): NO_COST *beyond the margin*, also
       where a small cost is clear (the reason then says so). Not adjusted for the table: "no cost anywhere" needs
       each of its tests to pass, which cannot raise the error (intersection-union);
    3. the interval at confidence `adjusted` (from `holm_confidences`; default: `confidence`) above zero: COSTS;
    4. the same below zero: GAINS;
    5. INCONCLUSIVE, with the rounds after which 2 or 3 would hold if mean and spread stay as they are.
    """
    values = vector(d)
    level = confidence if adjusted is None else adjusted
    alone, table = log_interval(values, confidence), log_interval(values, level)
    if alone is None or table is None or values.size < MIN_ROUNDS:
        missing = max(MIN_ROUNDS - values.size, _rounds_to_decide(values, margin, level, equivalence) or 0)
        reason = f"{values.size} of the at least {MIN_ROUNDS} rounds that a verdict needs"
        return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=missing)
    if equivalent(values, margin, equivalence):
        clear = ""
        if table.low > 0 or table.high < 0:
            clear = f"a {'cost' if table.low > 0 else 'gain'} is clear, but within the margin"
        return Judgement(verdict=Verdict.NO_COST, reason=clear)
    if table.low > 0:
        return Judgement(verdict=Verdict.COSTS)
    if table.high < 0:
        return Judgement(verdict=Verdict.GAINS)
    if alone.low > 0 or alone.high < 0:
        side = "above" if alone.low > 0 else "below"
        reason = f"{side} zero alone, but not among all comparisons of the table (Holm)"
    else:
        reason = "the interval holds both zero and more than the margin"
    return Judgement(
        verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=_rounds_to_decide(values, margin, level, equivalence)
    )


def _rounds_to_decide(d: FloatArray, margin: float, confidence: float, equivalence: float) -> int | None:
    """Return how many more rounds make `d` equivalent or different, whichever comes first; at least 1."""
    mean, _, n = mean_and_error(d, 1.0)
    if n < 2:
        return None
    room = math.log1p(margin) - abs(mean) if margin > 0 else 0.0
    options = (rounds_needed(d, room, equivalence), rounds_needed(d, abs(mean), confidence))
    needed = min((option for option in options if option is not None), default=None)
    return None if needed is None else max(1, needed - n)
