"""Make the tables of the HTML report's first screen: a row an environment, a bar in each cell, the sentences below."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from tare.model import Comparison, Estimate, Summary
from tare.report import remarks, units, view
from tare.report.cells import BLOCKED, CellText, cell_text, disagree
from tare.report.plots import bars
from tare.report.view import Column, TableGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A cell of the first screen with its bar."""

    text: CellText
    bar: Markup
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a column of the first screen."""

    column: Column
    axis: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The first screen's table of one group, and the sentences below it."""

    group: TableGroup
    heading: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[str, tuple[Drawn, ...], remarks.Note | None], ...]
    notes: tuple[remarks.Note, ...]
    doubts: tuple[str, ...]
    causes: tuple[tuple[str, str], ...]
    launches: tuple[remarks.LaunchRow, ...]


def table(group: TableGroup, heading: str, summary: Summary) -> Table:
    """Return the table of one group under its heading."""
    columns = view.first_screen(group.columns)
    scales = [bars.Scale.of(_drawn_estimates(column), summary.margin) for column in columns]
    reasons = {
        note.environments[0]: note
        for note in remarks.notes(group)
        if not note.columns and len(note.environments) == 1 and note.verdict in BLOCKED
    }
    rows = tuple(
        (
            name,
            tuple(_drawn(column, name, scale, summary) for column, scale in zip(columns, scales, strict=True)),
            reasons.get(name),
        )
        for name in group.rows
    )
    heads = tuple(Head(column=column, axis=bars.axis(scale)) for column, scale in zip(columns, scales, strict=True))
    notes = tuple(note for note in remarks.notes(group) if note not in reasons.values())
    return Table(
        group=group,
        heading=heading,
        heads=heads,
        rows=rows,
        notes=notes,
        doubts=remarks.doubts(group, summary),
        causes=remarks.causes(group, summary),
        launches=remarks.launch_rows(group, summary),
    )


def _drawn_estimates(column: Column) -> list[Estimate]:
    return [
        estimate
        for cell in column.cells.values()
        for estimate in (cell.overhead, cell.simultaneous)
        if estimate is not None
    ]


def _drawn(column: Column, name: str, scale: bars.Scale, summary: Summary) -> Drawn:
    comparison = column.cells.get(name)
    text = cell_text(column, comparison, summary)
    noise = column.noise.overhead if column.noise else None
    svg = Markup("")
    if text.drawn is not None:
        svg = bars.bar(scale, text.drawn, text.outer, noise, summary.margin)
    return Drawn(text=text, bar=svg, title=_cell_title(name, column, comparison, text))


def _cell_title(name: str, column: Column, comparison: Comparison | None, text: CellText) -> str:
    parts = [f"{name}, {column.info.label}: {text.verdict.value}"]
    if comparison and comparison.overhead:
        parts.append(f"n = {comparison.overhead.n} rounds")
    if comparison and comparison.simultaneous:
        parts.append(f"the interval that decides {units.overhead_interval(comparison.simultaneous).bounds}")
    if comparison and comparison.absolute_s:
        parts.append(f"absolute {column.absolute(comparison.absolute_s)}")
    if comparison and disagree(column, comparison):
        parts.append("overhead (geometric mean) and added time (arithmetic mean) differ in sign")
    if text.note:
        parts.append(text.note)
    return "; ".join(parts)
