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
from tare.model.text import printable
from tare.report import published, remarks, units, view
from tare.report.cells import CellText, brief_text
from tare.report.tables import together
from tare.report.verdicts import EXIT_MEANINGS, LOOKS, mark
from tare.report.view import Column, TableGroup

_NAME_WIDTH: Final = 14
_GAP: Final = 1
_CELL_WIDTH: Final = 21
"""Three columns of this width stand beside each other in eighty."""
_SPACE: Final = {True: " ", False: "\u00a0"}
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
        say = _writer(plain)
        summary = self.summary
        for warning in remarks.warnings(summary, view.disturbed_text(summary)):
            yield _item("!", "bold yellow", say(warning))
        first, *rest = view.clauses(summary)
        yield Text(say(first), style="bold")
        for clause in rest:
            yield _item(" ", "", say(clause))
        badge = "emulated lab: " if summary.emulated else ""
        yield Text(say(badge + (view.machine_line(summary) if summary.emulated else summary.machine)), style="dim")
        every = view.groups(summary)
        groups = together(every if self.all_metrics else view.judged(every))
        for group in groups:
            columns = group.columns if self.all_metrics else view.first_screen(group.columns, MOST_COLUMNS)
            yield Text("")
            if len(groups) > 1:
                yield Text(say(group.name), style="bold underline")
            for number, part in enumerate(_parts(columns, group, summary, options.max_width, plain)):
                if number:
                    yield Text("")
                yield _table(part, group, summary, plain)
            if hidden := [column.info.label for column in group.columns if column not in columns]:
                yield Text(say(_hidden(hidden)), style="dim")
        if figures_only := _figures_only(every, groups):
            yield Text(say(f"Without a verdict, in the HTML report: {_named(figures_only)}."), style="dim")
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


def _figures_only(every: Sequence[TableGroup], shown: Sequence[TableGroup]) -> list[str]:
    """Return the labels of metrics that get no verdict and are in no table."""
    keys = {(column.info.group, column.info.key) for group in shown for column in group.columns}
    infos = (column.info for group in every for column in group.columns)
    return list(dict.fromkeys(info.label for info in infos if (info.group, info.key) not in keys))


def _hidden(labels: Sequence[str]) -> str:
    return f"Not shown here, but in the HTML report: {_named(labels)}."


def _writer(plain: bool) -> Callable[[str], str]:
    """Return what makes text fit the terminal; names and reasons come from outside, and must not steer it."""
    return units.to_ascii if plain else printable


