"""Change a row as its proven causes ask for, all at once, and see what is left of its costs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tare.analysis.explain.ablation import ROUNDS, Ablation, folder_of, stated, study_of_group
from tare.analysis.explain.cause import Change, Suspect
from tare.analysis.explain.cause_ranking import Explained
from tare.analysis.explain.causes import CAUSES
from tare.analysis.explain.shares import CostShare, ResultsIndex, share_of
from tare.model import Environment, Study

REMEDIED: Final = "remedied"
"""What the name of a remedied environment ends in, and the folder of its results begins with."""


class RemedyOutcome(StrEnum):
    """What a remedy does to a cost."""

    BACK = "back at the baseline"
    LESS = "costs less, but still more than the baseline"
    SAME = "not shown to cost less"
    GONE = "the cost itself did not show again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The remedy of a row: the environment with the changes of all its proven causes, and what these are.

    `environment` is None if none of the causes can be removed by keys of a study that leave the runtime as it is;
    `left` are the causes of which that is so. `costs` are those of the row, as explained.
    """

    costs: tuple[Explained, ...]
    removed: tuple[Suspect, ...]
    left: tuple[Suspect, ...]
    changes: tuple[str, ...]
    environment: Environment | None

    @property
    def change(self) -> Change | None:
        """Return all changes as one."""
        if self.environment is None:
            return None
        return Change(words="; ".join(self.changes), environment=self.environment)


def remedies_of(costs: Iterable[Explained]) -> tuple[Remedy, ...]:
    """Return the remedy of each row that has a proven cause."""
    rows: defaultdict[tuple[str, str], list[Explained]] = defaultdict(list)
    for cost in costs:
        cell = cost.evidence.here.cell
        rows[cell.group, cell.environment.name].append(cost)
    return tuple(_remedy(row) for row in rows.values() if any(cost.proven for cost in row))


def _remedy(row: Sequence[Explained]) -> Remedy:
    """Return the remedy of one row: the changes of its proven causes in turn, those of the largest cost first."""
    proven: dict[str, tuple[Suspect, Explained]] = {}
    for cost in sorted(row, key=lambda each: -each.evidence.cost):
        for suspect in cost.proven:
            proven.setdefault(suspect.name, (suspect, cost))
    cell = row[0].evidence.here.cell
    changes: list[str] = []
    removed: list[Suspect] = []
    for suspect, cost in proven.values():
        evidence = replace(cost.evidence, here=replace(cost.evidence.here, cell=cell))
        change = CAUSES[suspect.name].change(evidence)
        if change is None or change.adds or change.environment.runtime != cell.environment.runtime:
            continue
        removed.append(suspect)
        if change.environment != cell.environment:
            changes.append(change.words)
        placement = change.environment.placement.of(cell.placement)
        cell = replace(cell, environment=change.environment, placement=placement)
    name = f"{cell.environment.name}-{REMEDIED}"
    return Remedy(
        costs=tuple(row),
        removed=tuple(removed),
        left=tuple(suspect for suspect, _ in proven.values() if suspect not in removed),
        changes=tuple(changes),
        environment=replace(cell.environment, name=name) if changes else None,
    )


def effect_of(cost: Explained, remedy: Remedy, places: Sequence[ResultsIndex]) -> CostShare | None:
    """Return what a remedy does to a cost, None if no results have the cell."""
    return None if remedy.change is None else share_of(cost.evidence, remedy.change, places)


def outcome_of(effect: CostShare, margin: float) -> RemedyOutcome:
    """Return what an effect says; a cost surely below `margin` (a fraction) is none."""
    if effect.share is None or effect.without is None:
        return RemedyOutcome.GONE
    if effect.share.low <= 0:
        return RemedyOutcome.SAME
    return RemedyOutcome.BACK if effect.without.low <= 0 or effect.without.high < margin else RemedyOutcome.LESS


def studies_of(
    study: Study, remedies: Iterable[Remedy], places: Sequence[ResultsIndex], *, rounds: int = ROUNDS
) -> tuple[Ablation, ...]:
    """Return the studies that measure the remedied cells, one for each group; cells that `places` have are left out."""
    groups: defaultdict[str, list[Remedy]] = defaultdict(list)
    for remedy in remedies:
        if remedy.environment is not None and any(effect_of(cost, remedy, places) is None for cost in remedy.costs):
            groups[remedy.costs[0].evidence.here.cell.group].append(remedy)
    return tuple(_study(study, group, wanted, rounds) for group, wanted in groups.items())


def _study(study: Study, group: str, remedies: Sequence[Remedy], rounds: int) -> Ablation:
    baseline = stated(study, study.baseline)
    cells = {replace(baseline, name=""): baseline}
    for remedy in remedies:
        costly = stated(study, remedy.costs[0].evidence.here.environment.name)
        for environment in (costly, remedy.environment):
            if environment is not None:
                cells.setdefault(replace(environment, name=""), environment)
    folder = f"{REMEDIED}-{folder_of(group)}"
    measured = study_of_group(study, tuple(cells.values()), remedies[0].costs[0], rounds)
    return Ablation(folder=folder, study=replace(measured, name=f"explain-{folder}"))
