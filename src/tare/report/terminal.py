"""Render the report's first screen for a terminal of eighty columns, with or without Unicode and colour.

`render` returns an object that adapts to its console: the width decides how many columns a table has, the encoding
whether symbols are ASCII. Rich itself respects `NO_COLOR`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from tare.model import Summary, Verdict
from tare.model.text import printable
from tare.report import published_results, remarks, units, view
from tare.report.cells import CellText, brief_text
from tare.report.tables import merge
from tare.report.verdicts import VERDICT_STYLES, exit_meaning, mark
from tare.report.view import MetricColumn, TableGroup

_NAME_WIDTH: Final = 14
"""The least width of the names of rows; they take what the columns leave, so that they need not be broken."""
_GAP: Final = 1
_CELL_WIDTH: Final = 21
"""Three columns of this width fit into eighty characters."""
MOST_METRICS: Final = 6
"""Most metrics of one group in the terminal: two tables of three in eighty columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReport:
    """The report as a renderable of rich. `ascii_only` forces ASCII; otherwise the console's encoding decides."""

    summary: Summary
    all_metrics: bool = False
    ascii_only: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield warnings, headline, machine, tables and the notes below them."""
        plain = self.ascii_only or options.ascii_only
        encode = encoder(plain)
        summary = self.summary
        for warning in remarks.warnings(summary):
            yield item("!", "bold yellow", encode(warning))
        yield Text(encode(summary.headline), style="bold")
        yield machine(summary, plain)
        all_groups = view.groups(summary)
        groups = merge(all_groups if self.all_metrics else view.judged(all_groups))
        for group in groups:
            columns = group.columns if self.all_metrics else view.first_screen(group.columns, MOST_METRICS)
            printed = [_printed(column, group, summary, plain) for column in columns]
            yield Text("")
            if len(groups) > 1:
                yield Text(encode(group.name), style="bold underline")
            for number, part in enumerate(_parts(printed, options.max_width)):
                if number:
                    yield Text("")
                yield _table(part, group, summary, plain, options.max_width)
            if hidden := [column.info.label for column in group.columns if column not in columns]:
                yield Text(encode(f"HTML report only: {_list(hidden)}."), style="dim")
        if not_judged := _not_judged(all_groups, groups):
            yield Text(encode(f"HTML report only, no verdict: {_list(not_judged)}."), style="dim")
        yield from _below(summary, groups, plain, options.max_width)


def render(summary: Summary, *, all_metrics: bool = False) -> TerminalReport:
    """Return the report for `rich.console.Console.print`: all metrics, or those of the report's first screen."""
    return TerminalReport(summary=summary, all_metrics=all_metrics)


def render_text(summary: Summary, *, width: int = 80, ascii_only: bool = False, all_metrics: bool = False) -> str:
    """Return the report as text without colour."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False)
    report = TerminalReport(summary=summary, ascii_only=ascii_only, all_metrics=all_metrics)
    with console.capture() as captured:
        console.print(report)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _not_judged(all_groups: Sequence[TableGroup], shown: Sequence[TableGroup]) -> list[str]:
    """Return the labels of metrics without a verdict, which are in no table."""
    keys = {(column.info.group, column.info.key) for group in shown for column in group.columns}
    infos = (column.info for group in all_groups for column in group.columns)
    return list(dict.fromkeys(info.label for info in infos if (info.group, info.key) not in keys))


def encoder(plain: bool) -> Callable[[str], str]:
    """Return the function that makes text safe for the terminal; names and reasons may contain control characters."""
    return units.to_ascii if plain else printable


def _list(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= view.LISTED_COLUMNS else f"{len(labels)} more metrics"


def machine(summary: Summary, plain: bool, *, no_wrap: bool = False) -> Text:
    """Return the line about the machine, cut at the terminal's width with `no_wrap`."""
    badge = "emulated lab: " if summary.emulated else ""
    line = badge + (view.machine_line(summary) if summary.emulated else summary.machine)
    return Text(encoder(plain)(line), style="dim", no_wrap=no_wrap, overflow="crop" if no_wrap else None)


# --- tables -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Printed:
    """A column of a table: its head, its cells by row, and the width that they need."""

    head: tuple[str, str]
    cells: tuple[CellText, ...]
    width: int


def _bounds(text: CellText) -> str:
    """Return the bounds of a cell's first line; if the line would be too long, without the space in them.

    It stays where a number has a comma itself, as `[2,552, 6,754]`.
    """
    whole, bounds = f"{text.mark} {text.lead} {text.lead_bounds}", text.lead_bounds
    return bounds if len(whole) <= _CELL_WIDTH or bounds.count(",") > 1 else bounds.replace(", ", ",")