def _named(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= view.LISTED_COLUMNS else f"{len(labels)} more metrics"


# --- tables -----------------------------------------------------------------------------------------------------


def _texts(column: Column, group: TableGroup, summary: Summary) -> list[CellText]:
    return [brief_text(column, column.cells.get(name), summary) for name in group.rows]


def _bounds(text: CellText) -> str:
    """Return the bounds of a cell's first line, without the space in them where the line would be too long else."""
    whole = f"{text.mark} {text.lead} {text.lead_bounds}"
    return text.lead_bounds if len(whole) <= _CELL_WIDTH else text.lead_bounds.replace(", ", ",")


def _head(column: Column) -> tuple[str, str]:
    """Return the metric, and what the two lines of its cells are."""
    other = "loop" if column.baseline and column.baseline.loop_s else "mean"
    if column.leads_with_time:
        return column.info.label, f"added {column.unit}; {other}"
    return column.info.label, f"overhead; {other}"


def _width(column: Column, group: TableGroup, summary: Summary, plain: bool) -> int:
    """Return how wide a column is: ASCII writes `<=` where else one character stands."""
    texts = _texts(column, group, summary)
    firsts = [f"{text.mark} {text.lead} {_bounds(text)}" for text in texts]
    seconds = [f"  {text.second}" for text in texts]
    lines = [units.to_ascii(line) if plain else line for line in (*firsts, *seconds)]
    return max([12, len(_head(column)[1]), *map(len, lines)])


def _parts(
    columns: Sequence[Column], group: TableGroup, summary: Summary, width: int, plain: bool
) -> list[Sequence[Column]]:
    """Split the columns into as few tables as the width allows, each with about as many columns as the others."""
    widths = [_width(column, group, summary, plain) + _GAP for column in columns]
    for tables in range(1, len(columns) + 1):
        size = -(-len(columns) // tables)
        starts = range(0, len(columns), size)
        if all(_NAME_WIDTH + sum(widths[start : start + size]) <= width for start in starts):
            return [columns[start : start + size] for start in starts]
    return [[column] for column in columns]


def _table(columns: Sequence[Column], group: TableGroup, summary: Summary, plain: bool) -> Table:
    say = _writer(plain)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="")
    table.add_column(
        Text(say(f"against {summary.baseline}"), style="dim"), width=_NAME_WIDTH, style="bold", overflow="fold"
    )
    widths = [_width(column, group, summary, plain) for column in columns]
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
    say = _writer(plain)
    look = LOOKS[text.verdict]
    result = Text(f"{text.ascii if plain else text.mark} {say(text.lead)}", style=look.style)
    if text.lead_bounds:
        result.append(" " + say(_bounds(text)), style="not bold")
    if text.second:
        result.append("\n  " + say(text.second), style="not bold dim")
    return result


# --- below the tables -------------------------------------------------------------------------------------------


def _below(summary: Summary, groups: Sequence[TableGroup], plain: bool) -> Iterator[RenderableType]:
    say = _writer(plain)
    yield Text("")
    yield _legend(summary, plain)
    for group in groups:
        items = list(_of_group(group, summary, plain))
        if items and (heading := view.heading(group, groups)):
            yield Text(say(heading), style="dim")
        yield from items
    for row in published.rows(summary, view.groups(summary)):
        what = " ".join(filter(None, (row.environment + ",", row.workload, row.metric)))
        here = f"{row.here} of {summary.baseline}" if row.here.endswith("]") else row.here
        yield _item("=", "dim", say(f"{what}: {here}; published: {row.published or row.told}; {row.conditions}"))
    yield Text("")
    limit = f", limit {units.percent(summary.limit, sign=False)}" if summary.limit is not None else ""
    yield Text(
        say(
            f"n = {summary.rounds_done} rounds; intervals {summary.confidence * 100:g} %, margin "
            f"±{units.percent(summary.margin, sign=False)}{limit}; {view.counts_text(summary)}."
        )
    )
    for sentence in filter(None, (remarks.missed_text(summary), remarks.looks_text(summary))):
        yield Text(say(f"{sentence[:1].upper()}{sentence[1:]}."))
    if summary.emulated:
        yield Text(
            say(
                "Emulated lab: nodes are namespaces of one machine. Compare environments; do not quote as a cluster's."
            ),
            style="yellow",
        )
    yield Text(say(f"Exit code {summary.exit_code}: {EXIT_MEANINGS.get(summary.exit_code, 'unknown')}."))


def _of_group(group: TableGroup, summary: Summary, plain: bool) -> Iterator[RenderableType]:
    """Yield what is to be known of the cells of one table, a line each."""
    say = _writer(plain)
    for who, why in remarks.causes(group, summary):
        yield _item("->" if plain else "→", "bold", say(f"{who}: {why}"))
    for doubt in remarks.doubts(group, summary):
        yield _item("!", "yellow", say(doubt))
    for note in remarks.notes(group):
        look = LOOKS[note.verdict]
        text = f"{_where(note)}: {note.verdict.value}, {note.text}"
        yield _item(look.ascii if plain else look.symbol, look.style, say(text))


def _where(note: remarks.Note) -> str:
    names = ", ".join(note.environments)
    return f"{names} on {note.on}" if note.columns else names


def _legend(summary: Summary, plain: bool) -> Text:
    """Return what the symbols and words in the cells mean, those that are there."""
    say = _writer(plain)
    seen = {comparison.verdict for comparison in summary.comparisons}
    within = sorted({item.within for item in summary.comparisons if item.within is not None})
    result = Text(style="dim")
    for verdict, look in LOOKS.items():
        if verdict not in seen or verdict is Verdict.NOT_JUDGED:
            continue
        marks = [mark(verdict, each, plain=plain) for each in within] if verdict is Verdict.NO_COST else []
        words = "no cost: within so many %" if marks else verdict.value
        symbol = " ".join(marks) or (look.ascii if plain else look.symbol)
        result.append(f"{symbol} ".replace(" ", _SPACE[plain]), style=f"{look.style} not dim")
        result.append(words.replace(" ", _SPACE[plain]) + "   ")
    result.append(say("≤ at most (95 %)   + is slower, also for rates") + "\n")
    loop = ", loop: by back-to-back operations" if any(item.loop_s for item in summary.comparisons) else ""
    raw = ", not adjusted" if any(item.adjusted_for for item in summary.comparisons) else ""
    result.append(say(f"First line: the typical launch. mean: what programs pay on average{raw}{loop}."))
    return result


def _item(symbol: str, style: str, text: str) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(symbol, style=style), Text(text))
    return grid
