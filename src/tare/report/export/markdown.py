"""Markdown for a pull request: the headline, the tables of the first screen, and the cells without a verdict.

Every text of a study is escaped: no name or message of a program becomes markup, a link, or a mention of a person.
The document is at most 65,000 characters long, so that GitHub and GitLab take it as one comment; what does not fit is
counted, and the cells that are missing are named in the other formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tare import __version__
from tare.model import Comparison, Summary
from tare.model.text import counted, printable, without_html
from tare.report import remarks, units, view
from tare.report.cells import BLOCKED, cell_text
from tare.report.export.format import TextFormat
from tare.report.frames import TABLES, Frame, Source
from tare.report.tables import merge
from tare.report.verdicts import exit_meaning
from tare.report.view import MetricColumn, TableGroup

MOST_CHARACTERS: Final = 65_000
_RESERVE: Final = 500
"""Characters that stay free for the line that counts what is left out."""

LONGEST_TEXT: Final = 1000
MOST_WARNINGS: Final = 10

_MARKUP: Final = re.compile(r"[\\`*_{}\[\]#|~$^]")
_LINKS: Final = re.compile(r"@(?=\w)|:(?=//)|www(?=\.)", re.IGNORECASE)
"""GitHub makes mentions and links of what these begin, wherever they occur; a comment behind them prevents that."""


def text(source: Source) -> str:
    """Return the document."""
    blocks, size, left_out = [], 0, 0
    for block in _blocks(source):
        if size + len(block) + 2 > MOST_CHARACTERS - _RESERVE:
            left_out += 1
            continue
        blocks.append(block)
        size += len(block) + 2
    if left_out:
        blocks.append(
            f"_{left_out:,} parts of this report do not fit into {MOST_CHARACTERS:,} characters; "
            "`tare report RESULTS --html FILE` has all of it._"
        )
    return "\n\n".join(blocks) + "\n"


def _blocks(source: Source) -> Iterator[str]:
    """Yield the parts of the document, the most important first; each is whole by itself."""
    summary = source.summary
    yield f"### tare: {escape(summary.name)}"
    warnings = remarks.warnings(summary)
    for warning in warnings[:MOST_WARNINGS]:
        yield f"> ⚠ {escape(warning)}"
    if len(warnings) > MOST_WARNINGS:
        yield f"> ⚠ and {len(warnings) - MOST_WARNINGS:,} more warnings"
    yield f"**{escape(summary.headline)}**"
    badge = "emulated lab: " if summary.emulated else ""
    yield f"{badge}{escape(view.machine_line(summary) if summary.emulated else summary.machine)}"
    groups = merge(view.judged(view.groups(summary)))
    yield f"_{escape(_ending(summary))}_"
    for group in groups:
        yield _table(group, view.heading(group, groups), summary)
        yield from _notes(group, summary)
    yield from _cells(source)


def _ending(summary: Summary) -> str:
    limit = units.percent(summary.limit, sign=False) if summary.limit is not None else "none"
    parts = [
        counted(summary.rounds_done, "round"),
        f"{100 * summary.confidence:g} % intervals",
        f"margin {units.percent(summary.margin, sign=False)}",
        f"limit {limit}",
        view.counts_text(summary),
        f"exit code {summary.exit_code}: {exit_meaning(summary)}",
        f"tare {__version__}",
    ]
    return "; ".join(parts)


def _table(group: TableGroup, heading: str, summary: Summary) -> str:
    columns = view.first_screen(group.columns)
    head = ["environment", *(column.info.label for column in columns)]
    lines = [_row(map(escape, head)), _row(["---"] * len(head))]
    for name in group.rows:
        cells = (_cell(column, column.cells.get(name), summary) for column in columns)
        lines.append(_row([escape(name), *cells]))
    if hidden := len(group.columns) - len(columns):
        lines += ["", f"_{hidden} more metrics are in the other formats._"]
    title = [f"#### {escape(heading)}", ""] if heading else []
    return "\n".join([*title, *lines])


def _row(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: MetricColumn, comparison: Comparison | None, summary: Summary) -> str:
    """Return a cell: the reading of the HTML table, the mean, each with its interval, and the number of rounds."""
    found = cell_text(column, comparison, summary)
    lines = [f"{found.mark} {found.lead} {found.lead_bounds}".strip()]
    if comparison is not None and comparison.verdict not in BLOCKED:
        if comparison.environment != summary.baseline:
            lines.append(f"{found.second} {found.second_bounds}".strip())
            lines += [f"mean {units.overhead_interval(comparison.mean.overhead)}"] if comparison.mean else []
        elif comparison.mean_absolute_s is not None:
            lines.append(f"mean {column.absolute(comparison.mean_absolute_s)}")
        shown = comparison.overhead or comparison.absolute_s
        lines += [f"n = {shown.n}"] if shown else []
    elif comparison is not None:
        lines.append(found.note)
    return "<br>".join(escape(line) for line in lines if line)


def _notes(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield what is written below a table: causes, what is not proven, caveats."""
    for name, cause in remarks.causes(group, summary):
        yield f"- → {escape(name)}: {escape(cause)}"
    for name, gap in remarks.proof_gaps(group, summary):
        yield f"- ! {escape(name)}: {escape(gap)}"
    for caveat in remarks.caveats(group, summary):
        yield f"- ! {escape(caveat)}"


def _cells(source: Source) -> Iterator[str]:
    """Yield the planned cells that did not run, or whose launches did not all complete, with the reason."""
    for cell in Frame(TABLES["cells"], source):
        if cell["reason"]:
            state = f"{cell['completed']} of {cell['launches']} launches completed" if cell["launches"] else "not run"
            yield f"- – {escape(cell['cell'])}: {state}: {escape(cell['reason'])}"


def escape(text_: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    short = printable(text_, lines=True)[:LONGEST_TEXT]
    escaped = without_html(_MARKUP.sub(lambda match: f"\\{match[0]}", short))
    return _LINKS.sub(lambda match: f"{match[0]}<!-- -->", escaped)


MARKDOWN: Final = TextFormat(suffix=".md", meaning="Markdown for a pull request", text=text)
