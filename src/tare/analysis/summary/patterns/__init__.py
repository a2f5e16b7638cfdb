"""Find what distributions show besides their centres: drift and tails of launches, and the order of iterations.

In: rows of the table, or figures of iterations that the report has read. Out: `tare.model.Pattern`. Each kind has an
error of 0.25 % over the whole table (Holm), so that a table without any of them is silent in 99 % of studies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

import numpy as np

from tare.analysis import stats
from tare.analysis.stats import Block
from tare.analysis.summary.rows import Row
from tare.model import Pattern, PatternKind, Role

ALPHA: Final = 0.0025
"""The error of one kind of pattern over the whole table."""
LEAST_DRIFT: Final = math.log(1.02)
LEAST_TAIL: Final = math.log(1.1)
"""Smaller changes are not reported, however sure they are."""
MIN_LAUNCHES: Final = 6


def patterns_of(table: Sequence[Row]) -> tuple[Pattern, ...]:
    """Return the drifts and the tails of a table."""
    drifts = [*_drifts_of_columns(table), *_drifts_of_rows(table)]
    return (*significant(drifts, LEAST_DRIFT), *significant(_tails(table), LEAST_TAIL))


def significant(candidates: Iterable[Pattern], least: float, alpha: float = ALPHA) -> tuple[Pattern, ...]:
    """Return the candidates of one kind that hold after adjustment for all of them, and are not negligible."""
    tested = list(candidates)
    adjusted = stats.holm([one.p_value for one in tested])
    return tuple(
        replace(one, p_value=float(p))
        for one, p in zip(tested, adjusted, strict=True)
        if p < alpha and abs(one.value) >= least
    )


def _drifts_of_columns(table: Sequence[Row]) -> Iterable[Pattern]:
    """Yield the drift of each column over all environments together: the machine's."""
    columns: dict[tuple[str, str], dict[Block, list[float]]] = {}
    for row in table:
        if len(row.costs_s) >= MIN_LAUNCHES:
            logs = list(map(math.log, row.costs_s.values()))
            centre = median(logs)
            blocks = columns.setdefault(row.column, {})
            for block, value in zip(row.costs_s, logs, strict=True):
                blocks.setdefault(block, []).append(value - centre)
    for (group, metric), blocks in columns.items():
        yield _drift(group, "", metric, [float(np.mean(blocks[block])) for block in sorted(blocks)])


def _drifts_of_rows(table: Sequence[Row]) -> Iterable[Pattern]:
    """Yield the drift of each environment's cost against the baseline."""
    for row in table:
        if row.cell.role is not Role.BASELINE and row.pairs is not None:
            yield _drift(*_place(row), row.pairs.log_ratios)


def _place(row: Row) -> tuple[str, str, str]:
    return row.info.group, row.name, row.info.key


def _drift(group: str, environment: str, metric: str, values: Sequence[float] | stats.FloatArray) -> Pattern:
    found = stats.trend(values)
    return Pattern(
        group=group,
        environment=environment,
        metric=metric,
        kind=PatternKind.DRIFT,
        value=found.change,
        p_value=found.p_value if found.n >= MIN_LAUNCHES else 1.0,
        n=found.n,
    )


def _tails(table: Sequence[Row]) -> Iterable[Pattern]:
    """Yield how much longer the tail of each environment's launches is than the baseline's."""
    base: dict[tuple[str, str], Mapping[Block, float]] = {
        row.column: _tail_ratios(row) for row in table if row.cell.role is Role.BASELINE
    }
    for row in table:
        own, other = _tail_ratios(row), base.get(row.column, {})
        if row.cell.role is Role.BASELINE or len(own.keys() & other.keys()) < MIN_LAUNCHES:
            continue
        pairs = stats.pair_rounds(own, other)
        group, environment, metric = _place(row)
        yield Pattern(
            group=group,
            environment=environment,
            metric=metric,
            kind=PatternKind.TAIL,
            value=pairs.logs.mean,
            p_value=_paired_p(pairs.logs),
            n=pairs.logs.n,
        )


def _paired_p(logs: stats.Moments) -> float:
    p = stats.paired_p(logs) if logs.n >= MIN_LAUNCHES else None
    return 1.0 if p is None else p


def _tail_ratios(row: Row) -> dict[Block, float]:
    """Return p99 / median of each launch's iterations, by block."""
    return {
        block: metric.p99_s / metric.median_s
        for block, reading in row.series.counted.items()
        if (metric := reading.metric).p99_s and metric.median_s and metric.median_s > 0
    }
