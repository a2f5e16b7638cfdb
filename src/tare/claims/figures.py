"""Find in the results of a study what a claim compares. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TypeVar

from tare.claims.model import Place
from tare.errors import ResultsError
from tare.model import Cell, Comparison, MetricInfo, Plan, Role, Trial
from tare.plan.cells import placement_name
from tare.summary.rows import mean_logs

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The results of a study: its plan, trials and comparisons, the cores of its machine, and what to call them."""

    plan: Plan
    trials: Sequence[Trial]
    metrics: Sequence[MetricInfo]
    comparisons: Sequence[Comparison]
    cores: int
    label: str

    @property
    def study(self) -> str:
        """Return the name of the study."""
        return self.plan.study.name

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str, str], Comparison]:
        return {(each.group, each.environment, each.metric): each for each in self.comparisons}

    def cell(self, place: Place) -> Cell:
        """Return the cell of a place; raise `ResultsError` unless there is exactly one."""
        cells = [
            cell
            for cell in self.plan.cells
            if cell.role is not Role.SELF
            and cell.environment.name == place.environment
            and _fits(cell.workload.name, place.workload)
            and _fits(placement_name(cell.placement), place.placement)
        ]
        known = {f"{cell.environment.name} / {cell.group}" for cell in self.plan.cells if cell.role is not Role.SELF}
        return _only(cells, place, "cell", self.study, [cell.group for cell in cells] or sorted(known))

    def logs(self, place: Place) -> tuple[dict[int, float], str]:
        """Return the mean logarithm of a place's costs by round, and the label of its metric.

        Raises `ResultsError` unless the place is one cell and one column.
        """
        cell = self.cell(place)
        columns = [info for info in self.metrics if info.group == cell.group]
        found = [info for info in columns if _fits(info.key, place.metric) or _fits(info.label, place.metric)]
        names = [info.label for info in found or columns]
        info = _only(found, place, "metric", self.study, names)
        row = self._rows.get((cell.group, cell.environment.name, info.key))
        return (mean_logs(row) if row is not None else {}), info.label

    def conditions(self, places: Iterable[Place]) -> str:
        """Return where and how the cells of places ran: cluster, placements, MTU, rate of the links."""
        cells = [self.cell(place) for place in places]
        study = self.plan.study
        wanted = {cell.key for cell in cells}
        mtus = sorted(
            {trial.facts["mtu"] for trial in self.trials if trial.key.cell in wanted and "mtu" in trial.facts}
        )
        rate = study.lab.link_rate_bps
        parts = (
            study.cluster,
            *dict.fromkeys(placement_name(cell.placement) for cell in cells),
            f"MTU {', '.join(mtus)}" if mtus else "",
            f"{rate / 1e9:g} Gbit/s" if rate else "",
        )
        return ", ".join(part for part in parts if part)

    def of_cell(self, cell: Cell) -> list[Trial]:
        """Return the trials of a cell."""
        return [trial for trial in self.trials if trial.key.cell == cell.key]


def _fits(name: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(name, pattern)


def _only(found: Sequence[T], place: Place, what: str, study: str, known: Iterable[str]) -> T:
    if len(found) == 1:
        return found[0]
    listed = "; ".join(list(known)[:12])
    count = "no" if not found else "more than one"
    raise ResultsError(f"the results of study {study} have {count} {what} for {place}", remedy=f"name one of: {listed}")
