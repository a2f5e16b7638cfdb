"""Say the first screen of the report in a terminal of eighty columns, with or without Unicode and colour.

`render` returns an object that adapts to the console that prints it: its width decides how many columns stand side by
side, its encoding whether symbols are ASCII; rich itself respects `NO_COLOR`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from tare.model import Summary, Verdict
from tare.report import published, units, view
from tare.report.tables import together
from tare.report.verdicts import EXIT_MEANINGS, LOOKS
from tare.report.view import CellText, Column, Group
from tare.text import printable

_NAME_WIDTH: Final = 14
_GAP: Final = 1
MOST_COLUMNS: Final = 6
"""Metrics that the terminal shows of one group: two tables of three in eighty columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReport:
    """The report as rich prints it. `ascii_only` forces ASCII, else the console's encoding decides."""

    summary: Summary
    all_metrics: bool = False
    ascii_only: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the sentence, the machine, the tables and what is to be known about them."""
        plain = self.ascii_only or options.ascii_only
        say: Callable[[str], str] = units.to_ascii if plain else printable
        summary = self.summary
        yield Text(say(summary.headline), style="bold")
        badge = "emulated lab: " if summary.emulated else ""
        yield Text(say(badge + (view.machine_line(summary) if summary.emulated else summary.machine)), style="dim")
        if disturbed := view.disturbed_text(summary):
            yield Text(say(f"! {disturbed}"), style="yellow")
        groups = together(view.groups(summary))
        for group in groups:
            columns = group.columns if self.all_metrics else view.first_screen(group.columns, MOST_COLUMNS)
            yield Text("")
            if len(groups) > 1:
                yield Text(say(group.name), style="bold underline")
            for number, part in enumerate(_parts(columns, group, summary, options.max_width)):
                if number:
                    yield Text("")
                yield _table(part, group, summary, plain)
            if hidden := [column.info.label for column in group.columns if column not in columns]:
                yield Text(say(_hidden(hidden)), style="dim")
        yield from _below(summary, groups, plain)


def render(summary: Summary, *, all_metrics: bool = False) -> TerminalReport:
    """Return what `rich.console.Console.print` shows; all metrics, or those of the report's first screen."""
    return TerminalReport(summary=summary, all_metrics=all_metrics)


