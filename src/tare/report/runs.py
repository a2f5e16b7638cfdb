"""Arrange trials for the report: with their row of the table, by planned cell, and one by one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tare.analysis.summary.select import select
from tare.model import (
    MetricInfo,
    Role,
    Summary,
    Trial,
)
from tare.report import units
from tare.report.frames.source import NumberedTrial, numbered, outcome_word, outcomes_of, row_name

MOST_LISTED: Final = 10_000
STARTUP_WORDS: Final = {
    "pods_s": "containers up", "mpi_init_s": "MPI_Init", "launch_s": "launch",
    "workers_s": "MPIJob's workers ready after", "launcher_s": "its launcher running after",
    "ended_s": "its end reported after",
    "mpirun_s": "of that mpirun itself",
}  # fmt: skip


def launches(summary: Summary, trials: Sequence[Trial]) -> tuple[NumberedTrial, ...]:
    """Return the trials in order of execution, each with its environment and group."""
    return numbered(summary, trials, select(summary, trials), summary.self_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """One planned cell with the outcomes of its launches."""

    environment: str
    group: str
    role: str
    placement: str
    outcomes: str
    reasons: tuple[str, ...]


def cell_rows(summary: Summary, runs: Sequence[NumberedTrial]) -> tuple[CellRow, ...]:
    """Return every planned cell with its outcomes and the reasons, including cells that did not run."""
    outcomes, reasons = outcomes_of(runs)
    rows: list[CellRow] = []
    for cell in summary.cells:
        counts = outcomes.get(cell.key)
        refused = summary.unavailable.get(cell.key)
        text = ", ".join(f"{count} {word}" for word, count in counts.items()) if counts else "not run"
        rows.append(
            CellRow(
                environment=row_name(cell, summary.self_name),
                group=cell.group,
                role="A/A" if cell.role is Role.SELF else cell.role.value,
                placement=cell.placement.label,
                outcomes="unavailable" if refused and not counts else text,
                reasons=tuple(reasons.get(cell.key, {refused: None} if refused else {})),
            )
        )
    return tuple(rows)


def by_group(runs: Iterable[NumberedTrial]) -> dict[str, list[NumberedTrial]]:
    """Return the launches by group."""
    groups: dict[str, list[NumberedTrial]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    return groups


def commands(runs: Sequence[NumberedTrial]) -> Mapping[tuple[str, str], str]:
    """Return the command of each environment's last launch."""
    last = {(run.group, run.environment): run.trial for run in runs if run.trial.argv}
    return {key: shlex.join(trial.argv) for key, trial in last.items()}


def listed(runs: Sequence[NumberedTrial]) -> Sequence[NumberedTrial]:
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
    return sorted({run.number: run for run in (*without, *even)}.values(), key=lambda run: run.number)


def trial_row(run: NumberedTrial, columns: Iterable[MetricInfo]) -> Mapping[str, Any]:
    """Return a launch as a row of the page's list, with its values of some columns."""
    trial = run.trial
    outcome = trial.outcome
    return {
        "order": run.number,
        "round": trial.key.round + 1,
        "block": trial.key.block + 1,
        "attempt": trial.key.attempt + 1,
        "repeat": trial.key.repeat or "",
        "environment": run.environment,
        "group": run.group,
        "counts": run.counts,
        "outcome": outcome_word(trial),
        "reason": trial.reason,
        "stderr": getattr(outcome, "stderr_tail", ""),
        "started": datetime.fromtimestamp(trial.started_unix_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "elapsed": units.duration(trial.elapsed_s),
        "startup": ", ".join(
            f"{STARTUP_WORDS.get(name, name)} {units.seconds(value)}" for name, value in trial.startup_s.items()
        ),
        "values": {
            info.key: units.cost(metric.typical_s, info)
            for info in columns
            if (metric := run.metrics.get(info.key)) is not None
        },
    }