def _head(column: MetricColumn) -> tuple[str, str]:
    """Return the metric, and what the two lines of its cells show."""
    other = "loop" if column.baseline and column.baseline.loop_s else "mean"
    if column.leads_with_time:
        return column.info.label, f"added {column.unit}; {other}"
    return column.info.label, f"overhead; {other}"


def _printed(column: MetricColumn, group: TableGroup, summary: Summary, plain: bool) -> _Printed:
    """Return a column as it is printed; in ASCII it can be wider, because `<=` has two characters."""
    head = _head(column)
    cells = tuple(brief_text(column, column.cells.get(name), summary) for name in group.rows)
    firsts = [f"{cell.mark} {cell.lead} {_bounds(cell)}" for cell in cells]
    seconds = [f"  {cell.second}" for cell in cells]
    lines = [units.to_ascii(line) if plain else line for line in (*firsts, *seconds)]
    return _Printed(head=head, cells=cells, width=max([12, len(head[1]), *map(len, lines)]))


def _parts(columns: Sequence[_Printed], width: int) -> list[Sequence[_Printed]]:
    """Split the columns into as few tables as the width allows, of about equal size."""
    widths = [column.width + _GAP for column in columns]
    for tables in range(1, len(columns) + 1):
        size = -(-len(columns) // tables)
        starts = range(0, len(columns), size)
        if all(_NAME_WIDTH + sum(widths[start : start + size]) <= width for start in starts):
            return [columns[start : start + size] for start in starts]
    return [[column] for column in columns]


def _name_width(columns: Sequence[_Printed], names: Sequence[str], width: int) -> int:
    """Return the width of the names beside some columns: enough for the longest, if the columns leave that much."""
    left = width - sum(column.width + _GAP for column in columns)
    return max(_NAME_WIDTH, min(left, max(map(cell_len, names), default=0)))


def _table(columns: Sequence[_Printed], group: TableGroup, summary: Summary, plain: bool, max_width: int) -> Table:
    encode = encoder(plain)
    name_width = _name_width(columns, [encode(name) for name in group.rows], max_width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="")
    table.add_column(
        Text(encode(f"against {summary.baseline}"), style="dim"), width=name_width, style="bold", overflow="fold"
    )
    for column in columns:
        label, meaning = column.head
        head = Text.assemble((encode(label), "bold"), "\n", (encode(meaning), "dim"))
        table.add_column(head, width=column.width, overflow="fold", vertical="bottom")
    rule = "-" if plain else "─"
    widths = (name_width, *(column.width for column in columns))
    table.add_row(*(Text(rule * width, style="dim") for width in widths))
    labels = remarks.proof_labels(group, summary)
    for index, name in enumerate(group.rows):
        row_name = Text(encode(name))
        if name in labels:
            row_name.append(f"\n{labels[name].removeprefix('treatment ')}", style="not bold yellow")
        table.add_row(row_name, *(_cell(column.cells[index], plain) for column in columns))
    return table


def _cell(text: CellText, plain: bool) -> Text:
    encode = encoder(plain)
    look = VERDICT_STYLES[text.verdict]
    result = Text(f"{text.ascii if plain else text.mark} {encode(text.lead)}", style=look.style)
    if text.lead_bounds:
        result.append(" " + encode(_bounds(text)), style="not bold")
    if text.second:
        result.append("\n  " + encode(text.second), style="not bold dim")
    return result


# --- below the tables -------------------------------------------------------------------------------------------


def _below(summary: Summary, groups: Sequence[TableGroup], plain: bool, width: int) -> Iterator[RenderableType]:
    encode = encoder(plain)
    yield Text("")
    yield from _legend(summary, plain, width)
    for group in groups:
        items = list(_group_notes(group, summary, plain))
        if items and (heading := view.heading(group, groups)):
            yield Text(encode(heading), style="dim")
        yield from items
    for row in published_results.rows(summary, view.groups(summary)):
        label = " ".join(filter(None, (row.environment + ",", row.workload, row.metric)))
        here = f"{row.here}, against {summary.baseline}" if "]" in row.here else row.here
        yield item(
            "=", "dim", encode(f"{label}: {here}; published: {row.published or row.statement}; {row.conditions}")
        )
    yield Text("")
    limit = f", limit {units.percent(summary.limit, sign=False)}" if summary.limit is not None else ""
    rounds = "1 round" if summary.rounds_done == 1 else f"{summary.rounds_done} rounds"
    yield Text(
        encode(
            f"n = {rounds}; intervals {summary.confidence * 100:g} %, margin "
            f"±{units.percent(summary.margin, sign=False)}{limit}; {view.counts_text(summary)}."
        )
    )
    for sentence in filter(None, (remarks.missed_text(summary), remarks.looks_text(summary))):
        yield Text(encode(f"{sentence[:1].upper()}{sentence[1:]}."))
    if summary.emulated:
        yield Text(
            encode(
                "Emulated lab: nodes are namespaces on one machine. Compare environments with each other; "
                "do not report these as results of a cluster."
            ),
            style="yellow",
        )
    yield Text(encode(f"Exit code {summary.exit_code}: {exit_meaning(summary)}."))


def _group_notes(group: TableGroup, summary: Summary, plain: bool) -> Iterator[RenderableType]:
    """Yield the notes on the cells of one table: causes, caveats and reasons."""
    encode = encoder(plain)
    yield from causes(group, summary, plain)
    yield from proof_gaps(group, summary, plain)
    for caveat in remarks.caveats(group, summary):
        yield item("!", "yellow", encode(caveat))
    yield from verdict_notes(group, plain)


def causes(group: TableGroup, summary: Summary, plain: bool) -> Iterator[RenderableType]:
    """Yield why environments of one table cost what they cost, and what helps."""
    for environments, cause in remarks.causes(group, summary):
        yield item("->" if plain else "→", "bold", encoder(plain)(f"{environments}: {cause}"))


def proof_gaps(group: TableGroup, summary: Summary, plain: bool) -> Iterator[RenderableType]:
    """Yield what is not proven of the treatments of one table."""
    for environments, statement in remarks.proof_gaps(group, summary):
        yield item("!", "yellow", encoder(plain)(f"{environments}: {statement}"))


def verdict_notes(group: TableGroup, plain: bool, of: Collection[Verdict] = tuple(Verdict)) -> Iterator[RenderableType]:
    """Yield the reasons of these verdicts of one table."""
    for note in (each for each in remarks.notes(group) if each.verdict in of):
        look = VERDICT_STYLES[note.verdict]
        text = f"{_cells_of(note)}: {note.verdict.value}, {note.text}"
        yield item(look.ascii if plain else look.symbol, look.style, encoder(plain)(text))


def _cells_of(note: remarks.Note) -> str:
    names = ", ".join(note.environments)
    return f"{names} on {note.on}" if note.columns else names


def _legend(summary: Summary, plain: bool, width: int) -> Iterator[Text]:
    """Yield the meanings of the symbols and words that occur in the cells."""
    yield from symbols(summary, plain, width, ("≤ at most (one-sided 95 %)", "+ is slower, also for rates"))
    loop = "; loop: back-to-back operations" if any(item.loop_s for item in summary.comparisons) else ""
    raw = ", not adjusted" if any(item.adjusted_for for item in summary.comparisons) else ""
    words = f"First line: typical launch; mean: average over all iterations{raw}{loop}."
    yield Text(encoder(plain)(words), style="dim")


def symbols(
    summary: Summary,
    plain: bool,
    width: int,
    more: Sequence[str],
    without: Collection[Verdict] = (Verdict.NOT_JUDGED,),
) -> list[Text]:
    """Return the lines that explain the symbols of verdicts that occur, and `more` words."""
    encode = encoder(plain)
    seen = {comparison.verdict for comparison in summary.comparisons}
    margins = sorted({item.within for item in summary.comparisons if item.within is not None})
    entries = []
    for verdict, look in VERDICT_STYLES.items():
        if verdict not in seen or verdict in without:
            continue
        marks = [mark(verdict, margin, plain=plain) for margin in margins] if verdict is Verdict.NO_COST else []
        words = "no cost: within this many %" if marks else verdict.value
        symbol = " ".join(marks) or (look.ascii if plain else look.symbol)
        entries.append(Text.assemble((symbol, f"{look.style} not dim"), f" {words}", style="dim"))
    entries += [Text(encode(words), style="dim") for words in more]
    return _fill_lines(entries, width)


def _fill_lines(entries: Sequence[Text], width: int) -> list[Text]:
    """Return the entries side by side in as few lines as the width allows; none is broken."""
    lines: list[Text] = []
    for entry in entries:
        if lines and lines[-1].cell_len + 3 + entry.cell_len <= width:
            lines[-1].append("   ").append_text(entry)
        else:
            lines.append(entry)
    return lines


def item(symbol: str, style: str, text: str, *, width: int = 1) -> Table:
    """Return a paragraph with a symbol before it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=width)
    grid.add_column(overflow="fold")
    grid.add_row(Text(symbol, style=style), Text(text))
    return grid
