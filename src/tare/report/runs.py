"""Arrange trials for the report: with their row of the table, by planned cell, and one by one."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from tare.frames.source import outcome_reason, outcome_word
from tare.model import (
    Cell,
    Completed,
    Metric,
    MetricInfo,
    MetricKind,
    Role,
    Summary,
    Trial,
)
from tare.report import units
from tare.summary.select import select

MOST_LISTED: Final = 10_000
STARTUP_WORDS: Final = {
    "pods_s": "containers up", "mpi_init_s": "MPI_Init", "launch_s": "launch",
    "workers_s": "MPIJob's workers ready after", "launcher_s": "its launcher running after",
    "ended_s": "its end reported after",
    "mpirun_s": "of that mpirun itself",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLaunch:
    """A trial with the environment and group of its cell; `counts` is False if a later launch superseded it."""

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
    """Return the name of a cell's row in the table."""
    return summary.self_name if cell.role is Role.SELF else cell.environment.name


def launches(summary: Summary, trials: Sequence[Trial]) -> tuple[ShownLaunch, ...]:
    """Return the trials in order of execution, each with its environment and group."""
    cells = {cell.key: cell for cell in summary.cells}
    selection = select(summary, trials)
    result: list[ShownLaunch] = []
    for order, trial in enumerate(sorted(trials, key=lambda item: (item.started_unix_s, item.position)), start=1):
        cell = cells.get(trial.key.cell)
        metrics = trial.outcome.metrics if isinstance(trial.outcome, Completed) else ()
        result.append(
            ShownLaunch(
                trial=trial,
                order=order,
                environment=row_name(cell, summary) if cell else trial.key.cell,
                group=cell.group if cell else "",
                counts=selection.counts(trial),
                metrics={metric.key: metric for metric in metrics},
            )
        )
    return tuple(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """One planned cell with the outcomes of its launches."""

    environment: str
    group: str
    role: str
    placement: str
    outcomes: str
    reasons: tuple[str, ...]


def cell_rows(summary: Summary, runs: Sequence[ShownLaunch]) -> tuple[CellRow, ...]:
    """Return every planned cell with its outcomes and the reasons, including cells that did not run."""
    outcomes: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for run in runs:
        key = run.trial.key.cell
        outcomes.setdefault(key, Counter())[outcome_word(run.trial)] += 1
        for reason in filter(None, (outcome_reason(run.trial), run.trial.unproven, run.trial.partly_proven)):
            reasons.setdefault(key, {})[reason] = None
    rows: list[CellRow] = []
    for cell in summary.cells:
        name = row_name(cell, summary)
        counts = outcomes.get(cell.key)
        refused = summary.unavailable.get(cell.key)
        text = ", ".join(f"{count} {word}" for word, count in counts.items()) if counts else "not run"
        rows.append(
            CellRow(
                environment=name,
                group=cell.group,
                role="A/A" if cell.role is Role.SELF else cell.role.value,
                placement=cell.placement.label,
                outcomes="unavailable" if refused and not counts else text,
                reasons=tuple(reasons.get(cell.key, {refused: None} if refused else {})),
            )
        )
    return tuple(rows)


def by_group(runs: Iterable[ShownLaunch]) -> dict[str, list[ShownLaunch]]:
    """Return the launches by group."""
    groups: dict[str, list[ShownLaunch]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    return groups


def commands(runs: Sequence[ShownLaunch]) -> Mapping[tuple[str, str], str]:
    """Return the command of each environment's last launch."""
    last = {(run.group, run.environment): run.trial for run in runs if run.trial.argv}
    return {key: shlex.join(trial.argv) for key, trial in last.items()}


def listed(runs: Sequence[ShownLaunch]) -> Sequence[ShownLaunch]:
    """Return the launches for the page's list, in order.

    If there are more than `MOST_LISTED`, these are the ones without figures, up to half of them, and an even selection
    of the others: a browser could not show all of them.
    """
    if len(runs) <= MOST_LISTED:
        return runs
    without = [run for run in runs if not run.completed][: MOST_LISTED // 2]
    others = [run for run in runs if run.completed]
    wanted = MOST_LISTED - len(without)
    even = [others[number * len(others) // wanted] for number in range(min(wanted, len(others)))]
    return sorted({run.order: run for run in (*without, *even)}.values(), key=lambda run: run.order)


def trial_row(run: ShownLaunch, columns: Iterable[MetricInfo]) -> Mapping[str, Any]:
    """Return a launch as a row of the page's list, with its values of some columns."""
    trial = run.trial
    outcome = trial.outcome
    return {
        "order": run.order,
        "round": trial.key.round + 1,
        "block": trial.key.block + 1,
        "attempt": trial.key.attempt + 1,
        "repeat": trial.key.repeat or "",
        "environment": run.environment,
        "group": run.group,
        "counts": run.counts,
        "outcome": outcome_word(trial),
        "reason": outcome_reason(trial),
        "stderr": getattr(outcome, "stderr_tail", ""),
        "started": datetime.fromtimestamp(trial.started_unix_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "elapsed": units.duration(trial.elapsed_s),
        "startup": ", ".join(
            f"{STARTUP_WORDS.get(name, name)} {units.seconds(value)}" for name, value in trial.startup_s.items()
        ),
        "values": {
            info.key: _metric_text(info, metric.typical_s)
            for info in columns
            if (metric := run.metrics.get(info.key)) is not None
        },
    }


def _metric_text(info: MetricInfo, value_s: float) -> str:
    if info.kind is MetricKind.RATE and info.done_per_sample > 0 and value_s > 0:
        return units.rate(info.done_per_sample / value_s, info.rate_unit)
    return units.seconds(value_s)
