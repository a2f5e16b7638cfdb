"""Merge groups with one metric each into one table: a row per environment, a column per workload. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tare.report.view import MetricColumn, TableGroup

MOST_COLUMNS: Final = 6
"""Most columns of a merged table: two tables of three in the terminal."""


def merge(groups: Sequence[TableGroup]) -> tuple[TableGroup, ...]:
    """Return the groups; consecutive ones with a single column, one placement and equal rows are merged."""
    return tuple(_merge_run(run) for run in _runs(groups))


def _runs(groups: Sequence[TableGroup]) -> Iterator[list[TableGroup]]:
    run: list[TableGroup] = []
    for group in groups:
        if run and not (len(run) < MOST_COLUMNS and _can_merge(run[-1], group)):
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _can_merge(one: TableGroup, other: TableGroup) -> bool:
    single = len(one.columns) == len(other.columns) == 1
    return single and _placement(one) == _placement(other) and one.rows == other.rows


def _placement(group: TableGroup) -> str:
    return group.name.partition(" / ")[2]


def _merge_run(run: Sequence[TableGroup]) -> TableGroup:
    """Return one group for several; labels that occur twice get the workload's name as a prefix."""
    if len(run) == 1:
        return run[0]
    labels = Counter(group.columns[0].info.label for group in run)
    columns = tuple(
        _prefixed_column(group) if labels[group.columns[0].info.label] > 1 else group.columns[0] for group in run
    )
    return TableGroup(name=_placement(run[0]), rows=run[0].rows, columns=columns)


def _prefixed_column(group: TableGroup) -> MetricColumn:
    (column,) = group.columns
    workload = group.name.partition(" / ")[0]
    return replace(column, info=replace(column.info, label=f"{workload}: {column.info.label}"))
