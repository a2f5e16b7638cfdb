"""Compute which share of a cost a change explains, from results that have the cell of the change. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tare import stats
from tare.explain.cause import Change
from tare.explain.evidence import Evidence
from tare.model import Cell, Comparison, Environment, Estimate, Placement, PlacementChange, Plan, Role
from tare.stats import MIN_ROUNDS
from tare.summary.costs import mean_logs
from tare.summary.rows import self_name

What = tuple[str, Environment, Placement]
"""What a cell measures: the name of its workload, its environment without its name, its placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Results in which the cells of changes are looked for: a plan and what was found.

    `folder` is the name of their folder in `explain/`, "" for the results that are explained.
    """

    plan: Plan
    comparisons: Sequence[Comparison]
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of a cost that a change explains, and the overheads of the cell without and with the change.

    All three are fractions, over the same rounds of the results in `folder` (as in `Measured`).
    """

    share: Estimate | None
    without: Estimate | None
    before: Estimate | None
    folder: str = ""


class Place:
    """Results in which cells are looked up by what they measure: studies have thousands of cells and of costs."""

    def __init__(self, measured: Measured) -> None:
        self.folder = measured.folder
        own_name = self_name(measured.plan)
        self._rows: defaultdict[tuple[bool, What], list[tuple[str, str]]] = defaultdict(list)
        for cell in measured.plan.cells:
            is_self = cell.role is Role.SELF
            row = cell.group, own_name if is_self else cell.environment.name
            self._rows[is_self, what_of(cell)].append(row)
        self._comparisons: dict[tuple[str, str, str], Comparison] = {}
        for each in measured.comparisons:
            self._comparisons.setdefault((each.group, each.environment, each.metric), each)
        self._logs: dict[tuple[str, str, str], Mapping[int, float]] = {}

    def logs(self, wanted: Cell, metric: str, role: Role) -> Mapping[int, float]:
        """Return the mean logarithm of a cell's costs by round; {} if the results do not have the cell.

        The baseline's copy is looked for only with the role SELF.
        """
        for group, name in self._rows.get((role is Role.SELF, what_of(wanted)), ()):
            key = group, name, metric
            if key in self._comparisons:
                if key not in self._logs:
                    self._logs[key] = mean_logs(self._comparisons[key].rounds, self._comparisons[key].values_s)
                return self._logs[key]
        return {}


def what_of(cell: Cell) -> What:
    """Return what a cell measures, whatever its environment is called and whichever part of a study says it."""
    return cell.workload.name, replace(cell.environment, name="", placement=PlacementChange()), cell.placement


def share_of(evidence: Evidence, change: Change, places: Sequence[Place]) -> Share | None:
    """Return the share of a cost that a change explains, from the first results that have the cell of the change."""
    here, base, metric = evidence.here.cell, evidence.base.cell, evidence.info.key
    without = replace(here, environment=change.environment, placement=change.environment.placement.of(here.placement))
    if change.adds:
        without = replace(base, environment=change.environment)
    same = what_of(without) == what_of(base)  # only this factor differs from the baseline, so its copy is measured
    for place in places:
        cell, baseline = place.logs(here, metric, base.role), place.logs(base, metric, base.role)
        changed = place.logs(base, metric, Role.SELF) if same else place.logs(without, metric, base.role)
        common = sorted(cell.keys() & baseline.keys() & changed.keys())
        if len(common) < MIN_ROUNDS:
            continue
        cost = [cell[number] - baseline[number] for number in common]
        left = [changed[number] - baseline[number] for number in common]
        explained = left if change.adds else [cell[number] - changed[number] for number in common]
        return Share(
            share=stats.share_of_cost(explained, cost),
            without=stats.estimated(stats.paired_t(left, 0.95)),
            before=stats.estimated(stats.paired_t(cost, 0.95)),
            folder=place.folder,
        )
    return None


def left_by(share: Estimate | None) -> Estimate | None:
    """Return what a share leaves of the cost."""
    if share is None:
        return None
    return Estimate(value=1.0 - share.value, low=1.0 - share.high, high=1.0 - share.low, n=share.n)
