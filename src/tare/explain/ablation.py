"""Make the studies that prove or refute suspects: the costly cells again, and cells with one factor changed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare.explain.cause import Change
from tare.explain.explained import Explained, all_removed
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
    baseline = next(each for each in study.environments if each.name == study.baseline)
    made: dict[str, dict[Environment, Environment]] = {}
    first: dict[str, Explained] = {}
    for cost in costs:
        cell = cost.evidence.here.cell
        for name, change in _changes(cost):
            cells = made.setdefault(cell.group, {_nameless(baseline): baseline})
            first.setdefault(cell.group, cost)
            stated = next(each for each in study.environments if each.name == cell.environment.name)
            cells.setdefault(_nameless(stated), stated)
            named = replace(change.environment, name=f"{cell.environment.name}-without-{_slug(name)}")
            cells.setdefault(_nameless(change.environment), named)
    return tuple(
        Ablation(folder=_slug(group), study=_study(study, tuple(cells.values()), first[group], rounds))
        for group, cells in made.items()
    )


def _nameless(environment: Environment) -> Environment:
    return replace(environment, name="")


def _changes(cost: Explained) -> Iterable[tuple[str, Change]]:
    for suspect in cost.suspects:
        if suspect.change is not None:
            yield suspect.name, suspect.change
    together = all_removed(cost.evidence, cost.suspects)
    if together is not None:
        yield ALL, together


def _study(study: Study, environments: tuple[Environment, ...], cost: Explained, rounds: int) -> Study:
    cell = cost.evidence.base.cell
    return replace(
        study,
        name=f"explain-{_slug(cell.group)}",
        environments=environments,
        placements=(cell.placement,),
        workloads=(cell.workload,),
        repetition=replace(study.repetition, rounds=rounds, max_rounds=rounds),
        limit=None,
        self_comparison=True,
        published=(),
    )


def _slug(text: str) -> str:
    """Return a text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.+]+", "-", text).strip("-")
