"""Compute which share of a cost a change explains, from results that have the cell of the change. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tare.analysis import stats
from tare.analysis.explain.cause import Change
from tare.analysis.explain.evidence import Evidence
from tare.analysis.stats import MIN_ROUNDS
from tare.analysis.summary.costs import CostTable
from tare.analysis.summary.rows import self_name
from tare.model import Cell, Environment, Estimate, Placement, PlacementChange, Plan, Role

What = tuple[str, Environment, Placement]
"""What a cell measures: the name of its workload, its environment without its name, its placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Results in which the cells of changes are looked for: a plan and what its rows cost.

    `folder` is the name of their folder in `explain/`, "" for the results that are explained. `failed` has the reasons
    of cells that failed, by their keys.
    """

    plan: Plan
    costs: CostTable
    folder: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostShare:
    """The share of a cost that a change explains, and the overheads of the cell without and with the change.

    All three are fractions, over the same rounds of the results in `folder` (as in `Measured`).
    """

    share: Estimate | None
    without: Estimate | None
    before: Estimate | None
    folder: str = ""


Logs = Mapping[int, float]
"""Differences of mean logarithms, by round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEffect:
    """What a change does to a cost in the results in `folder` (as in `Measured`).

    `cost` is that of the cell to its baseline, `left` that of the changed cell; with `adds` this is the baseline with
    the factor (a control), otherwise the cell without it.
    """

    cost: Logs
    left: Logs
    adds: bool
    folder: str

    @property
    def explained(self) -> Logs:
        """Return what of the cost the factor takes, by itself."""
        return self.left if self.adds else {number: self.cost[number] - left for number, left in self.left.items()}

    def is_refuted(self, confidence: float) -> bool:
        """Return whether the cell costs less than its control, or more without the factor (one-sided)."""
        more = [self.cost[number] - left for number, left in self.left.items()]  # than the changed cell, in both cases
        found = stats.paired_t(more, 2 * confidence - 1)
        return found is not None and found.high < 0

    def by_itself(self) -> CostShare:
        """Return the share of the cost that the factor takes by itself, which may be below 0 or above 1."""
        cost = list(self.cost.values())
        return CostShare(
            share=stats.share_of_cost(list(self.explained.values()), cost),
            without=stats.estimated(stats.paired_t(list(self.left.values()), 0.95)),
            before=stats.estimated(stats.paired_t(cost, 0.95)),
            folder=self.folder,
        )


class ResultsIndex:
    """Results in which cells are looked up by what they measure: studies have thousands of cells and of costs."""

    def __init__(self, measured: Measured) -> None:
        self.folder = measured.folder
        own_name = self_name(measured.plan)
        self._rows: defaultdict[tuple[bool, What], list[tuple[str, str]]] = defaultdict(list)
        for cell in measured.plan.cells:
            is_self = cell.role is Role.SELF
            row = cell.group, own_name if is_self else cell.environment.name
            self._rows[is_self, what_of(cell)].append(row)
        self._costs = measured.costs
        self._logs: dict[tuple[str, str, str], Mapping[int, float]] = {}

    def logs(self, wanted: Cell, metric: str, role: Role) -> Mapping[int, float]:
        """Return the mean logarithm of a cell's costs by round; {} if the results do not have the cell.

        The baseline's copy is looked for only with the role SELF.
        """
        for group, name in self._rows.get((role is Role.SELF, what_of(wanted)), ()):
            key = group, name, metric
            if key in self._costs:
                if key not in self._logs:
                    self._logs[key] = self._costs[key].logs()
                return self._logs[key]
        return {}


def what_of(cell: Cell) -> What:
    """Return what a cell measures, whatever its environment is called and whichever part of a study says it."""
    return cell.workload.name, replace(cell.environment, name="", placement=PlacementChange()), cell.placement


def changed_cell(evidence: Evidence, change: Change) -> Cell:
    """Return the cell that a change asks for."""
    here, environment = evidence.here.cell, change.environment
    if change.adds:
        return replace(evidence.base.cell, environment=environment)
    return replace(here, environment=environment, placement=environment.placement.of(here.placement))


def effect_of(evidence: Evidence, change: Change, place: ResultsIndex) -> ChangeEffect | None:
    """Return what a change does to a cost in some results; None if they do not have its cell in enough rounds."""
    here, base, metric = evidence.here.cell, evidence.base.cell, evidence.info.key
    without = changed_cell(evidence, change)
    same = what_of(without) == what_of(base)  # only this factor differs from the baseline, so its copy is measured
    cell, baseline = place.logs(here, metric, base.role), place.logs(base, metric, base.role)
    changed = place.logs(base, metric, Role.SELF) if same else place.logs(without, metric, base.role)
    common = sorted(cell.keys() & baseline.keys() & changed.keys())
    if len(common) < MIN_ROUNDS:
        return None
    return ChangeEffect(
        cost={number: cell[number] - baseline[number] for number in common},
        left={number: changed[number] - baseline[number] for number in common},
        adds=change.adds,
        folder=place.folder,
    )


def share_of(evidence: Evidence, change: Change, places: Iterable[ResultsIndex]) -> CostShare | None:
    """Return the share of a cost that a change explains by itself, from the first results that have its cell."""
    effect = next((found for place in places if (found := effect_of(evidence, change, place))), None)
    return None if effect is None else effect.by_itself()
