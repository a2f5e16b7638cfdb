"""Estimate the time of a study from the rounds of it that were measured, and say what cannot be known before. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from tare.model import Plan, Trial
from tare.study.plan.cells import available, estimate_s
from tare.workloads import plugin_of

START_S: Final = 5.0
"""What a study takes besides its rounds: bringing up its cluster, daemons, and writing its report."""
INTERRUPTED: Final = 5.0
"""A round that begins so many times later than usual after the one before it was not measured in the same run."""


def round_s(trials: Sequence[Trial]) -> float | None:
    """Return how long a round took, pods included: from its first launch to that of the next round; None if unknown."""
    began: dict[int, float] = {}
    for trial in trials:
        at = began.setdefault(trial.key.round, trial.started_unix_s)
        began[trial.key.round] = min(at, trial.started_unix_s)
    took = [after - before for (one, before), (two, after) in pairwise(sorted(began.items())) if two == one + 1]
    took = [each for each in took if each > 0]
    if not took:
        return None
    usual = median(took)
    return median([each for each in took if each <= INTERRUPTED * usual])


def estimated_s(plan: Plan, measured_round_s: float | None = None) -> float:
    """Return about how long a plan's study takes from its start to its report, without what `unknown` lists."""
    rounds = plan.study.repetition.rounds
    known_s = estimate_s(plan, known_only=True) if measured_round_s is None else measured_round_s * rounds
    return START_S + known_s if available(plan) else 0.0


def unknown(plan: Plan) -> dict[str, int]:
    """Return the number of launches of each workload whose time is only known when it has run."""
    repeat = plan.study.repetition
    launches: dict[str, int] = {}
    for cell in available(plan):
        if not plugin_of(cell.workload).knows_time:
            name = cell.workload.name
            launches[name] = launches.get(name, 0) + repeat.rounds * repeat.blocks_per_round
    return launches
