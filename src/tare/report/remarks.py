"""Phrase the notes below a table: reasons, causes, effects of the machine's state, modes, failures and repeats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tare.analysis.summary.disturbance import DISTURBED
from tare.model import Comparison, PatternKind, ProofGap, Summary, Verdict
from tare.model.text import counted
from tare.report import units
from tare.report.cells import differ_in_sign, failures_text, percent_up, reason_text
from tare.report.plots import takeaways
from tare.report.view import LISTED_COLUMNS, MetricColumn, TableGroup

MANY_ROUNDS: Final = 200
CHANGED: Final = math.log(1.1)
"""From this change of ln cost over a study, in all environments, it is a warning."""
NOT_PROVEN: Final = "treatment not proven"
PARTLY_PROVEN: Final = "treatment partly proven"
REPEATS_DIFFER: Final = 0.05
"""Below this p, an environment's rate of repeats is reported as different from the baseline's."""
_NOTE_ORDER: Final = (
    Verdict.FAILS, Verdict.INVALID, Verdict.NOT_COMPARABLE, Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The reason why these environments have no value or no verdict in these columns (empty: in all columns)."""

    verdict: Verdict
    environments: tuple[str, ...]
    columns: tuple[str, ...]
    text: str

    @property
    def on(self) -> str:
        """Return the names of the columns, or their number if they are many."""
        return ", ".join(self.columns) if len(self.columns) <= LISTED_COLUMNS else f"{len(self.columns)} metrics"


def notes(group: TableGroup) -> tuple[Note, ...]:
    """Return the reasons of failing, invalid, unavailable and inconclusive cells, one line per reason."""
    labels_of: dict[tuple[Verdict, str, str], list[str]] = {}
    for name in group.rows:
        for column in group.columns:
            comparison = column.cells.get(name)
            if comparison and (comparison.verdict in _NOTE_ORDER or comparison.over_limit):
                is_open = comparison.verdict is Verdict.INCONCLUSIVE and not _is_clear_alone(comparison)
                text = _inconclusive_text(group, name) if is_open else reason_text(comparison)
                key = comparison.verdict, name, text or "no reason recorded"
                labels_of.setdefault(key, []).append(column.info.label)
    merged: dict[tuple[Verdict, tuple[str, ...], str], list[str]] = {}
    for (verdict, name, text), labels in labels_of.items():
        columns = () if len(labels) == len(group.columns) else tuple(labels)
        merged.setdefault((verdict, columns, text), []).append(name)
    return tuple(
        Note(verdict=verdict, environments=tuple(names), columns=columns, text=text)
        for (verdict, columns, text), names in sorted(merged.items(), key=lambda item: _rank(item[0][0]))
    )


def _is_clear_alone(cell: Comparison) -> bool:
    """Tell whether a cell's interval excludes zero, so that its own reason has to say why nothing is decided."""
    return cell.overhead is not None and not cell.overhead.low <= 0 <= cell.overhead.high


def _rank(verdict: Verdict) -> int:
    return _NOTE_ORDER.index(verdict) if verdict in _NOTE_ORDER else len(_NOTE_ORDER)


def _inconclusive_text(group: TableGroup, name: str) -> str:
    """Return one text for all inconclusive cells of an environment; the page of each metric has the cell's reason."""
    cells = [column.cells[name] for column in group.columns if name in column.cells]
    undecided = [cell for cell in cells if cell.verdict is Verdict.INCONCLUSIVE and not _is_clear_alone(cell)]
    needed = [cell.more_rounds for cell in undecided if cell.more_rounds is not None]
    if not needed:
        reasons = dict.fromkeys(cell.reason for cell in undecided)
        return next(iter(reasons)) if len(reasons) == 1 else "for several reasons, see the page of each metric"
    least, most = min(needed), max(needed)
    if least > MANY_ROUNDS:
        return f"over {MANY_ROUNDS} more rounds needed"
    if least == most:
        return f"about {counted(least, 'more round')} needed"
    return f"about {least} to {most if most <= MANY_ROUNDS else f'over {MANY_ROUNDS}'} more rounds needed"


