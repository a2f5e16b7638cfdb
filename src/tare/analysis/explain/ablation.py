"""Make the studies that prove or refute suspects: the costly cells again, and cells with one factor changed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare.analysis.explain.cause import Change
from tare.analysis.explain.cause_ranking import Explained, all_removed
from tare.errors import ResultsError
from tare.model import Environment, Study

ROUNDS: Final = 10
"""Rounds of an ablation, by default."""
ALL: Final = "everything"
"""What the cell without all suspects lacks, in its environment's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """A study of changes, and the folder for its results below those that it explains."""

    folder: str
    study: Study


def studies_of(study: Study, costs: Sequence[Explained], *, rounds: int = ROUNDS) -> tuple[Ablation, ...]:
    """Return the studies that measure the changes of all suspects of these costs, one for each group."""
    baseline = stated(study, study.baseline)
    made: dict[str, dict[Environment, Environment]] = {}
    first: dict[str, Explained] = {}
    for cost in costs:
        cell = cost.evidence.here.cell
        for name, change in _changes(cost):
            cells = made.setdefault(cell.group, {_nameless(baseline): baseline})
            first.setdefault(cell.group, cost)
            costly = stated(study, cell.environment.name)
            cells.setdefault(_nameless(costly), costly)
            named = replace(change.environment, name=f"{cell.environment.name}-without-{folder_of(name)}")
            cells.setdefault(_nameless(change.environment), named)
    return tuple(
        Ablation(folder=folder_of(group), study=study_of_group(study, tuple(cells.values()), first[group], rounds))
        for group, cells in made.items()
    )


def stated(study: Study, name: str) -> Environment:
    """Return the environment of a study with this name; raise `ResultsError` for results whose study lacks it."""
    for each in study.environments:
        if each.name == name:
            return each
    raise ResultsError(
        f"the results have a cell of environment {name}, but their study does not have it",
        remedy="their plan.json was changed: measure the study again",
    )


def _nameless(environment: Environment) -> Environment:
    return replace(environment, name="")


def _changes(cost: Explained) -> Iterable[tuple[str, Change]]:
    for suspect in cost.suspects:
        if suspect.change is not None:
            yield suspect.name, suspect.change
    together = all_removed(cost.evidence, cost.suspects)
    if together is not None:
        yield ALL, together.change


def study_of_group(study: Study, environments: tuple[Environment, ...], cost: Explained, rounds: int) -> Study:
    """Return the study of these environments in the group of a cost, with the settings of the study it is from."""
    cell = cost.evidence.base.cell
    return replace(
        study,
        name=f"explain-{folder_of(cell.group)}",
        environments=environments,
        placements=(cell.placement,),
        workloads=(cell.workload,),
        repetition=replace(study.repetition, rounds=rounds, max_rounds=rounds),
        limit=None,
        self_comparison=True,
        published=(),
    )


def folder_of(text: str) -> str:
    """Return the name of a group or a cause as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.+]+", "-", text).strip("-")
