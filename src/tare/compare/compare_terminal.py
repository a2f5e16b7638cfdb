"""Print a comparison of results in a terminal of eighty columns, with or without Unicode and colour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from tare.compare import wording
from tare.compare.compare import Across, CellChange, JudgedRatio, Pair
from tare.compare.terminal import table
from tare.report import units
from tare.report.terminal import encoder, item
from tare.report.verdicts import VERDICT_STYLES


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport:
    """A comparison as a renderable of rich; the console's encoding decides whether symbols are ASCII."""

    across: Across

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the results, their differences, a table per pair and group, and what could explain the changes."""
        across, plain = self.across, options.ascii_only
        encode = encoder(plain)
        for reading, label in zip(across.readings, across.labels, strict=True):
            yield Text(encode(wording.heading(reading, label)), style="bold")
            for caveat in reading.caveats:
                yield item("!", "bold yellow", encode(caveat))
        yield Text("")
        yield from _differences(across, plain)
        for pair in across.pairs:
            yield Text("")
            yield from _pair(pair, across, plain)
        yield Text("")
        yield Text(encode(_legend(across, plain)), style="dim")
        yield Text(encode(wording.ONE_SESSION), style="dim")


def _differences(across: Across, plain: bool) -> Iterator[RenderableType]:
    encode = encoder(plain)
    if not across.differences:
        yield Text("No recorded fact differs between these results.")
        return
    count = len(across.differences)
    yield Text(f"{count} recorded fact{'s differ' if count > 1 else ' differs'}, all declared with --expect:")
    rows = [[Text(encode(text)) for text in (each.kind, each.name, *each.short)] for each in across.differences]
    heads = ["kind", "fact", *across.labels]
    rest = (80 - 12 - 26 - len(heads) + 1) // len(across.labels)
    yield table(heads, rows, [12, 26, *[rest] * len(across.labels)])


def _pair(pair: Pair, across: Across, plain: bool) -> Iterator[RenderableType]:
    encode = encoder(plain)
    first, second = across.labels[pair.first], across.labels[pair.second]
    arrow = "->" if plain else "→"
    for group, changes in pair.by_group():
        yield Text(encode(f"{group}: from {first} to {second}"), style="bold underline")
        heads = ["", f"cost, {second} / {first}", f"overhead, {second} / {first}"]
        for environment, members in groupby(changes, key=lambda each: each.place.environment):
            listed = list(members)
            role = " (baseline)" if listed[0].is_baseline else ""
            yield Text(encode(environment), style="bold").append(role, style="not bold dim")
            yield table(heads, [_row(change, plain) for change in listed], [16, 32, 30], with_heads=bool(heads[1]))
            heads = ["", "", ""]
        yield Text("")
    for cells, cause in wording.causes(pair):
        yield item(arrow, "bold", encode(f"{cells}: {cause}"), width=len(arrow))
    for note in wording.notes(pair, across):
        yield item("!", "yellow", encode(note))


def _row(change: CellChange, plain: bool) -> list[Text]:
    encode = encoder(plain)
    overhead = Text("") if change.is_baseline else _judged(change.overhead, plain)
    return [Text(encode(f"  {change.label}")), _judged(change.cost, plain), overhead]


def _judged(judged: JudgedRatio | None, plain: bool) -> Text:
    if judged is None:
        return Text("-" if plain else "–", style="dim")
    encode = encoder(plain)
    text = Text(f"{wording.symbol(judged, plain=plain)} {encode(wording.brief_ratio(judged))}")
    text.stylize(VERDICT_STYLES[judged.verdict].style)
    return text.append(encode(f" {judged.first}"), style="not bold dim")


def _legend(across: Across, plain: bool) -> str:
    seen = {
        judged.verdict: judged
        for pair in across.pairs
        for change in pair.changes
        for judged in (change.cost, change.overhead)
        if judged is not None
    }
    symbols = ", ".join(
        f"{wording.symbol(judged, plain=plain)} {judged.word}{' within so many %' if judged.within is not None else ''}"
        for judged in seen.values()
    )
    return (
        f"{symbols}. Ratios of typical costs (above 1 is slower, also for rates) and of 1 + overhead, with "
        f"{across.confidence * 100:g} % intervals (Welch); verdicts are adjusted for the table (Holm), margin "
        f"{units.percent(across.margin, sign=False)}. Next to a ratio: the value in {across.labels[0]}."
    )