def causes(group: TableGroup, summary: Summary) -> tuple[tuple[str, str], ...]:
    """Return the causes of costs in this group that launches reveal, as (environments, cause)."""
    names_of: dict[str, list[str]] = {}
    for finding in summary.findings:
        if finding.group in {column.info.group for column in group.columns}:
            seen = "" if finding.launches == finding.of else f" (in {finding.launches} of {finding.of} launches)"
            names_of.setdefault(f"{finding.kind}: {finding.text}{seen}", []).append(finding.environment)
    return tuple((", ".join(names), text) for text, names in names_of.items())


def proof_gaps(group: TableGroup, summary: Summary) -> tuple[tuple[str, str], ...]:
    """Return what is not proven of the treatments in this group, as (environments, statement)."""
    names_of: dict[str, dict[str, None]] = {}
    for gap in _gaps_of(group, summary):
        seen = "" if gap.launches == gap.of else f" (in {gap.launches} of {gap.of} launches)"
        names_of.setdefault(f"{gap.text}{seen}", {})[gap.environment] = None
    return tuple((", ".join(names), text) for text, names in names_of.items())


def proof_labels(group: TableGroup, summary: Summary) -> dict[str, str]:
    """Return for each row whose treatment is not proven, or only in part, the words below its name."""
    labels: dict[str, str] = {}
    for gap in _gaps_of(group, summary):
        if not gap.partly:
            labels[gap.environment] = NOT_PROVEN
        else:
            labels.setdefault(gap.environment, PARTLY_PROVEN)
    return labels


def _gaps_of(group: TableGroup, summary: Summary) -> Iterator[ProofGap]:
    groups = {column.info.group for column in group.columns}
    return (gap for gap in summary.proof_gaps if gap.group in groups)


def caveats(group: TableGroup, summary: Summary) -> tuple[str, ...]:
    """Return the caveats of this group's values, each a sentence."""
    return (
        *_state_effects(group, summary),
        *_modes(group, summary),
        *_patterns(group, summary),
        *(row.sentence for row in launch_rows(group, summary) if row.sentence),
        *_sign_differences(group),
        *_fewer_rounds(group, summary),
    )


