"""Render the report's first screen in a terminal of 24 lines of 80 columns: one line an environment, one figure a cell.

`tare.report.terminal` renders the rest: intervals, means and caveats.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from tare.model import Comparison, Estimate, Summary, Verdict
from tare.model.text import counted
from tare.report import remarks, units, view
from tare.report.cells import BLOCKED, NOT_ESTIMATED, CellText, brief_text, percent_up
from tare.report.tables import merge
from tare.report.terminal import causes, encoder, machine, proof_gaps, symbols, verdict_notes
from tare.report.verdicts import VERDICT_STYLES, exit_meaning
from tare.report.view import MetricColumn, TableGroup

_NAME_WIDTH: Final = 14
_CELL_WIDTH: Final = 12
"""Five columns of this width and their names fit into eighty characters."""
SHORT: Final = {Verdict.UNAVAILABLE: "not here", Verdict.NOT_COMPARABLE: "other work"}
NOT_COMPARED: Final = (Verdict.BASELINE, Verdict.NOISE_FLOOR, Verdict.NOT_JUDGED)
"""What needs no explanation: the names of the rows tell it."""
MOST_GROUPS: Final = 4
"""Most tables; further ones are among the details."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefReport:
    """The first screen as a renderable of rich; `ascii_only` forces ASCII. `details` is the command that shows more."""

    summary: Summary
    details: str = ""
    ascii_only: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield warnings, headline, machine, tables, causes, reasons of cells without figures, where the rest is."""
        plain = self.ascii_only or options.ascii_only
        encode, summary = encoder(plain), self.summary
        for warning in remarks.warnings(summary):
            yield Text.assemble(("! ", "bold yellow"), encode(warning))
        yield Text(encode(summary.headline), style="bold")
        yield machine(summary, plain, no_wrap=True)
        groups = merge(view.judged(view.groups(summary)))
        most = max(1, (options.max_width - _NAME_WIDTH - 1) // (_CELL_WIDTH + 1))
        shown = [view.first_screen(group.columns, most) for group in groups[:MOST_GROUPS]]
        for group, columns in zip(groups, shown, strict=False):
            yield Text("")
            if len(groups) > 1:
                yield Text(encode(group.name), style="bold underline")
            yield _table(group, columns, summary, plain, options.max_width)
        yield from symbols(summary, plain, options.max_width, (), NOT_COMPARED)
        for group in groups:
            yield from causes(group, summary, plain)
            yield from proof_gaps(group, summary, plain)
            yield from verdict_notes(group, plain, (*BLOCKED, Verdict.FAILS))
        rounds = "1 round" if summary.rounds_done == 1 else f"{summary.rounds_done} rounds"
        half = f"± is half a {summary.confidence * 100:g} % interval"
        yield Text(encode(f"n = {rounds}, {view.counts_text(summary)}; {half}."))
        yield Text(encode(f"Exit code {summary.exit_code}: {exit_meaning(summary)}."))
        doubts = sum(len(remarks.caveats(group, summary)) for group in groups)
        hidden = sum(len(group.columns) for group in groups) - sum(map(len, shown))
        parts = ["Intervals", "means"]
        parts += [counted(count, word) for count, word in ((doubts, "caveat"), (hidden, "further metric")) if count]
        if self.details:
            yield Text(encode(f"{', '.join(parts)}: {self.details}"), style="dim")


def _table(group: TableGroup, columns: Sequence[MetricColumn], summary: Summary, plain: bool, width: int) -> Table:
    """Return the table of some columns of a group."""
    encode = encoder(plain)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    left = width - len(columns) * (_CELL_WIDTH + 1)
    names = max(_NAME_WIDTH, min(left - 1, max(map(len, group.rows))))
    table.add_column(
        Text(encode(f"against {summary.baseline}"), style="dim"), width=names, style="bold", overflow="fold"
    )
    for column in columns:
        table.add_column(Text(_folded(encode(column.info.label)), style="bold"), width=_CELL_WIDTH, vertical="bottom")
    for name in view.by_cost(group, summary):
        table.add_row(Text(encode(name)), *(_cell(column, name, summary, plain) for column in columns))
    return table


def _folded(label: str) -> str:
    """Return the label of a column in lines in which a number stays with its unit."""
    return "\n".join(textwrap.wrap(units.keep_together(label), _CELL_WIDTH)).replace("\u00a0", " ")


def _cell(column: MetricColumn, name: str, summary: Summary, plain: bool) -> Text:
    comparison = column.cells.get(name)
    text = brief_text(column, comparison, summary)
    figure = _figure(comparison, text, summary)
    mark = text.ascii if plain else text.mark
    figure = encoder(plain)(figure).replace(" %", "%")
    return Text(f"{mark} {figure}", style=VERDICT_STYLES[text.verdict].style)


def _figure(comparison: Comparison | None, text: CellText, summary: Summary) -> str:
    """Return the one figure of a cell: the baseline's value, a bound, or a difference with half of its interval."""
    if comparison is None or text.verdict in BLOCKED:
        return SHORT.get(text.verdict, text.lead)
    is_baseline = comparison.environment == summary.baseline
    if comparison.overhead is None and text.lead == NOT_ESTIMATED:
        return "not known"
    if is_baseline or text.verdict is Verdict.FAILS or comparison.overhead is None:
        return text.lead
    if text.verdict is Verdict.INCONCLUSIVE and comparison.overhead.high > 0:
        return f"≤{percent_up(comparison.overhead.high, sign=False)}"
    return with_half(comparison.overhead)


def with_half(overhead: Estimate) -> str:
    """Return an overhead with half the width of its interval and as many decimals: `+59±1 %`, `×12±2`."""
    shown, half = units.overhead_interval(overhead, compact=True), (overhead.high - overhead.low) / 2
    half *= 1 if overhead.value >= units.TIMES_FROM else 100
    places = len(shown.number.partition(".")[2])
    least = max(half, 10.0**-places)
    return f"{shown.number}±{units.number(least, places)} {shown.unit}".rstrip()
