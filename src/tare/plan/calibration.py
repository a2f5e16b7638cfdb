"""Launch each third-party program once in the baseline before the comparison starts (docs/adr/0016). Pure.

A program that does not run there fails everywhere, and a program that hangs costs its time limit in every launch. This
first launch is not a trial: it is not stored, and only the estimate of the remaining time uses it. tare's own programs
are known to run and are not calibrated. Nor is a thin study, which launches a program only once or a few times anyway.
"""

from __future__ import annotations

from collections.abc import Collection

from tare.errors import CellsFailed
from tare.model import Cell, Failed, Outcome, Plan, Role
from tare.plan.cells import available


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


def check(cell: Cell, outcome: Outcome) -> None:
    """Raise `CellsFailed` if the launch failed. An invalid launch did run; its trials report what is not as claimed."""
    if isinstance(outcome, Failed):
        raise CellsFailed(
            f"{cell.workload.name} does not run in the baseline ({cell.environment.name}), "
            f"so nothing was compared: {outcome.reason}",
            remedy="try it with `tare launch`; if it only needs more time, raise its time limit",
        )
