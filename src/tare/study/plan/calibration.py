"""Launch each third-party program once in the baseline before the comparison starts (docs/adr/0016). Pure.

A program that does not run there fails everywhere, and a program that hangs costs its time limit in every launch. This
first launch is not a trial: it is not stored, and only the estimate of the remaining time uses it. tare's own programs
are known to run and are not calibrated. Nor is a thin study, which launches a program only once or a few times anyway.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from tare.errors import CellsFailed
from tare.model import Cell, Completed, Failed, Outcome, Plan, Role, Trial, Workload
from tare.model.trial import NOT_ENDED
from tare.runtimes import RUNTIMES
from tare.study.plan.cells import available

READ_ONLY: Final = re.compile(r"read-only file system|\bEROFS\b|MPI_ERR_READ_ONLY|file is read only", re.IGNORECASE)
END_OF_INPUT: Final = re.compile(r"end.of.file|\bEOF(?:Error)?\b", re.IGNORECASE)
LET_WRITE: Final = (
    "add --writable (in a study `writable: true`), which opens the folder in which the program works; "
    "for another folder use binds"
)


def due(plan: Plan, completed: Collection[str]) -> tuple[Cell, ...]:
    """Return one baseline cell for each workload with a program that has no completed trial in the baseline yet.

    `completed` are the keys of the cells with a completed trial.
    """
    if plan.study.thin:
        return ()
    cells = [cell for cell in available(plan) if cell.role is Role.BASELINE]
    done = {cell.workload.name for cell in cells if cell.key in completed}
    first: dict[str, Cell] = {}
    for cell in cells:
        if (cell.workload.command or cell.workload.program) and cell.workload.name not in done:
            first.setdefault(cell.workload.name, cell)
    return tuple(first.values())


def check(cell: Cell, outcome: Outcome, *, alone: str = "") -> None:
    """Raise `CellsFailed` if the launch failed, or each of its ranks was `alone`, with the reason.

    An invalid launch did run; its trials report what is not as claimed.
    """
    if alone:
        raise CellsFailed(f"nothing was compared, because in the baseline ({cell.environment.name}) {alone}")
    if isinstance(outcome, Failed):
        raise CellsFailed(
            f"{cell.workload.name} does not run in the baseline ({cell.environment.name}), "
            f"so nothing was compared: {outcome.reason}",
            remedy=_remedy(cell.workload, outcome),
        )


def _remedy(workload: Workload, failed: Failed) -> str:
    """Return what to do about a launch that failed in the baseline, by what it said."""
    if failed.reason.startswith(NOT_ENDED):
        return "if it only needs more time, raise its time limit (--time-limit, in a study time_limit)"
    if _is_read_only(failed):
        return LET_WRITE
    if END_OF_INPUT.search(failed.reason) and not workload.input:
        return "if it reads standard input, name the file: `< FILE` after the command, or `input: FILE` in a study"
    return "try it with `tare launch`"


def _is_read_only(failed: Failed) -> bool:
    return bool(READ_ONLY.search(failed.reason) or READ_ONLY.search(failed.stderr_tail))


def check_writes(plan: Plan, trials: Iterable[Trial]) -> None:
    """Raise `CellsFailed` if a workload always failed in containers because it may not write, and ran elsewhere."""
    outcomes: dict[str, list[Outcome]] = {}
    for trial in trials:
        outcomes.setdefault(trial.key.cell, []).append(trial.outcome)
    for workload in plan.study.workloads:
        cells = [cell for cell in available(plan) if cell.workload.name == workload.name and cell.key in outcomes]
        inside = [
            each for cell in cells if RUNTIMES[cell.environment.runtime].makes_containers for each in outcomes[cell.key]
        ]
        ran = any(isinstance(each, Completed) for cell in cells for each in outcomes[cell.key])
        refused = [each for each in inside if isinstance(each, Failed) and _is_read_only(each)]
        if ran and refused and len(refused) == len(inside):
            raise CellsFailed(
                f"{workload.name} may not write in any container, so the study has ended early: {refused[0].reason}",
                remedy=LET_WRITE,
            )
