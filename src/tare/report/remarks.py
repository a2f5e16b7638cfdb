"""Say what stands below a table: reasons, causes, the machine's state, modes, failures, repeats, what may be missed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Comparison, Summary, Verdict
from tare.report import units
from tare.report.cells import disagree, failures_text, note, percent_up
from tare.report.view import LISTED_COLUMNS, Column, TableGroup

MANY_ROUNDS: Final = 200
OFTENER: Final = 0.05
"""p of the test of as many repeats as the baseline's below which a row is said to differ."""
_NOTE_ORDER: Final = (Verdict.FAILS, Verdict.INVALID, Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Why these environments have no figure, or no verdict, in these columns (empty: in all of them)."""

    verdict: Verdict
    environments: tuple[str, ...]
    columns: tuple[str, ...]
    text: str

    @property
    def on(self) -> str:
        """Return the columns as words, or their number where they are many."""
        return ", ".join(self.columns) if len(self.columns) <= LISTED_COLUMNS else f"{len(self.columns)} metrics"


def notes(group: TableGroup) -> tuple[Note, ...]:
    """Return the reasons behind failing, invalid, unavailable and open cells; one line for cells that share one."""
    found: dict[tuple[Verdict, str, str], list[str]] = {}
    for name in group.rows:
        for column in group.columns:
            comparison = column.cells.get(name)
            if comparison and (comparison.verdict in _NOTE_ORDER or comparison.over_limit):
                text = _open_note(group, name) if comparison.verdict is Verdict.INCONCLUSIVE else note(comparison)
                found.setdefault((comparison.verdict, name, text or "no reason was recorded"), []).append(
                    column.info.label
                )
    merged: dict[tuple[Verdict, tuple[str, ...], str], list[str]] = {}
    for (verdict, name, text), labels in found.items():
        columns = () if len(labels) == len(group.columns) else tuple(labels)
        merged.setdefault((verdict, columns, text), []).append(name)
    return tuple(
        Note(verdict=verdict, environments=tuple(names), columns=columns, text=text)
        for (verdict, columns, text), names in sorted(merged.items(), key=lambda item: _rank(item[0][0]))
    )


def _rank(verdict: Verdict) -> int:
    return _NOTE_ORDER.index(verdict) if verdict in _NOTE_ORDER else len(_NOTE_ORDER)


def _open_note(group: TableGroup, name: str) -> str:
    """Return one text for all open cells of an environment; each cell's own reason is on its metric's page."""
    cells = [column.cells[name] for column in group.columns if name in column.cells]
    opened = [each for each in cells if each.verdict is Verdict.INCONCLUSIVE]
    needed = [each.more_rounds for each in opened if each.more_rounds is not None]
    if not needed:
        reasons = dict.fromkeys(each.reason for each in opened)
        return next(iter(reasons)) if len(reasons) == 1 else "for several reasons, which are on the metrics' pages"
    least, most = min(needed), max(needed)
    if least > MANY_ROUNDS:
        return f"over {MANY_ROUNDS} more rounds needed"
    if least == most:
        return f"about {least} more rounds needed"
    return f"about {least} to {most if most <= MANY_ROUNDS else f'over {MANY_ROUNDS}'} more rounds needed"


def causes(group: TableGroup, summary: Summary) -> tuple[tuple[str, str], ...]:
    """Return why environments of this group cost what they cost, where their launches show it: (who, why)."""
    found: dict[str, list[str]] = {}
    for finding in summary.findings:
        if finding.group in {column.info.group for column in group.columns}:
            seen = "" if finding.launches == finding.of else f" (in {finding.launches} of {finding.of} launches)"
            found.setdefault(f"{finding.kind}: {finding.text}{seen}", []).append(finding.environment)
    return tuple((", ".join(names), text) for text, names in found.items())


def doubts(group: TableGroup, summary: Summary) -> tuple[str, ...]:
    """Return what must be known before one figure of this group is quoted, each a sentence."""
    return (
        *_state_effects(group, summary),
        *_modes(group, summary),
        *(row.sentence for row in launch_rows(group, summary) if row.sentence),
        *_disagreements(group),
    )


def _state_effects(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield a sentence for each state of the machine that surely changed a column, and was adjusted for."""
    columns = {(column.info.group, column.info.key): column.info.label for column in group.columns}
    found: dict[tuple[str, str], list[str]] = {}
    for effect in summary.state_effects:
        label = columns.get((effect.group, effect.metric))
        if label is not None and not effect.effect.low <= 0 <= effect.effect.high:
            text = f"{units.overhead_interval(effect.effect)} on {label}"
            found.setdefault((effect.state, effect.per), []).append(text)
    for (state, per), texts in found.items():
        yield f"{state}: {', '.join(texts)} per {per}, in all environments alike. The figures are adjusted for it."


def state_texts(column: Column, summary: Summary) -> tuple[str, ...]:
    """Return the effects of all states that a column is adjusted for, those that may be none among them."""
    return tuple(
        f"{effect.state} {units.overhead_interval(effect.effect)} per {effect.per}"
        for effect in summary.state_effects
        if (effect.group, effect.metric) == (column.info.group, column.info.key)
    )


def _modes(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield where the launches of a column fall into several modes, with both centres (METHOD.md rule 8)."""
    columns = {(column.info.group, column.info.key): column.info.label for column in group.columns}
    for modes in summary.modes:
        if (modes.group, modes.metric) in columns:
            where = " and ".join(
                f"{share:.0%} of launches at {units.percent(centre - 1)}"
                for centre, share in zip(modes.centres, modes.shares, strict=False)
            )
            yield (
                f"{columns[modes.group, modes.metric]} has several modes (dip test over {modes.n} launches, p "
                f"{_equals(modes.p_value)}): {where or 'where they are is not known'}, against the median of their "
                "environment. Look at the launches before you quote one figure."
            )


def _disagreements(group: TableGroup) -> Iterator[str]:
    """Yield the cells in which the geometric and the arithmetic mean differ in sign."""
    cells = [
        f"{name} on {column.info.label}"
        for column in group.columns
        for name in group.rows
        if (cell := column.cells.get(name)) and disagree(column, cell)
    ]
    if cells:
        named = ", ".join(cells) if len(cells) <= LISTED_COLUMNS else f"{len(cells)} cells"
        yield (
            f"{named}: overhead (geometric mean) and added time (arithmetic mean) differ in sign, "
            "so neither shows a cost or a gain."
        )


# --- failures and repeats ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRow:
    """How the launches of one environment ended and how many were repeated, as text."""

    environment: str
    failed: str
    failed_share: str
    failed_p: str
    repeated: str
    repeated_p: str
    every: str
    sentence: str = ""


def launch_rows(group: TableGroup, summary: Summary) -> tuple[LaunchRow, ...]:
    """Return a row for every environment with failures or repeats; none where no launch failed or was repeated.

    Failures and repeats are of launches, not of a metric: those of a group's first column with any stand for all.
    """
    rows = []
    for name in group.rows:
        cells = [cell for column in group.columns if (cell := column.cells.get(name))]
        counted = next((cell for cell in cells if cell.failures), None)
        repeated = max((cell for cell in cells if cell.repeats), key=_repeated, default=None)
        if counted is not None or repeated is not None:
            rows.append(_launch_row(group, name, counted, repeated, summary))
    told = (text for row in rows for text in (row.failed, row.repeated))
    return tuple(rows) if any(text and not text.startswith("0 ") for text in told) else ()


def _repeated(cell: Comparison) -> int:
    return cell.repeats.repeated if cell.repeats else 0


def _launch_row(
    group: TableGroup, name: str, counted: Comparison | None, repeated: Comparison | None, summary: Summary
) -> LaunchRow:
    rate = counted.failures if counted else None
    repeats = repeated.repeats if repeated else None
    labels = {column.info.key: column.info.label for column in group.columns}
    every = ""
    if repeated and repeats and repeats.repeated and repeats.overhead:
        every = f"{units.overhead_interval(repeats.overhead)} on {labels[repeated.metric]}"
    return LaunchRow(
        environment=name,
        failed=f"{rate.failed} of {rate.launches}" if rate else "",
        failed_share=f"[{100 * rate.low:.0f}, {100 * rate.high:.0f}] %" if rate else "",
        failed_p=units.p_value(rate.p_value) if rate and rate.p_value is not None else "",
        repeated=f"{repeats.repeated} of {repeats.launches}" if repeats else "",
        repeated_p=units.p_value(repeats.p_value) if repeats and repeats.p_value is not None else "",
        every=every,
        sentence="" if name == summary.baseline else _launch_sentence(name, counted, repeated, every),
    )


def _launch_sentence(name: str, counted: Comparison | None, repeated: Comparison | None, every: str) -> str:
    """Return what is worth a line: failures of any kind, and repeats that are not as often as the baseline's."""
    parts = []
    rate = counted.failures if counted else None
    if rate and rate.failed and not rate.more:  # else it is a verdict, with a reason of its own
        share = f"between {100 * rate.low:.0f} and {100 * rate.high:.0f} % of launches"
        against = f", against the baseline p {_equals(rate.p_value)}" if rate.p_value is not None else ""
        parts.append(f"{failures_text(rate)} ({share}{against})")
    repeats = repeated.repeats if repeated else None
    if repeats and repeats.p_value is not None and repeats.p_value < OFTENER:
        all_of_them = f"; over all launches {every}" if every else ""
        parts.append(
            f"{repeats.repeated}/{repeats.launches} launches repeated, not as often as the baseline's "
            f"(p {_equals(repeats.p_value)}){all_of_them}"
        )
    return f"{name}: {'; '.join(parts)}." if parts else ""


def _equals(p: float | None) -> str:
    text = units.p_value(p if p is not None else 1.0)
    return text if text.startswith("<") else f"= {text}"


# --- the study as a whole ---------------------------------------------------------------------------------------


def missed_text(summary: Summary) -> str:
    """Say what so few rounds can miss; "" where nothing is said to cost nothing."""
    shares = [
        item.misses for item in summary.comparisons if item.verdict is Verdict.NO_COST and item.misses is not None
    ]
    if not shares:
        return ""
    rounds = summary.rounds_done
    return f"{rounds} rounds may miss a cost that is in up to {percent_up(max(shares), sign=False)} of launches"


def looks_text(summary: Summary) -> str:
    """Say at which rounds verdicts are given: where this is not one of them, and when the next is."""
    rounds, due = summary.rounds_done, summary.next_look
    if rounds in summary.looks or not summary.looks:
        return f"the next verdicts are given at {due} rounds" if due else ""
    if due is not None:
        return f"{rounds} of {due} rounds: verdicts at {due}"
    return f"{rounds} rounds: the last verdicts were given at {summary.looks[-1]}"


def warnings(summary: Summary, disturbed: str) -> Sequence[str]:
    """Return what comes before the headline, each a sentence of its own."""
    every = (*summary.warnings, disturbed)
    return [text if text.endswith((".", "!", "?")) else f"{text}." for text in every if text]
