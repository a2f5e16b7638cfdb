"""Print a history in a terminal of eighty columns: a sparkline for each series, its changes, and a table of results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from tare.compare import wording
from tare.compare.history import CellHistory, History, LevelChange
from tare.compare.terminal import table
from tare.model import Verdict
from tare.model.text import counted
from tare.report.terminal import encoder, item
from tare.report.verdicts import VERDICT_STYLES, VerdictStyle

BARS: Final = "▁▂▃▄▅▆▇█"
ASCII_BARS: Final = "_.-=+*%#"
WIDEST: Final = 50
"""Most points of a sparkline; of more, the newest are shown."""
WITH_TABLE: Final = 1
"""Most series of which all results are listed; --cell chooses one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """A history as a renderable of rich; the console's encoding decides whether symbols are ASCII."""

    history: History

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield what was read, each series with its changes, the results of a few series, and the method."""
        history, plain = self.history, options.ascii_only
        encode = encoder(plain)
        first, last = history.readings[0], history.readings[-1]
        span = f"{wording.date(first.began_unix_s)} to {wording.date(last.began_unix_s)} UTC"
        yield Text(encode(f"{counted(len(history.readings), 'result')} below {history.folder}, {span}"), style="bold")
        for text in (
            *history.left_out,
            *(f"{each.path}: {caveat}" for each in history.readings for caveat in each.caveats),
        ):
            yield item("!", "yellow", encode(text))
        for series in history.series:
            yield Text("")
            yield from _series(series, history, plain)
        for series in history.series if len(history.series) <= WITH_TABLE else ():
            yield Text("")
            yield _results(series, history, plain)
        yield Text("")
        yield Text(encode(wording.history_method(history)), style="dim")


def sparkline(series: CellHistory, *, plain: bool = False) -> str:
    """Return the newest points as bars between the smallest and the largest value, with `|` at changes of level."""
    bars = ASCII_BARS if plain else BARS
    logs = [point.log.value for point in series.points]
    low, span = min(logs), max(logs) - min(logs)
    cuts = {step.at for step in series.steps}
    first = max(0, len(logs) - WIDEST)
    return "".join(
        ("|" if number in cuts and number > first else "")
        + bars[min(len(bars) - 1, int((value - low) / span * len(bars))) if span else 0]
        for number, value in enumerate(logs)
        if number >= first
    )


def _series(series: CellHistory, history: History, plain: bool) -> Iterator[RenderableType]:
    encode = encoder(plain)
    yield Text(encode(wording.series_name(series)), style="bold")
    first, last = (series.text(series.points[place].log.value) for place in (max(0, len(series.points) - WIDEST), -1))
    yield Text(encode(f"  {first} {sparkline(series, plain=plain)} {last}"))
    if len(series.points) > 2 and len(history.series) > WITH_TABLE:
        yield Text(encode(f"  {wording.values(series)}"))
    if not series.steps:
        yield Text(encode(f"  {wording.no_change(series)}"), style="dim")
    for step in series.steps:
        look = _look(step)
        symbol = f"  {look.ascii if plain else look.symbol}"
        yield item(symbol, look.style, encode(wording.step(step, series, history)), width=len(symbol))


def _look(step: LevelChange) -> VerdictStyle:
    return VERDICT_STYLES[Verdict.COSTS if step.ratio.value > 0 else Verdict.GAINS]


def _results(series: CellHistory, history: History, plain: bool) -> RenderableType:
    encode = encoder(plain)
    rows = []
    for row in wording.result_rows(series, history):
        look = _look(row.step) if row.step else None
        symbol = "" if look is None else look.ascii if plain else look.symbol
        rows.append(
            [
                Text(symbol, style=look.style if look else ""),
                Text(row.date),
                Text(encode(f"{row.value} n = {row.n}")),
                Text(encode("; other ".join(filter(None, (row.folder, row.differing))))),
            ]
        )
    return table(
        ["", "began (UTC)", "value [interval]", "folder; what differs from the one before"], rows, [1, 16, 30, 30]
    )
