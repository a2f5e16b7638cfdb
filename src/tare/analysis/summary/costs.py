"""What launches of a study cost, by row of its table and by round, without verdicts: what claims and shares compare."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tare.analysis.summary.rows import Row, paired_rows
from tare.analysis.summary.select import Selection
from tare.model import MetricInfo, Plan, Trial


class Costs(NamedTuple):
    """The launches of a row that count: the round of each, and the costs of the typical and of the mean iteration.

    Those of the typical iteration are adjusted for the machine's state, as in the table.
    """

    rounds: tuple[int, ...]
    values_s: tuple[float, ...]
    means_s: tuple[float, ...]


class CostTable(NamedTuple):
    """A study's columns, its trials that count, and the costs of its rows by group, environment and metric."""

    metrics: tuple[MetricInfo, ...]
    selection: Selection
    costs: Mapping[tuple[str, str, str], Costs]


def cost_table(plan: Plan, trials: Sequence[Trial]) -> CostTable:
    """Return what the launches of a study cost."""
    selection, infos, rows = paired_rows(plan, trials)
    return CostTable(infos, selection, {(row.info.group, row.name, row.info.key): costs_of(row) for row in rows})


def costs_of(row: Row) -> Costs:
    """Return the costs of a row's launches that count, in the order of their rounds."""
    blocks = sorted(row.series.counted)
    return Costs(
        rounds=tuple(block[0] for block in blocks),
        values_s=tuple(row.costs_s[block] for block in blocks),
        means_s=tuple(row.series.counted[block].metric.value for block in blocks),
    )


def mean_logs(rounds: Sequence[int], costs_s: Sequence[float]) -> dict[int, float]:
    """Return the mean logarithm of costs by round, without those that have none."""
    by_round: defaultdict[int, list[float]] = defaultdict(list)
    for number, cost in zip(rounds, costs_s, strict=False):
        if 0 < cost < math.inf:
            by_round[number].append(math.log(cost))
    return {number: sum(values) / len(values) for number, values in by_round.items()}
