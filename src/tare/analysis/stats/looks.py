"""Looks: the numbers of rounds at which a study gives verdicts, and the share of the error that each may spend.

Every further look, planned or because a user asked for more rounds after a report, is another chance to be wrong. So
the looks share the error (Bonferroni over looks, which is valid for any reason to stop or continue). When the stopping
rule looks is in `tare.analysis.stats.stopping`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tare.analysis.stats.stopping import is_look
from tare.model import Repetition

FIRST_SHARE: Final = 0.6
"""Share of the error that the first look spends. The second spends .2, the third .1, and so on; the sum is 1."""

SELF_ALPHA: Final = 0.01
"""Error of the test of A/A over the whole table (METHOD.md section 1, rule 14)."""

FAILURES_ALPHA: Final = 0.01
"""Error of the tests of failure rates over the whole table."""

STATE_ALPHA: Final = 0.01
"""Error of the tests for a different machine state in an environment and its baseline."""


def looks_of(repetition: Repetition, earlier: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the rounds at which verdicts are given, ascending: planned looks, and `earlier` ends of runs.

    Planned are the looks of the stopping rule and the maximum number of rounds.
    """
    planned = {n for n in range(1, repetition.max_rounds) if n >= repetition.rounds and is_look(n, repetition)}
    return tuple(sorted({*planned, repetition.max_rounds, *(n for n in earlier if n > 0)}))


def share_of_look(number: int) -> float:
    """Return the share of the error that look `number` (from 0) spends; the shares of all looks add up to 1."""
    return FIRST_SHARE if number == 0 else (1.0 - FIRST_SHARE) * 0.5**number


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The current look: the share of the error that it may spend, or, between looks, why there are no verdicts."""

    share: float
    pending: str = ""
    looks: tuple[int, ...] = ()
    next_look: int | None = None


def look_at(repetition: Repetition, earlier: Iterable[int], rounds_done: int) -> Look:
    """Return the look after `rounds_done` rounds; `earlier` are the rounds at which runs of the study ended.

    Each look spends its own share of the error. Between looks there are figures and no verdicts.
    """
    looks = looks_of(repetition, earlier)
    later = next((look for look in looks if look > rounds_done), None)
    if rounds_done in looks:
        return Look(share=share_of_look(looks.index(rounds_done)), looks=looks, next_look=later)
    due = looks[-1] if later is None else later
    pending = f"{rounds_done} of {due} rounds are done: verdicts are given at {due}"
    if rounds_done > looks[-1]:
        pending = f"{rounds_done} rounds are done: verdicts were given at {due}"
    return Look(share=share_of_look(len(looks)), pending=pending, looks=looks, next_look=later)
