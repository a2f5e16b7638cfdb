"""Return what a comparison measured in each round. Pure."""

from __future__ import annotations

import math
from collections import defaultdict

from tare.model import Comparison


def mean_logs(comparison: Comparison) -> dict[int, float]:
    """Return the mean logarithm of a row's costs by round, without those that have none."""
    by_round: defaultdict[int, list[float]] = defaultdict(list)
    for number, cost in zip(comparison.rounds, comparison.values_s, strict=False):
        if 0 < cost < math.inf:
            by_round[number].append(math.log(cost))
    return {number: sum(values) / len(values) for number, values in by_round.items()}
