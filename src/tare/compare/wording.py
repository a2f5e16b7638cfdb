"""Texts that the terminal and HTML share: ratios, dates, symbols, causes in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tare.compare.compare import Across, CellChange, JudgedRatio, Pair
from tare.compare.differences import FactDifference
from tare.compare.history import CellHistory, History, LevelChange, differing_kinds
from tare.compare.kinds import KINDS, in_words
from tare.compare.reading import ComparedResults
from tare.model.text import counted
from tare.report import units
from tare.report.verdicts import mark

ONE_SESSION: Final = (
    "The interval of a cost covers the rounds of these results, not other days on the same machines. "
    "The overhead is against the baseline of the same rounds, so it is what survives a change of machine."
)
FEWEST_RESULTS: Final = 4
"""Results below which no change can be found: two levels of two."""
LISTED: Final = 6
"""Results whose values a line has room for."""
NAMED: Final = 4
"""Facts that a sentence about possible causes names."""


def date(unix_s: float) -> str:
    """Return a date and time in UTC, as `2026-11-23 20:15`."""
    if not 0 < unix_s < 4e9:
        return "no date"
    return datetime.fromtimestamp(unix_s, tz=UTC).strftime("%Y-%m-%d %H:%M")


def symbol(judged: JudgedRatio, *, plain: bool = False) -> str:
    """Return the symbol of a verdict."""
    return mark(judged.verdict, judged.within, plain=plain)


def brief_ratio(judged: JudgedRatio) -> str:
    """Return a ratio with its interval and two decimals, as `1.21 [1.18, 1.24]`; large ones have none."""
    bounds = [1 + each for each in (judged.ratio.value, judged.ratio.low, judged.ratio.high)]
    value, low, high = (units.number(bound, 2 if max(bounds) < 100 else 0) for bound in bounds)
    return f"{value} [{low}, {high}]"


def p_value(p: float) -> str:
    """Return a p value, as `p = 0.012` or `p < 0.001`."""
    text = units.p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def ratio(judged: JudgedRatio) -> str:
    """Return a ratio with its interval, as `1.213 [1.201, 1.225]`."""
    return units.ratio_interval(judged.ratio.map(lambda part: 1 + part))


def heading(reading: ComparedResults, label: str) -> str:
    """Return a result in one line: label, folder, study, date, rounds."""
    began = date(reading.began_unix_s)
    return f"{label}: {reading.path} ({reading.name}, {began} UTC, {counted(reading.rounds, 'round')})"


def notes(pair: Pair, across: Across) -> list[str]:
    """Return what must be known of single cells: missing figures, other numbers of rounds, cells of one result only."""
    usual = (across.readings[pair.first].rounds, across.readings[pair.second].rounds)
    labels = (across.labels[pair.first], across.labels[pair.second])
    together: dict[str, list[CellChange]] = {}
    for change in pair.changes:
        n = change.cost.n if change.cost else usual
        texts = [*_missing(change, labels), *([f"n = {n[0]} and {n[1]} rounds"] if n != usual else [])]
        if change.cost is None and not texts and min(usual) > 1:
            texts = ["not estimated: the interval of its ratio is wider than a hundredfold"]
        for text in texts:
            together.setdefault(text, []).append(change)
    found = [f"{_cells(changes, '{} ({})')}: {text}" for text, changes in together.items()]
    for label, places in zip(labels, pair.only, strict=True):
        if places:
            cells = list(dict.fromkeys(f"{place.group} / {place.environment}" for place in places))
            more = f" and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
            found.append(f"only in {label}: metrics of {', '.join(cells[:NAMED])}{more}")
    return found


def _missing(change: CellChange, labels: tuple[str, str]) -> Iterator[str]:
    """Yield why results have no figures, or how many launches have none."""
    by_text: dict[str, list[str]] = {}
    for text, label in zip(change.missing, labels, strict=True):
        if text:
            by_text.setdefault(text, []).append(label)
    return (f"{' and '.join(found)}: {text}" for text, found in by_text.items())


def causes(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield the cells that changed, with what could explain it; those with the same candidates together."""
    together: dict[tuple[FactDifference, ...], list[CellChange]] = {}
    for change in pair.changes:
        if change.changed:
            together.setdefault(change.could, []).append(change)
    for could, changes in together.items():
        yield _cells(changes), _could(could)


