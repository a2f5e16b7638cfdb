"""Arrange trials as a report shows them: with the row that they belong to, and by planned cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tare.model import (
    Cell,
    Completed,
    Failed,
    Interrupted,
    Invalid,
    Metric,
    Role,
    Summary,
    Trial,
    Unavailable,
)
from tare.summary.select import select


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A trial with the environment and group of its cell; `counts` is False if another launch has its place."""

    trial: Trial
    order: int
    environment: str
    group: str
    counts: bool
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Tell whether the launch has figures that count."""
        return self.counts and isinstance(self.trial.outcome, Completed)


def row_name(cell: Cell, summary: Summary) -> str:
    """Return the row of the table that a cell belongs to."""
    return summary.self_name if cell.role is Role.SELF else cell.environment.name


def launches(summary: Summary, trials: Sequence[Trial]) -> tuple[Launch, ...]:
    """Return the trials in the order in which they ran, with what they belong to."""
    cells = {cell.key: cell for cell in summary.cells}
    selection = select(summary, trials)
    result: list[Launch] = []
    for order, trial in enumerate(sorted(trials, key=lambda item: (item.started_unix_s, item.position)), start=1):
        cell = cells.get(trial.key.cell)
        metrics = trial.outcome.metrics if isinstance(trial.outcome, Completed) else ()
        result.append(
            Launch(
                trial=trial,
                order=order,
                environment=row_name(cell, summary) if cell else trial.key.cell,
                group=cell.group if cell else "",
                counts=selection.counts(trial),
                metrics={metric.key: metric for metric in metrics},
            )
        )
    return tuple(result)


def outcome_word(trial: Trial) -> str:
    """Return the outcome as one word."""
    match trial.outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Invalid():
            return "invalid"
        case Unavailable():
            return "unavailable"
        case Interrupted():
            return "interrupted"


def outcome_reason(trial: Trial) -> str:
    """Return why a trial has no figures, or nothing."""
    return "" if isinstance(trial.outcome, Completed) else trial.outcome.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """One planned cell with what became of it."""

    environment: str
    group: str
    role: str
    placement: str
    outcomes: str
    reasons: tuple[str, ...]


def cell_rows(summary: Summary, runs: Sequence[Launch]) -> tuple[CellRow, ...]:
    """List every planned cell with its outcomes and the reasons, those that never ran included."""
    outcomes: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for run in runs:
        key = run.trial.key.cell
        outcomes.setdefault(key, Counter())[outcome_word(run.trial)] += 1
        if reason := outcome_reason(run.trial):
            reasons.setdefault(key, {})[reason] = None
    rows: list[CellRow] = []
    for cell in summary.cells:
        name = row_name(cell, summary)
        told = outcomes.get(cell.key)
        refused = summary.unavailable.get(cell.key)
        text = ", ".join(f"{count} {word}" for word, count in told.items()) if told else "never ran"
        rows.append(
            CellRow(
                environment=name,
                group=cell.group,
                role=cell.role.value,
                placement=cell.placement.label,
                outcomes="unavailable" if refused and not told else text,
                reasons=tuple(reasons.get(cell.key, {refused: None} if refused else {})),
            )
        )
    return tuple(rows)
