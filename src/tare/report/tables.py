"""Put workloads of one figure each side by side: one table, a row an environment, a column a workload. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tare.report.view import Column, TableGroup

MOST_BESIDE: Final = 6
"""Columns that are read at a glance; the terminal has room for two tables of three."""


def together(groups: Sequence[TableGroup]) -> tuple[TableGroup, ...]:
    """Return the groups, in which neighbours of one column, one placement and equal rows have become one."""
    return tuple(_merged(run) for run in _runs(groups))


def _runs(groups: Sequence[TableGroup]) -> Iterator[list[TableGroup]]:
    run: list[TableGroup] = []
    for group in groups:
        if run and not (len(run) < MOST_BESIDE and _fit(run[-1], group)):
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _fit(one: TableGroup, other: TableGroup) -> bool:
    single = len(one.columns) == len(other.columns) == 1
    return single and _placement(one) == _placement(other) and one.rows == other.rows


def _placement(group: TableGroup) -> str:
    return group.name.partition(" / ")[2]


def _merged(run: Sequence[TableGroup]) -> TableGroup:
    """Return one group of several; what has the same label in two workloads is told by their names."""
    if len(run) == 1:
        return run[0]
    labels = Counter(group.columns[0].info.label for group in run)
    columns = tuple(_named(group) if labels[group.columns[0].info.label] > 1 else group.columns[0] for group in run)
    return TableGroup(name=_placement(run[0]), rows=run[0].rows, columns=columns)


def _named(group: TableGroup) -> Column:
    (column,) = group.columns
    workload = group.name.partition(" / ")[0]
    return replace(column, info=replace(column.info, label=f"{workload}: {column.info.label}"))
