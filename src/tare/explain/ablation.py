"""Make the studies that prove or refute suspects: the costly cells again, and cells with one factor changed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tare.explain.cause import Change
from tare.explain.explained import Explained, all_removed
from tare.model import Environment, Placement, Study

ROUNDS: Final = 10
"""Rounds of an ablation, by default."""
ALL: Final = "everything"
"""What the cell without all suspects lacks, in its environment's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """A study of changes, and the folder for its results below those that it explains."""

    folder: str
    study: Study


@dataclass(slots=True)
class _Cells:
    """The cells of an ablation: environments by what they are, in order, and placements."""

    environments: dict[Environment, Environment] = field(default_factory=dict)
    placements: dict[Placement, None] = field(default_factory=dict)

    def add(self, environment: Environment, name: str) -> None:
        """Add an environment under a name, unless it is there under another."""
        self.environments.setdefault(replace(environment, name=""), replace(environment, name=name))


def studies_of(study: Study, costs: Sequence[Explained], *, rounds: int = ROUNDS) -> tuple[Ablation, ...]:
    """Return the studies that measure the changes of all suspects of these costs, one or more for each group.

    Changes of environments share one study for a group. A change of the placement needs a study of its own, because a
    study runs each environment in each placement.
    """
    made: dict[str, tuple[_Cells, Explained]] = {}
    baseline = next(each for each in study.environments if each.name == study.baseline)
    for cost in costs:
        cell = cost.evidence.here.cell
        for name, change in _changes(cost):
            moved = change.placement != cell.placement
            folder = _slug(cell.group) + (f"-{_slug(cell.environment.name)}-{_slug(name)}" if moved else "")
            cells, _ = made.setdefault(folder, (_Cells(), cost))
            cells.add(baseline, baseline.name)
            cells.add(cell.environment, cell.environment.name)
            cells.add(change.environment, f"{cell.environment.name}-without-{_slug(name)}")
            cells.placements |= {cell.placement: None, change.placement: None}
    return tuple(
        Ablation(folder=folder, study=_study(study, cells, cost, rounds)) for folder, (cells, cost) in made.items()
    )


def _changes(cost: Explained) -> Iterable[tuple[str, Change]]:
    for suspect in cost.suspects:
        if suspect.change is not None:
            yield suspect.name, suspect.change
    together = all_removed(cost.evidence, cost.suspects)
    if together is not None:
        yield ALL, together


def _study(study: Study, cells: _Cells, cost: Explained, rounds: int) -> Study:
    return replace(
        study,
        name=f"explain-{_slug(cost.evidence.here.cell.group)}",
        environments=tuple(cells.environments.values()),
        placements=tuple(cells.placements),
        workloads=(cost.evidence.here.cell.workload,),
        repetition=replace(study.repetition, rounds=rounds, max_rounds=rounds),
        limit=None,
        self_comparison=False,
        published=(),
    )


def _slug(text: str) -> str:
    """Return a text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.+]+", "-", text).strip("-")
