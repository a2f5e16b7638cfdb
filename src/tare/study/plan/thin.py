"""Make the thin version of a study, which shows in little time that its file still runs. Pure.

A thin study has one round of small workloads (`WorkloadPlugin.thin`), and of its cells only as many as start every
environment, placement and workload once. It decides nothing: its results carry that mark (`Study.thin`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tare.model import Cell, Placement, Repetition, Study, Workload
from tare.workloads import plugin_of

LEFT_OUT: Final = "left out of the thin study, in which other cells have its environment, placement and workload"
TURNS: Final = 2
"""Turns of a study whose launches take turns: few, because each discards some iterations."""


def thin(study: Study) -> Study:
    """Return the thin version of a study."""
    repetition = replace(
        Repetition(rounds=1, max_rounds=1, reruns=0),
        confidence=study.repetition.confidence,
        target_half_width=study.repetition.target_half_width,
        turns=min(TURNS, study.repetition.turns),
    )
    workloads = tuple(_thin_workload(workload, study.placements) for workload in study.workloads)
    return replace(study, workloads=workloads, repetition=repetition, self_comparison=False, thin=True)


def left_out(cells: Sequence[Cell], unavailable: Collection[str]) -> tuple[str, ...]:
    """Return the keys of the cells that a thin study does not need.

    The cells that are kept have every environment, image, placement and workload that can run here. Each time the cell
    is taken that has most of those that are not covered yet; where several have, the first of those that take least.
    """
    able = [cell for cell in cells if cell.key not in unavailable]
    lacking = {part for cell in able for part in _parts(cell)}
    kept: set[str] = set()
    while lacking:
        chosen = max(able, key=lambda cell: (len(lacking.intersection(_parts(cell))), -_expected_s(cell)))
        kept.add(chosen.key)
        lacking.difference_update(_parts(chosen))
    return tuple(cell.key for cell in able if cell.key not in kept)


def _expected_s(cell: Cell) -> float:
    """Return about how long a launch of a cell measures."""
    return plugin_of(cell.workload).expected_s(cell.workload, cell.placement)


def _parts(cell: Cell) -> tuple[tuple[str, str], ...]:
    """Return what a launch of a cell shows to run."""
    placement = cell.group.removeprefix(f"{cell.workload.name} / ")
    return (
        ("environment", cell.environment.name),
        ("image", f"{cell.environment.image} {cell.environment.mpi}"),
        ("placement", placement),
        ("workload", cell.workload.name),
    )


def _thin_workload(workload: Workload, placements: Sequence[Placement]) -> Workload:
    """Return a small version of a workload, or the workload itself where a placement refuses the small version."""
    plugin = plugin_of(workload)
    small = plugin.thin(workload)
    for placement in placements:
        if plugin.refuse(small, placement) is not None and plugin.refuse(workload, placement) is None:
            return workload
    return small
