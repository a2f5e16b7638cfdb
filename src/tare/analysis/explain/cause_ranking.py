"""Rank the causes of each cost by their clues, and name those that an ablation proves. Pure.

A cost is a comparison with the verdict COSTS. A suspect is a cause with more clues for it than against. It is named
if the cell without it, or the baseline with it, shows that its share of the cost is above zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tare.analysis.explain.cause import CausePlugin, Change, Suspect
from tare.analysis.explain.causes import CAUSES
from tare.analysis.explain.division import Division, JointChange, divide
from tare.analysis.explain.evidence import Evidence, Launches, launches_of
from tare.analysis.explain.shares import CostShare, Measured, ResultsIndex
from tare.analysis.explain.unmeasured_changes import Failures, reasons_of, why_not_measured
from tare.analysis.summary import Compared
from tare.analysis.summary.costs import costs_in
from tare.analysis.summary.select import select
from tare.model import (
    Cause,
    Cell,
    Comparison,
    Environment,
    Plan,
    Role,
    Summary,
    Trial,
    Verdict,
)
from tare.networks import NETWORKS
from tare.networks.wiring.conflist import PREFIX
from tare.runtimes import RUNTIMES

LEAST_WEIGHT: Final = 1.0
"""What speaks for a suspect at least."""
MOST_SUSPECTS: Final = 4
"""Most suspects of a cost that are looked at further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A cost with its suspects, the one with the strongest clues first, and what ablations say of them, by name.

    `evidence` has the launches; `division` how the cost divides among the suspects that are measured, `refuted` has
    those that it rules out. `unmeasured` says of suspects, by name, why their changes could not be measured.
    """

    evidence: Evidence
    suspects: tuple[Suspect, ...]
    refuted: tuple[Suspect, ...] = ()
    division: Division = field(default_factory=Division)
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def shares(self) -> Mapping[str, CostShare]:
        """Return the shares of the suspects that are measured, by name."""
        return self.division.shares

    @property
    def proven(self) -> tuple[Suspect, ...]:
        """Return the suspects whose share of the cost is above zero."""
        return tuple(suspect for suspect in self.suspects if self.is_proven(suspect.name))

    def is_proven(self, name: str) -> bool:
        """Return whether the interval of a suspect's share is above zero."""
        found = self.shares.get(name)
        return found is not None and found.share is not None and found.share.low > 0

    @property
    def named(self) -> Suspect | None:
        """Return the cause, None if the cost is unexplained.

        It is the proven suspect with the strongest clues, of those that explain most: whose share's interval is not
        below that of another.
        """
        shares = [(suspect, share) for suspect in self.proven if (share := self.shares[suspect.name].share)]
        most = max((share.low for _, share in shares), default=0.0)
        return next((suspect for suspect, share in shares if share.high >= most), None)


def explain(
    plan: Plan, trials: Sequence[Trial], summary: Compared | Summary, ablations: Sequence[Measured] = ()
) -> tuple[Explained, ...]:
    """Return every cost of a study with its suspects; `ablations` are the results of `ablation.study_of`, if any."""
    selection = select(plan, trials)
    launches: dict[str, Launches] = {}

    def of(cell: Cell) -> Launches:
        if cell.key not in launches:
            launches[cell.key] = launches_of(cell, selection.trials[cell.key].values())
        return launches[cell.key]

    cells = {(cell.group, cell.environment.name): cell for cell in plan.cells if cell.role is Role.ENVIRONMENT}
    baselines = {cell.group: cell for cell in plan.cells if cell.role is Role.BASELINE}
    infos = {(info.group, info.key): info for info in summary.metrics}
    of_row: defaultdict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for each in summary.comparisons:
        of_row[each.group, each.environment].append(each)
    own = Measured(plan=plan, costs=costs_in(summary.comparisons), failed=reasons_of(plan, trials))
    places, failures = tuple(map(ResultsIndex, (*ablations, own))), tuple(map(Failures, (*ablations, own)))
    found = []
    for row, compared in of_row.items():
        cell, base = cells.get(row), baselines.get(row[0])
        if cell is None or base is None or not (_is_known(cell.environment) and _is_known(base.environment)):
            continue
        pairs = [(infos[row[0], each.metric], each) for each in compared if (row[0], each.metric) in infos]
        for info, each in pairs:
            if each.verdict is Verdict.COSTS and info.judged:
                others = [pair for pair in pairs if pair[1] is not each]
                evidence = Evidence(comparison=each, info=info, here=of(cell), base=of(base), others=others)
                found.append(_explained(evidence, places, failures, plan.study.repetition.confidence))
    return tuple(found)


