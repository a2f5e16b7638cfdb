"""Build the tables on the first screen of the HTML report: one row per environment, a bar per cell, notes below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from tare.model import Comparison, Estimate, Summary
from tare.model.text import counted
from tare.report import remarks, units, view
from tare.report.causes import RowCause, row_cause
from tare.report.cells import BLOCKED, CellText, cell_text, differ_in_sign
from tare.report.plots import bars
from tare.report.view import MetricColumn, TableGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A cell of the first screen with its bar and tooltip."""

    column: MetricColumn
    text: CellText
    bar: Markup
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHead:
    """The header of a column of the first screen."""

    column: MetricColumn
    axis: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One environment: its cells, the reason if it has no values at all, and why it costs something."""

    name: str
    cells: tuple[TableCell, ...]
    reason: remarks.Note | None
    cause: RowCause


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScreenTable:
    """The first screen's table of one group, and the notes below it."""

    group: TableGroup
    heading: str
    heads: tuple[ColumnHead, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[remarks.Note, ...]
    caveats: tuple[str, ...]
    causes: tuple[tuple[str, str], ...]
    proof_gaps: tuple[tuple[str, str], ...]
    proof_labels: Mapping[str, str]
    launches: tuple[remarks.LaunchRow, ...]

    @property
    def has_causes(self) -> bool:
        """Tell whether a row costs something, so that the table has a column for causes."""
        return any(row.cause.causes or row.cause.costs for row in self.rows)


def table(group: TableGroup, heading: str, summary: Summary) -> FirstScreenTable:
    """Return the table of one group under its heading."""
    columns = view.first_screen(group.columns)
    scales = [bars.Scale.of(_estimates(column), summary.margin) for column in columns]
    all_notes = remarks.notes(group)
    reasons = {
        note.environments[0]: note
        for note in all_notes
        if not note.columns and len(note.environments) == 1 and note.verdict in BLOCKED
    }
    rows = tuple(
        TableRow(
            name=name,
            cells=tuple(_cell(column, name, scale, summary) for column, scale in zip(columns, scales, strict=True)),
            reason=reasons.get(name),
            cause=row_cause(name, group.columns, summary),
        )
        for name in view.by_cost(group, summary)
    )
    heads = tuple(
        ColumnHead(column=column, axis=bars.axis(scale)) for column, scale in zip(columns, scales, strict=True)
    )
    notes = tuple(note for note in all_notes if note not in reasons.values())
    return FirstScreenTable(
        group=group,
        heading=heading,
        heads=heads,
        rows=rows,
        notes=notes,
        caveats=remarks.caveats(group, summary),
        causes=remarks.causes(group, summary),
        proof_gaps=remarks.proof_gaps(group, summary),
        proof_labels=remarks.proof_labels(group, summary),
        launches=remarks.launch_rows(group, summary),
    )


def _estimates(column: MetricColumn) -> list[Estimate]:
    return [
        estimate
        for cell in column.cells.values()
        for estimate in (cell.overhead, cell.simultaneous)
        if estimate is not None
    ]


def _cell(column: MetricColumn, name: str, scale: bars.Scale, summary: Summary) -> TableCell:
    comparison = column.cells.get(name)
    text = cell_text(column, comparison, summary)
    noise = column.noise.overhead if column.noise else None
    svg = Markup("")
    if text.drawn is not None:
        svg = bars.bar(scale, text.drawn, text.outer, noise, summary.margin)
    return TableCell(column=column, text=text, bar=svg, title=_cell_title(name, column, comparison, text))


def _cell_title(name: str, column: MetricColumn, comparison: Comparison | None, text: CellText) -> str:
    parts = [f"{name}, {column.info.label}: {text.verdict.value}"]
    if comparison and comparison.overhead:
        parts.append(f"n = {counted(comparison.overhead.n, 'round')}")
    if comparison and comparison.simultaneous:
        parts.append(f"adjusted interval {units.overhead_interval(comparison.simultaneous).bounds}")
    if comparison and comparison.absolute_s:
        parts.append(f"absolute {column.absolute(comparison.absolute_s)}")
    if comparison and differ_in_sign(column, comparison):
        parts.append("overhead (geometric mean) and added time (arithmetic mean) have opposite signs")
    if text.note:
        parts.append(text.note)
    return "; ".join(parts)
