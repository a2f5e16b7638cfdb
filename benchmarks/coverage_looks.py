"""Measure coverage and false alarms of studies that stop at the first look that is precise enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from coverage_intervals import any_different
from simulation import CONFIDENCE, Rate, Scenario, rate, round_ratios, simulate

from tare.analysis import stats
from tare.model import Repetition


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """What a study that stops by the rule gets: coverage, A/A called different, and the rounds it took."""

    covered: Rate
    different: Rate
    mean_rounds: float


def decision_confidence(look: int) -> float:
    """Return the confidence at which a difference is decided at a look, counted from 0."""
    return 1.0 - (1.0 - CONFIDENCE) * stats.share_of_look(look)


def sequential(
    scenario: Scenario, repetitions: int, *, looks: Sequence[int] = (10, 20, 40), seed: int = 6
) -> Sequential:
    """Run studies that stop at the first look that is precise enough, and judge by that look.

    Coverage is that of the 95 % interval that is shown, a difference is decided with the share of the error that its
    look spends.
    """
    rng = np.random.default_rng(seed)
    policy = Repetition(rounds=looks[0], max_rounds=looks[-1])
    covered: list[bool] = []
    different: list[bool] = []
    taken: list[int] = []
    longest = replace(scenario, rounds=looks[-1])
    for _ in range(repetitions):
        baseline, again, environment = simulate(rng, longest, [0.0, scenario.truth])
        for costs, truth, hits in ((environment, scenario.truth, covered), (again, 0.0, different)):
            d = round_ratios(costs, baseline)
            n = next((look for look in looks if stats.precise_enough(d[:look], policy)), looks[-1])
            level = CONFIDENCE if hits is covered else decision_confidence(looks.index(n))
            estimate = stats.paired_t(d[:n], level)
            inside = estimate is not None and estimate.low <= math.expm1(truth) <= estimate.high
            hits.append(inside if hits is covered else not inside)
            taken.append(n)
    return Sequential(covered=rate(covered), different=rate(different), mean_rounds=float(np.mean(taken)))


def sequential_table_called_different(scenario: Scenario, environments: int, repetitions: int, seed: int = 7) -> Rate:
    """Return how often any of several equal environments is called different when all stop together, after Holm."""
    rng = np.random.default_rng(seed)
    looks, policy = (10, 20, 40), Repetition(rounds=10, max_rounds=40)
    longest = replace(scenario, rounds=40)
    hits = []
    for _ in range(repetitions):
        baseline, *others = simulate(rng, longest, [0.0] * environments)
        series = [round_ratios(other, baseline) for other in others]
        n = next((look for look in looks if all(stats.precise_enough(d[:look], policy) for d in series)), looks[-1])
        stopped = [d[:n] for d in series]
        hits.append(any_different(stopped, adjusted=True, confidence=decision_confidence(looks.index(n))))
    return rate(hits)