def _cells(changes: Sequence[CellChange], form: str = "{}: {}") -> str:
    by_cell: dict[str, list[str]] = {}
    for change in changes:
        by_cell.setdefault(f"{change.place.environment} in {change.place.group}", []).append(change.label)
    return "; ".join(form.format(cell, ", ".join(labels)) for cell, labels in by_cell.items())


def _could(could: Sequence[FactDifference]) -> str:
    if not could:
        return (
            "no recorded difference could explain it; the state of the machine could: its load, its neighbours, "
            "the speed of its cores (`tare doctor`)"
        )
    kinds: dict[str, list[str]] = {}
    for difference in could:
        kinds.setdefault(difference.kind, []).append(difference.name)
    texts = []
    for kind, names in kinds.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        listed = "" if names == [kind] else f" ({', '.join(names[:NAMED])}{more})"
        texts.append(f"{kind}{listed}: {KINDS[kind].how}")
    return "could be " + "; or ".join(texts)


def moved(kind: str) -> str:
    """Return what a kind of difference could move."""
    return in_words(KINDS[kind].moves)


# --- histories ----------------------------------------------------------------------------------------------------


def series_name(series: CellHistory) -> str:
    """Return what a series shows."""
    return f"{series.place.group} / {series.place.environment}: {series.label}, {series.what}"


def values(series: CellHistory) -> str:
    """Return the value of each result of a short series, otherwise the smallest and the largest."""
    logs = [point.log.value for point in series.points]
    if len(logs) <= LISTED:
        return ", ".join(map(series.text, logs))
    return f"smallest {series.text(min(logs))}, largest {series.text(max(logs))}"


def no_change(series: CellHistory) -> str:
    """Return why a series has no change."""
    count = len(series.points)
    results = counted(count, "result")
    return "no change" if count >= FEWEST_RESULTS else f"{results}: changes are looked for in {FEWEST_RESULTS} or more"


def step(change: LevelChange, series: CellHistory, history: History) -> str:
    """Return a change in one sentence, with the facts that changed with it."""
    point = series.points[change.at]
    reading = history.readings[point.result]
    since = len(series.points) - change.at
    word = "slower" if change.ratio.value > 0 else "faster"
    before = series.text(series.levels[series.steps.index(change)][2])
    after = series.text(series.levels[series.steps.index(change) + 1][2])
    names = list(
        dict.fromkeys(each.kind for each in change.differences if KINDS[each.kind].moves & series.costs.measures)
    )
    could = f"; could be {', '.join(names)}" if names else "; no recorded fact changed with it"
    return (
        f"{word} by {units.overhead_interval(change.ratio)} ({before} to {after}, {p_value(change.p_value)}) "
        f"since {below(reading.path, history.folder)} ({date(reading.began_unix_s)} UTC), "
        f"the last {since} results{could}"
    )


class ResultRow(NamedTuple):
    """A result in the list of a series: the change of level at it, if there is one, and what is said of it."""

    step: LevelChange | None
    date: str
    folder: str
    value: str
    n: int
    differing: str


def result_rows(series: CellHistory, history: History) -> Iterator[ResultRow]:
    """Yield the results of a series in order of time, with what differs from the one before."""
    steps = {step.at: step for step in series.steps}
    kinds = differing_kinds([history.readings[point.result] for point in series.points])
    for number, (point, differing) in enumerate(zip(series.points, kinds, strict=True)):
        reading = history.readings[point.result]
        yield ResultRow(
            step=steps.get(number),
            date=date(reading.began_unix_s),
            folder=below(reading.path, history.folder),
            value=series.interval(point.log),
            n=point.log.n,
            differing=", ".join(differing),
        )


def below(path: Path, folder: Path) -> str:
    """Return the name of a results folder below another folder."""
    return str(path.relative_to(folder)) if path != folder else str(path)


def history_method(history: History) -> str:
    """Return how changes were found."""
    count = len(history.series)
    return (
        f"A change is a level of two or more results that differs by more than the margin of "
        f"{units.percent(history.margin, sign=False)} (circular binary segmentation). The probability of a false alarm "
        f"in {'this series' if count == 1 else f'all {count} series together'} is {history.alpha * 100:g} % if results "
        "scatter independently around their level. Values are geometric means over rounds with intervals; higher is "
        "slower, also for rates."
    )
