"""The table of cells: every planned one, also those that did not run, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tare.model import Cell
from tare.report.frames.columns import Row, Table, count, text, truth
from tare.report.frames.source import Source, outcomes_of, row_name

OUTCOMES: Final = ("completed", "failed", "invalid", "unavailable", "interrupted")
MOST_REASONS: Final = 5
"""Different reasons that a cell lists."""

COLUMNS: Final = (
    text("cell", "key of the cell"),
    text("group", "cells that are compared with each other: workload and placement"),
    text("environment", "environment; the second baseline of A/A has a name of its own"),
    text("role", "`baseline`, `a/a` or `environment`"),
    text("workload", "name of the workload"),
    text("placement", "nodes and ranks, as `2n x 1r`"),
    count("nodes", "nodes"),
    count("ranks", "ranks on all nodes"),
    count("containers_per_node", "containers of each node"),
    truth("is_available", "false if the cell cannot run here"),
    text("reason", "why it cannot run, or why launches have no metrics or no proof; several are separated by `; `"),
    count("launches", "launches, also superseded ones"),
    *(count(word, f"launches with the outcome `{word}`") for word in OUTCOMES),
    count("counted", "launches that count"),
)


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in the order of the plan."""
    outcomes, reasons = outcomes_of(source.trials)
    unavailable = source.results.plan.unavailable
    for cell in source.results.plan.cells:
        counts = outcomes.get(cell.key, Counter())
        of_launches = tuple(reasons.get(cell.key, ()))
        told = [unavailable[cell.key]] if cell.key in unavailable else []
        yield (
            *_identity(cell, row_name(cell, source.own_name)),
            cell.key not in unavailable,
            reasons_text([*told, *of_launches]) or ("" if counts else NOT_RUN),
            counts.total(),
            *(counts[word] for word in OUTCOMES),
            len(source.selection.trials[cell.key]),
        )


def _identity(cell: Cell, environment: str) -> Row:
    placement = cell.placement
    return (
        cell.key,
        cell.group,
        environment,
        cell.role.value,
        cell.workload.name,
        placement.label,
        placement.nodes,
        placement.ranks,
        placement.containers_per_node,
    )


NOT_RUN: Final = "it has not run yet"


def reasons_text(reasons: list[str]) -> str:
    """Return the first reasons as one text."""
    more = "; and others" if len(reasons) > MOST_REASONS else ""
    return "; ".join(reasons[:MOST_REASONS]) + more


TABLE: Final = Table(
    name="cells",
    meaning="One row per planned cell, also of those that did not run, with the reason.",
    columns=COLUMNS,
    rows=rows,
)
