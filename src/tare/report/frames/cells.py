"""The table of cells: every planned one, also those that did not run, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tare.model import Cell
from tare.report.frames.columns import CELL, Columns, Row, Table, count, text, truth, values_of
from tare.report.frames.source import Source, outcomes_of, row_name

OUTCOMES: Final = ("completed", "failed", "invalid", "unavailable", "interrupted")
MOST_REASONS: Final = 5
"""Different reasons that a cell lists."""

NOT_RUN: Final = "it has not run yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLaunches:
    """A planned cell with its launches by outcome, how many count, and why it or they have no figures."""

    cell: Cell
    environment: str
    is_available: bool
    reason: str
    outcomes: Counter[str]
    counted: int


COLUMNS: Final[Columns[CellLaunches]] = {
    **CELL,
    text("workload", "name of the workload"): lambda c: c.cell.workload.name,
    text("placement", "nodes and ranks, as `2n x 1r`"): lambda c: c.cell.placement.label,
    count("nodes", "nodes"): lambda c: c.cell.placement.nodes,
    count("ranks", "ranks on all nodes"): lambda c: c.cell.placement.ranks,
    count("containers_per_node", "containers of each node"): lambda c: c.cell.placement.containers_per_node,
    truth("is_available", "false if the cell cannot run here"): lambda c: c.is_available,
    text(
        "reason", "why it cannot run, or why launches have no metrics or no proof; several are separated by `; `"
    ): lambda c: c.reason,
    count("launches", "launches, also superseded ones"): lambda c: c.outcomes.total(),
    count("completed", "launches with the outcome `completed`"): lambda c: c.outcomes["completed"],
    count("failed", "launches with the outcome `failed`"): lambda c: c.outcomes["failed"],
    count("invalid", "launches with the outcome `invalid`"): lambda c: c.outcomes["invalid"],
    count("unavailable", "launches with the outcome `unavailable`"): lambda c: c.outcomes["unavailable"],
    count("interrupted", "launches with the outcome `interrupted`"): lambda c: c.outcomes["interrupted"],
    count("counted", "launches that count"): lambda c: c.counted,
}


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in the order of the plan."""
    outcomes, reasons = outcomes_of(source.trials)
    unavailable = source.results.plan.unavailable
    for cell in source.results.plan.cells:
        counts = outcomes.get(cell.key, Counter())
        told = [unavailable[cell.key]] if cell.key in unavailable else []
        planned = CellLaunches(
            cell=cell,
            environment=row_name(cell, source.own_name),
            is_available=cell.key not in unavailable,
            reason=reasons_text([*told, *reasons.get(cell.key, ())]) or ("" if counts else NOT_RUN),
            outcomes=counts,
            counted=len(source.selection.trials[cell.key]),
        )
        yield values_of(COLUMNS, planned)


def reasons_text(reasons: list[str]) -> str:
    """Return the first reasons as one text."""
    more = "; and others" if len(reasons) > MOST_REASONS else ""
    return "; ".join(reasons[:MOST_REASONS]) + more


TABLE: Final = Table(
    name="cells",
    meaning="One row per planned cell, also of those that did not run, with the reason.",
    columns=tuple(COLUMNS),
    rows=rows,
)
