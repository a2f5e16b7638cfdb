"""The stopping rule: at which numbers of rounds a study looks at its results, and when they are precise enough to stop.

`tare.analysis.summary.study_is_precise_enough` applies it to all comparisons, `tare.run.runner` acts on it. A study
also stops at `max_rounds` (there), and when its budget is used up or its allocation ends (`tare.run.ending`).
"""

from __future__ import annotations

from typing import Final

from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import Moments, log_moments
from tare.analysis.stats.hypotheses import MIN_ROUNDS
from tare.analysis.stats.intervals import log_interval
from tare.model import Repetition

FIRST_LOOK: Final = 10
"""Rounds of the stopping rule's first look; each later look is at twice the rounds of the one before."""


def next_look(n: int, first: int = FIRST_LOOK) -> int:
    """Return the next number of rounds at which the stopping rule looks: first, 2 first, 4 first, ..., > n."""
    look = max(1, first)
    while look <= n:
        look *= 2
    return look


def is_look(rounds_done: int, repetition: Repetition) -> bool:
    """Tell whether the stopping rule may look now: at 10, 20, 40, ... rounds.

    If more than 10 rounds are planned (`repetition.rounds`), at one, two, four, ... times that number.
    """
    return rounds_done > 0 and next_look(rounds_done - 1, max(FIRST_LOOK, repetition.rounds)) == rounds_done


def precise_enough(d: ArrayLike | Moments, repetition: Repetition, rounds_done: int | None = None) -> bool:
    """Tell whether the estimate is precise enough to stop (METHOD.md section 1, rule 4).

    True only at a look (`is_look`) and if the half-width of the log interval is <= max(target, |mean d| / 4). p values
    are not used. `rounds_done` is the number of rounds run, if some gave no valid pair; default: n.
    """
    moments = log_moments(d)
    logs = log_interval(moments, repetition.confidence)
    if logs is None or moments.n < MIN_ROUNDS:
        return False
    if not is_look(moments.n if rounds_done is None else rounds_done, repetition):
        return False
    return (logs.high - logs.low) / 2.0 <= max(repetition.target_half_width, abs(logs.value) / 4.0)