def _is_known(environment: Environment) -> bool:
    """Return whether this version has what an environment of stored results names."""
    network = environment.network
    return environment.runtime in RUNTIMES and (network in NETWORKS or network.startswith(PREFIX))


def suspects_of(evidence: Evidence) -> tuple[Suspect, ...]:
    """Return the causes for which more speaks than against, the strongest first."""
    found = []
    added = evidence.added
    for cause in CAUSES.values():
        if not added.fits(cause.takes):
            continue
        clues = tuple(cause.clues(evidence))
        if clues and sum(clue.weight for clue in clues) >= LEAST_WEIGHT:
            found.append(
                Suspect(
                    name=cause.name,
                    words=cause.words,
                    clues=tuple(sorted(clues, key=lambda clue: -clue.weight)),
                    change=_change(cause, evidence),
                    remedy=cause.remedy(evidence),
                )
            )
    return tuple(sorted(found, key=lambda suspect: -suspect.weight)[:MOST_SUSPECTS])


def _change(cause: CausePlugin, evidence: Evidence) -> Change | None:
    """Return the change that proves a cause, None if it changes nothing."""
    change = cause.change(evidence)
    here = evidence.here.environment
    return None if change is None or replace(change.environment, name=here.name) == here else change


def all_removed(evidence: Evidence, suspects: Iterable[Suspect]) -> JointChange | None:
    """Return the change that removes all suspects that can be removed together; None if there are not two."""
    removed, last = list[tuple[str, str]](), evidence
    for suspect in suspects:
        change = CAUSES[suspect.name].change(last)
        if change is None or change.adds:
            continue
        removed.append((suspect.name, change.words))
        placement = change.environment.placement.of(last.here.cell.placement)
        cell = replace(last.here.cell, environment=change.environment, placement=placement)
        last = replace(last, here=replace(last.here, cell=cell))
    if len(removed) < 2:
        return None
    words = "; ".join(words for _, words in removed)
    change = Change(words=words, environment=last.here.environment)
    return JointChange(change=change, names=frozenset(name for name, _ in removed))


def _explained(
    evidence: Evidence, places: Sequence[ResultsIndex], failures: Sequence[Failures], confidence: float
) -> Explained:
    every = suspects_of(evidence)
    division = divide(evidence, every, all_removed(evidence, every), places, confidence)
    unmeasured = {
        suspect.name: reason
        for suspect in every
        if suspect.change is not None
        and suspect.name not in {*division.alone, *division.refuted}
        and (reason := why_not_measured(evidence, suspect.change, failures))
    }
    return Explained(
        evidence=evidence,
        suspects=tuple(suspect for suspect in every if suspect.name not in division.refuted),
        refuted=tuple(suspect for suspect in every if suspect.name in division.refuted),
        division=division,
        unmeasured=unmeasured,
    )


def causes_of(costs: Iterable[Explained]) -> tuple[Cause, ...]:
    """Return for each row of a report its causes: those that are proven, and else the strongest suspect.

    Metrics of a row that have the same cause share an entry; its share is that of the metric with the largest cost.
    """
    rows: defaultdict[tuple[str, str, str, bool], list[tuple[Explained, Suspect]]] = defaultdict(list)
    for cost in costs:
        suspect = cost.named or next(iter(cost.suspects), None)
        if suspect is not None:
            cell = cost.evidence.here.cell
            rows[cell.group, cell.environment.name, suspect.name, cost.named is not None].append((cost, suspect))
    found = []
    for (group, environment, name, proven), members in rows.items():
        largest, suspect = max(members, key=lambda member: member[0].evidence.cost)
        share = largest.shares.get(name)
        found.append(
            Cause(
                group=group,
                environment=environment,
                metrics=tuple(cost.evidence.info.key for cost, _ in members),
                name=name,
                words=suspect.words,
                proven=proven,
                share=share.share if share else None,
                remedy=suspect.remedy,
                unmeasured=largest.unmeasured.get(name, ""),
            )
        )
    return tuple(found)
