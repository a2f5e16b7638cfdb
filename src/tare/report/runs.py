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
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A trial with the environment and group of its cell; `counts` is False if its block was broken off."""

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
    last = _counting_attempts(trials)
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
                counts=trial.key.attempt == last.get((trial.key.round, trial.key.block)),
                metrics={metric.key: metric for metric in metrics},
            )
        )
    return tuple(result)


def _counting_attempts(trials: Sequence[Trial]) -> dict[tuple[int, int], int]:
    """Return for each block its last whole attempt: of every cell that was ever run, and not interrupted."""
    every = {trial.key.cell for trial in trials if not isinstance(trial.outcome, Unavailable)}
    seen: dict[tuple[int, int, int], set[str]] = {}
    for trial in trials:
        members = seen.setdefault((trial.key.round, trial.key.block, trial.key.attempt), set())
        members.add("" if isinstance(trial.outcome, Interrupted) else trial.key.cell)
    last: dict[tuple[int, int], int] = {}
    for (round_, block, attempt), members in seen.items():
        if "" not in members and members >= every:
            last[round_, block] = max(attempt, last.get((round_, block), 0))
    return last


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
    unavailable = _unavailable(summary)
    rows: list[CellRow] = []
    for cell in summary.cells:
        name = row_name(cell, summary)
        told = outcomes.get(cell.key)
        refused = unavailable.get((name, cell.group))
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


def _unavailable(summary: Summary) -> dict[tuple[str, str], str]:
    return {
        (comparison.environment, comparison.group): comparison.reason
        for comparison in summary.comparisons
        if comparison.verdict is Verdict.UNAVAILABLE
    }
