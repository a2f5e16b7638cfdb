"""Build the HTML report's page of each environment: what it costs on every metric, and what its ranks may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tare.model import Environment, Isolation, Summary, Verdict
from tare.report.causes import RowCause, row_cause
from tare.report.cells import CellText, cell_text
from tare.report.view import MetricColumn, TableGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRow:
    """One metric on an environment's page."""

    column: MetricColumn
    cell: CellText
    cause: RowCause


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPage:
    """The page of one environment; `number` identifies it among the report's environments.

    `counts` are its metrics by verdict. `environment` is None for the baseline against itself.
    """

    ident: str
    number: int
    name: str
    environment: Environment | None
    rows: tuple[EnvironmentRow, ...]
    counts: tuple[tuple[Verdict, int], ...]
    isolation: Isolation | None
    commands: tuple[tuple[str, str], ...]


def environment_pages(
    groups: Sequence[TableGroup], summary: Summary, commands: Mapping[tuple[str, str], str]
) -> tuple[EnvironmentPage, ...]:
    """Return a page for each row of the tables, in their order; `commands` are by group and environment."""
    names = dict.fromkeys(name for group in groups for name in group.rows)
    known = {environment.name: environment for environment in summary.environments}
    isolation = {item.environment: item for item in summary.isolation}
    return tuple(
        EnvironmentPage(
            ident=f"environment-{number}",
            number=number,
            name=name,
            environment=known.get(name),
            rows=(rows := _rows(name, groups, summary)),
            counts=_counts(rows),
            isolation=isolation.get(name),
            commands=tuple((group, text) for (group, environment), text in commands.items() if environment == name),
        )
        for number, name in enumerate(names)
    )


def _rows(name: str, groups: Sequence[TableGroup], summary: Summary) -> tuple[EnvironmentRow, ...]:
    return tuple(
        EnvironmentRow(
            column=column,
            cell=cell_text(column, column.cells.get(name), summary),
            cause=row_cause(name, (column,), summary),
        )
        for group in groups
        for column in group.columns
        if name in column.cells
    )


def _counts(rows: Sequence[EnvironmentRow]) -> tuple[tuple[Verdict, int], ...]:
    found = [row.cell.verdict for row in rows]
    return tuple((verdict, found.count(verdict)) for verdict in Verdict if verdict in found)