def render_text(summary: Summary, *, width: int = 80, ascii_only: bool = False, all_metrics: bool = False) -> str:
    """Return the report as text without colour."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False)
    report = TerminalReport(summary=summary, ascii_only=ascii_only, all_metrics=all_metrics)
    with console.capture() as captured:
        console.print(report)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _hidden(labels: Sequence[str]) -> str:
    named = ", ".join(labels) if len(labels) <= view.LISTED_COLUMNS else f"{len(labels)} more metrics"
    return f"Not shown here, but in the HTML report: {named}."


# --- tables -----------------------------------------------------------------------------------------------------


def _texts(column: Column, group: Group, summary: Summary) -> list[CellText]:
    return [view.cell_text(column, column.cells.get(name), summary, compact=True) for name in group.rows]


def _second_line(text: CellText) -> str:
    if text.verdict is Verdict.BASELINE:
        return text.second.rpartition(", n")[0]
    return text.second if text.second.endswith("/s") else f"{text.second} {text.second_bounds}".strip()


def _first_line(text: CellText) -> tuple[str, str]:
    return text.lead, text.lead_bounds


def _head(column: Column) -> tuple[str, str]:
    """Return the metric, and what the two lines of its cells are."""
    if column.leads_with_time:
        return column.info.label, f"added {column.unit}, overhead"
    return column.info.label, "overhead, rate" if column.is_rate else "overhead, added time"


def _width(column: Column, group: Group, summary: Summary) -> int:
    texts = _texts(column, group, summary)
    first = [len(" ".join(_first_line(text)).strip()) + 2 for text in texts]
    second = [len(_second_line(text)) + 2 for text in texts]
    return max([12, len(_head(column)[1]), *first, *second])


def _parts(columns: Sequence[Column], group: Group, summary: Summary, width: int) -> list[Sequence[Column]]:
    """Split the columns into as few tables as the width allows, each with about as many columns as the others."""
    widths = [_width(column, group, summary) + _GAP for column in columns]
    for tables in range(1, len(columns) + 1):
        size = -(-len(columns) // tables)
        starts = range(0, len(columns), size)
        if all(_NAME_WIDTH + sum(widths[start : start + size]) <= width for start in starts):
            return [columns[start : start + size] for start in starts]
    return [[column] for column in columns]


def _table(columns: Sequence[Column], group: Group, summary: Summary, plain: bool) -> Table:
    say: Callable[[str], str] = units.to_ascii if plain else printable
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="")
    table.add_column(
        Text(say(f"against {summary.baseline}"), style="dim"), width=_NAME_WIDTH, style="bold", overflow="fold"
    )
    widths = [_width(column, group, summary) for column in columns]
    for column, width in zip(columns, widths, strict=True):
        label, meaning = _head(column)
        head = Text.assemble((say(label), "bold"), "\n", (say(meaning), "dim"))
        table.add_column(head, width=width, overflow="fold", vertical="bottom")
    rule = "-" if plain else "─"
    table.add_row(*(Text(rule * width, style="dim") for width in (_NAME_WIDTH, *widths)))
    texts = [_texts(column, group, summary) for column in columns]
    for index, name in enumerate(group.rows):
        table.add_row(Text(say(name)), *(_cell(own[index], plain) for own in texts))
    return table


def _cell(text: CellText, plain: bool) -> Text:
    say: Callable[[str], str] = units.to_ascii if plain else printable
    look = LOOKS[text.verdict]
    lead, bounds = _first_line(text)
    result = Text(f"{look.ascii if plain else look.symbol} {say(lead)}", style=look.style)
    if bounds:
        result.append(" " + say(bounds), style="not bold")
    if second := _second_line(text):
        result.append("\n  " + say(second), style="not bold dim")
    return result


# --- below the tables -------------------------------------------------------------------------------------------


def _below(summary: Summary, groups: Sequence[Group], plain: bool) -> Iterator[RenderableType]:
    say: Callable[[str], str] = units.to_ascii if plain else printable
    yield Text("")
    yield _legend(summary, plain)
    for group in groups:
        if heading := view.heading(group, groups):
            yield Text(say(heading), style="dim")
        for who, why in view.causes(group, summary):
            yield _item("->" if plain else "→", "bold", say(f"{who}: {why}"))
        for warning in (*view.self_warnings(group), *view.modes_warnings(group)):
            yield _item("!", "yellow", say(warning))
        for note in view.notes(group):
            look = LOOKS[note.verdict]
            yield _item(
                look.ascii if plain else look.symbol,
                look.style,
                say(f"{_where(note)}: {note.verdict.value}, {note.text}"),
            )
    for row in published.rows(summary, view.groups(summary)):
        what = " ".join(filter(None, (row.environment + ",", row.workload, row.metric)))
        here = f"{row.here} of {summary.baseline}" if row.here.endswith("]") else row.here
        yield _item("=", "dim", say(f"{what}: {here}; published: {row.published or row.told}"))
    yield Text("")
    limit = f", limit {units.percent(summary.limit, sign=False)}" if summary.limit is not None else ""
    yield Text(
        say(
            f"n = {summary.rounds_done} rounds; intervals {summary.confidence * 100:g} %, margin "
            f"±{units.percent(summary.margin, sign=False)}{limit}; {view.counts_text(summary)}."
        )
    )
    if summary.emulated:
        yield Text(
            say(
                "Emulated lab: nodes are namespaces of one machine. Compare environments; do not quote as a cluster's."
            ),
            style="yellow",
        )
    yield Text(say(f"Exit code {summary.exit_code}: {EXIT_MEANINGS.get(summary.exit_code, 'unknown')}."))


def _where(note: view.Note) -> str:
    names = ", ".join(note.environments)
    return f"{names} on {note.on}" if note.columns else names


def _legend(summary: Summary, plain: bool) -> Text:
    seen = {comparison.verdict for comparison in summary.comparisons}
    result = Text(style="dim")
    for verdict, look in LOOKS.items():
        if verdict in seen:
            result.append(f"{look.ascii if plain else look.symbol} ", style=f"{look.style} not dim")
            result.append(verdict.value.replace(" ", "\u00a0" if not plain else " ") + "   ")
    result.append("+ is slower, also for rates")
    return result


def _item(symbol: str, style: str, text: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(symbol, style=style), Text(text))
    return grid
