"""What launches of a study cost, by row of its table and by round: the one table that all comparisons are made from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tare.model import Comparison


class Costs(NamedTuple):
    """The launches of a row that count: the round of each, and the costs of the typical and of the mean iteration.

    Those of the typical iteration are adjusted for the machine's state, as in the table.
    """

    rounds: tuple[int, ...] = ()
    values_s: tuple[float, ...] = ()
    means_s: tuple[float, ...] = ()

    def logs(self) -> dict[int, float]:
        """Return the mean logarithm of the typical costs by round, without those that have none."""
        known = zip(self.rounds, self.values_s, strict=True)
        return means_by_round((number, math.log(cost)) for number, cost in known if 0 < cost < math.inf)


CostTable = Mapping[tuple[str, str, str], Costs]
"""The costs of the rows of a study by group, environment and metric."""


def costs_of(comparison: Comparison) -> Costs:
    """Return the costs from which a comparison was made."""
    return Costs(comparison.rounds, comparison.values_s, comparison.means_s)


def costs_in(comparisons: Iterable[Comparison]) -> CostTable:
    """Return the costs from which comparisons were made."""
    return {(each.group, each.environment, each.metric): costs_of(each) for each in comparisons}


def means_by_round(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the mean of values by round, given with the round of each."""
    by_round: defaultdict[int, list[float]] = defaultdict(list)
    for number, value in values:
        by_round[number].append(value)
    return {number: sum(found) / len(found) for number, found in by_round.items()}
