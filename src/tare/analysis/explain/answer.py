"""What `tare explain --json` says, as data: docs/explain.schema.json is made from these types. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare import __version__
from tare.analysis.explain.cause import Clue, Suspect
from tare.analysis.explain.cause_ranking import Explained
from tare.analysis.explain.environment_text import environment_text
from tare.analysis.explain.failed import FailedCell
from tare.analysis.explain.remedy import Remedy, RemedyOutcome, effect_of, outcome_of
from tare.analysis.explain.shares import CostShare, ResultsIndex
from tare.analysis.explain.unmeasured_changes import Failures, why_not_measured
from tare.model import Comparison, Estimate, Verdict

FORMAT: Final = 1
"""The version of the document: it grows when a field is removed or changes its meaning, not when one is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectAnswer:
    """A suspect of a cost: its clues (`weight` is their sum), and what its ablation shows.

    `change` says which factor was changed, null if none can be. `share` is the fraction of the cost that it explains,
    `without` the overhead that is left with the change; both are null before an ablation. `unmeasured` is why an
    ablation could not measure it, "" if it could or was not tried. `remedy` is for people.
    """

    name: str
    words: str
    weight: float
    clues: tuple[Clue, ...]
    change: str | None
    proven: bool
    share: Estimate | None
    without: Estimate | None
    unmeasured: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAnswer:
    """One cost: `environment` costs `overhead` (a fraction of the baseline's cost) in a metric of a group.

    `cause` is the name of the proven suspect that explains most, null if the cost is unexplained. `refuted` are the
    names of suspects that a measurement rules out: the cell costs less than its control, or more without the factor.
    `not_explained` is the fraction of the cost that no suspect explains, null if none is measured; the shares of the
    suspects and it add up to 1. `differing` are the facts in which the cell's own nodes differ. `added_s` are the
    seconds that a rank of the whole program takes longer, by kind of time (negative: shorter); empty if not known.
    """

    group: str
    environment: str
    metric: str
    label: str
    overhead: Estimate | None
    cause: str | None
    suspects: tuple[SuspectAnswer, ...]
    refuted: tuple[str, ...]
    not_explained: Estimate | None
    differing: tuple[str, ...]
    added_s: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectAnswer:
    """What a remedy does to one cost: the overheads before and after it, fractions over the same rounds.

    `measured_in` is the folder below `explain/` that has both cells, "" for the results themselves.
    """

    metric: str
    label: str
    before: Estimate | None
    after: Estimate | None
    outcome: RemedyOutcome
    measured_in: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyAnswer:
    """The remedy of an environment in a group: the changes of all proven causes together.

    `removed` are the causes that these changes remove, `left` those that no key of a study removes. `fragment` is an
    entry of a study's `environments:`, as YAML; "" if there is none. `effects` is empty before the remedied cell is
    measured; `unmeasured` is why it could not be, "" if it could or was not tried.
    """

    group: str
    environment: str
    removed: tuple[str, ...]
    left: tuple[str, ...]
    changes: tuple[str, ...]
    fragment: str
    effects: tuple[EffectAnswer, ...]
    unmeasured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotComparable:
    """An environment of a group that is not comparable: it did other work than the baseline, as `reason` says."""

    group: str
    environment: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why the cells of a results folder cost what they cost, failed, or are not comparable.

    `remedies` is null unless they were asked for.
    """

    format: int
    tool: str
    costs: tuple[CostAnswer, ...]
    failed: tuple[FailedCell, ...]
    not_comparable: tuple[NotComparable, ...]
    remedies: tuple[RemedyAnswer, ...] | None


def unlike_cells(comparisons: Iterable[Comparison]) -> tuple[NotComparable, ...]:
    """Return the cells that are not comparable, each once."""
    found = (
        NotComparable(group=each.group, environment=each.environment, reason=each.reason or "")
        for each in comparisons
        if each.verdict is Verdict.NOT_COMPARABLE
    )
    return tuple(dict.fromkeys(found))


def answer_of(
    costs: Iterable[Explained],
    failed: Iterable[FailedCell],
    unlike: Iterable[NotComparable],
    remedies: Iterable[RemedyAnswer] | None,
) -> Answer:
    """Return the answer about some costs, and about cells that failed or are not comparable."""
    return Answer(
        format=FORMAT,
        tool=f"tare {__version__}",
        costs=tuple(map(_cost, costs)),
        failed=tuple(failed),
        not_comparable=tuple(unlike),
        remedies=None if remedies is None else tuple(remedies),
    )


def _cost(cost: Explained) -> CostAnswer:
    evidence = cost.evidence
    return CostAnswer(
        group=evidence.here.cell.group,
        environment=evidence.here.environment.name,
        metric=evidence.info.key,
        label=evidence.info.label,
        overhead=evidence.comparison.overhead,
        cause=cost.named.name if cost.named else None,
        suspects=tuple(_suspect(cost, suspect) for suspect in cost.suspects),
        refuted=tuple(suspect.name for suspect in cost.refuted),
        not_explained=cost.division.rest,
        differing=evidence.here.differing,
        added_s={str(kind): seconds for kind, seconds in evidence.added.seconds.items()},
    )


def _suspect(cost: Explained, suspect: Suspect) -> SuspectAnswer:
    found = cost.shares.get(suspect.name)
    return SuspectAnswer(
        name=suspect.name,
        words=suspect.words,
        weight=suspect.weight,
        clues=suspect.clues,
        change=suspect.change.words if suspect.change else None,
        proven=cost.is_proven(suspect.name),
        share=found.share if found else None,
        without=found.without if found else None,
        unmeasured=cost.unmeasured.get(suspect.name, ""),
        remedy=suspect.remedy,
    )


def remedy_answer(
    remedy: Remedy, places: Sequence[ResultsIndex], failures: Sequence[Failures], margin: float
) -> RemedyAnswer:
    """Return a remedy with its effects in results that have the remedied cell; `margin` as in `outcome_of`."""
    evidence, change = remedy.costs[0].evidence, remedy.change
    cell = evidence.here.cell
    effects = [(cost, effect_of(cost, remedy, places)) for cost in remedy.costs]
    unmeasured = ""
    if change is not None and not any(effect for _, effect in effects):
        unmeasured = why_not_measured(evidence, change, failures)
    return RemedyAnswer(
        group=cell.group,
        environment=cell.environment.name,
        removed=tuple(suspect.name for suspect in remedy.removed),
        left=tuple(suspect.name for suspect in remedy.left),
        changes=remedy.changes,
        fragment="" if remedy.environment is None else environment_text(remedy.environment),
        effects=tuple(_effect(cost, effect, margin) for cost, effect in effects if effect is not None),
        unmeasured=unmeasured,
    )


def _effect(cost: Explained, effect: CostShare, margin: float) -> EffectAnswer:
    return EffectAnswer(
        metric=cost.evidence.info.key,
        label=cost.evidence.info.label,
        before=effect.before,
        after=effect.without,
        outcome=outcome_of(effect, margin),
        measured_in=effect.folder,
    )