def _state_effects(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield a sentence for each state of the machine that has a significant effect, for which values are adjusted."""
    columns = {(column.info.group, column.info.key): column.info.label for column in group.columns}
    texts_of: dict[tuple[str, str], list[str]] = {}
    for effect in summary.state_effects:
        label = columns.get((effect.group, effect.metric))
        if label is not None and not effect.effect.low <= 0 <= effect.effect.high:
            text = f"{units.overhead_interval(effect.effect)} on {label}"
            texts_of.setdefault((effect.state, effect.per), []).append(text)
    for (state, per), texts in texts_of.items():
        yield f"{state}: {', '.join(texts)} per {per}, the same in all environments. Figures are adjusted for it."


def state_texts(column: MetricColumn, summary: Summary) -> tuple[str, ...]:
    """Return the effects of all states that a column is adjusted for, including those that may be zero."""
    return tuple(
        f"{effect.state} {units.overhead_interval(effect.effect)} per {effect.per}"
        for effect in summary.state_effects
        if (effect.group, effect.metric) == (column.info.group, column.info.key)
    )


def _modes(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield a sentence for each column with several modes, with both centres (METHOD.md rule 8)."""
    columns = {(column.info.group, column.info.key): column.info.label for column in group.columns}
    for modes in summary.modes:
        if (modes.group, modes.metric) in columns:
            where = " and ".join(
                f"{share:.0%} of launches at {units.percent(centre - 1)}"
                for centre, share in zip(modes.centres, modes.shares, strict=False)
            )
            by = f"; what separates them best is {modes.separated_by}" if modes.separated_by else ""
            yield (
                f"{columns[modes.group, modes.metric]} has several modes (dip test over {modes.n} launches, p "
                f"{_equals(modes.p_value)}): {where or 'their positions are unknown'}, relative to the median of their "
                f"environment{by}. Check the distribution of launches before you quote a single figure."
            )


def _patterns(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield the largest drift and the largest tail of a table, and say how many others its pages show."""
    columns = {(column.info.group, column.info.key): column.info.label for column in group.columns}
    here = [one for one in summary.patterns if (one.group, one.metric) in columns]
    for kind in dict.fromkeys(one.kind for one in here):
        found = [one for one in here if one.kind is kind]
        largest = max(found, key=lambda one: abs(one.value))
        more = f" {len(found) - 1} more: see the pages of the metrics." if len(found) > 1 else ""
        yield takeaways.pattern(largest, columns[largest.group, largest.metric], summary.baseline) + more


def _sign_differences(group: TableGroup) -> Iterator[str]:
    """Yield a sentence that lists the cells whose geometric and arithmetic means have opposite signs."""
    cells = [
        f"{name} on {column.info.label}"
        for column in group.columns
        for name in group.rows
        if (cell := column.cells.get(name)) and differ_in_sign(column, cell)
    ]
    if cells:
        named = ", ".join(cells) if len(cells) <= LISTED_COLUMNS else f"{len(cells)} cells"
        yield (
            f"{named}: overhead (geometric mean) and added time (arithmetic mean) have opposite signs, "
            "so neither shows a cost or a gain."
        )


def _fewer_rounds(group: TableGroup, summary: Summary) -> Iterator[str]:
    """Yield a sentence with the n of the cells whose figures are of fewer rounds than the study has (rule 5)."""
    cells_of: dict[int, dict[str, None]] = {}
    for column in group.columns:
        for name in group.rows:
            cell = column.cells.get(name)
            estimate = (cell.overhead or cell.absolute_s) if cell else None
            if estimate is not None and estimate.n != summary.rounds_done:
                cells_of.setdefault(estimate.n, {})[name] = None
    for n, names in sorted(cells_of.items()):
        yield f"{', '.join(names)}: n = {n}, not {summary.rounds_done}."


# --- failures and repeats ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRow:
    """Failures and repeats of one environment's launches, as text."""

    environment: str
    failed: str
    failed_share: str
    failed_p: str
    repeated: str
    repeated_p: str
    overhead: str
    sentence: str = ""


def launch_rows(group: TableGroup, summary: Summary) -> tuple[LaunchRow, ...]:
    """Return a row per environment, or no rows if no launch failed or was repeated.

    Failures and repeats belong to launches, not to metrics, so the first column of a group that has them is used.
    """
    rows = []
    for name in group.rows:
        cells = [cell for column in group.columns if (cell := column.cells.get(name))]
        counted = next((cell for cell in cells if cell.failures), None)
        repeated = max((cell for cell in cells if cell.repeats), key=_count_repeats, default=None)
        if counted is not None or repeated is not None:
            rows.append(_launch_row(group, name, counted, repeated, summary))
    counts = (text for row in rows for text in (row.failed, row.repeated))
    return tuple(rows) if any(text and not text.startswith("0 ") for text in counts) else ()


def _count_repeats(cell: Comparison) -> int:
    return cell.repeats.repeated if cell.repeats else 0


def _launch_row(
    group: TableGroup, name: str, counted: Comparison | None, repeated: Comparison | None, summary: Summary
) -> LaunchRow:
    rate = counted.failures if counted else None
    repeats = repeated.repeats if repeated else None
    labels = {column.info.key: column.info.label for column in group.columns}
    overhead = ""
    if repeated and repeats and repeats.repeated and repeats.overhead:
        overhead = f"{units.overhead_interval(repeats.overhead)} on {labels[repeated.metric]}"
    return LaunchRow(
        environment=name,
        failed=f"{rate.failed} of {rate.launches}" if rate else "",
        failed_share=f"[{100 * rate.low:.0f}, {100 * rate.high:.0f}] %" if rate else "",
        failed_p=units.p_value(rate.p_value) if rate and rate.p_value is not None else "",
        repeated=f"{repeats.repeated} of {repeats.launches}" if repeats else "",
        repeated_p=units.p_value(repeats.p_value) if repeats and repeats.p_value is not None else "",
        overhead=overhead,
        sentence="" if name == summary.baseline else _launch_sentence(name, counted, repeated, overhead),
    )


def _launch_sentence(name: str, counted: Comparison | None, repeated: Comparison | None, overhead: str) -> str:
    """Return a sentence on failures, and on a rate of repeats that differs from the baseline's; "" if neither."""
    parts = []
    rate = counted.failures if counted else None
    if rate and rate.failed and not rate.more:  # otherwise the verdict and its reason state it
        share = f"between {100 * rate.low:.0f} and {100 * rate.high:.0f} % of launches"
        against = f"; p {_equals(rate.p_value)} against the baseline" if rate.p_value is not None else ""
        parts.append(f"{failures_text(rate)} ({share}{against})")
    repeats = repeated.repeats if repeated else None
    if repeats and repeats.p_value is not None and repeats.p_value < REPEATS_DIFFER:
        over_all = f"; overhead over all launches {overhead}" if overhead else ""
        parts.append(
            f"{repeats.repeated}/{repeats.launches} launches repeated, which differs from the baseline's rate "
            f"(p {_equals(repeats.p_value)}){over_all}"
        )
    return f"{name}: {'; '.join(parts)}." if parts else ""


def _equals(p: float | None) -> str:
    text = units.p_value(p if p is not None else 1.0)
    return text if text.startswith("<") else f"= {text}"


# --- the study as a whole ---------------------------------------------------------------------------------------


def missed_text(summary: Summary) -> str:
    """Return which rare costs the rounds may have missed; "" if no verdict is "no cost"."""
    shares = [
        item.misses for item in summary.comparisons if item.verdict is Verdict.NO_COST and item.misses is not None
    ]
    if not shares:
        return ""
    rounds = summary.rounds_done
    most = percent_up(max(shares), sign=False)
    return f"{counted(rounds, 'round')} can miss a cost that occurs in up to {most} of launches"


def looks_text(summary: Summary) -> str:
    """Return the number of rounds at which the next verdicts are given, or were last given."""
    rounds, due = summary.rounds_done, summary.next_look
    if rounds in summary.looks or not summary.looks:
        return f"the next verdicts are given at {due} rounds" if due else ""
    if due is not None:
        return f"{rounds} of {due} rounds: verdicts are given at {due}"
    return f"{counted(rounds, 'round')}: the last verdicts were given at {summary.looks[-1]}"


def warnings(summary: Summary) -> Sequence[str]:
    """Return the warnings that precede the headline, each a sentence."""
    texts = (*summary.warnings, disturbed_text(summary), *_machine_changed(summary))
    return [text if text.endswith((".", "!", "?")) else f"{text}." for text in texts if text]


def disturbed_text(summary: Summary) -> str:
    """Return a warning about launches with background load; "" if there are none."""
    disturbed, counted = summary.counts.get("disturbed", 0), summary.counts.get("trials that count", 0)
    if not disturbed:
        return ""
    return (
        f"Background load: other programs, or guests of the same host, used more than {100 * DISTURBED:.0f} % of the "
        f"machine during {disturbed:,} of the {counted:,} launches that count. "
        "Repeat on a quiet machine before you rely on small differences."
    )


def _machine_changed(summary: Summary) -> Iterator[str]:
    """Yield a sentence if all environments together became slower or faster by more than `CHANGED`."""
    drifts = [one for one in summary.patterns if one.kind is PatternKind.DRIFT and not one.environment]
    largest = max(drifts, key=lambda one: abs(one.value), default=None)
    if largest is not None and abs(largest.value) >= CHANGED:
        labels = {(info.group, info.key): info.label for info in summary.metrics}
        label = labels.get((largest.group, largest.metric), largest.metric)
        more = f" (and {counted(len(drifts) - 1, 'other metric')})" if len(drifts) > 1 else ""
        change = (
            f"{units.percent(abs(math.expm1(largest.value)), sign=False)} {'more' if largest.value > 0 else 'less'}"
        )
        yield (
            f"The machine changed during the study: {label}{more} took {change} time at the end, in all environments. "
            "Intervals are wider for it; measure again when nothing else runs"
        )
