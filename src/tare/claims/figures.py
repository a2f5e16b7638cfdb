"""Find in the results of a study what a claim compares. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, TypeVar

from tare.claims.model import Place
from tare.errors import ResultsError
from tare.model import Cell, Comparison, Completed, MetricInfo, Plan, Role, Trial
from tare.plan.cells import placement_name
from tare.summary.rows import mean_logs
from tare.summary.select import Selection, select

T = TypeVar("T")
SPREAD: Final = "spread:"
COUNTER: Final = "counter:"
FIGURE: Final = "figure:"


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
        if place.metric.startswith(SPREAD):
            return self._spreads(cell, place)
        columns = [info for info in self.metrics if info.group == cell.group]
        found = [info for info in columns if _fits(info.key, place.metric) or _fits(info.label, place.metric)]
        names = [info.label for info in found or columns]
        info = _only(found, place, "metric", self.study, names)
        row = self._rows.get((cell.group, cell.environment.name, info.key))
        return (mean_logs(row) if row is not None else {}), info.label

    def counts(self, place: Place) -> tuple[dict[int, float], str]:
        """Return the mean of a place's counters or figures by round, and what they are.

        Raises `ResultsError` unless the place is one cell and its metric names a counter or one figure.
        """
        cell = self.cell(place)
        kind, _, name = place.metric.partition(":")
        if f"{kind}:" == COUNTER:
            wanted = name.split("+")
            return self._by_round(cell, lambda trial: sum(trial.counters.get(each, 0.0) for each in wanted)), name
        if f"{kind}:" != FIGURE:
            raise ResultsError(
                f"{place} has neither a counter nor a figure", remedy="name one as counter:NAME or figure:NAME"
            )
        known = {
            figure.label
            for trial in self._chosen(cell)
            if isinstance(trial.outcome, Completed)
            for figure in trial.outcome.figures
        }
        label = _only([each for each in sorted(known) if _fits(each, name)], place, "figure", self.study, sorted(known))
        return self._by_round(cell, lambda trial: _figure(trial, label)), label

    def _spreads(self, cell: Cell, place: Place) -> tuple[dict[int, float], str]:
        """Return the mean logarithm of p99 less median by round, in the launches where it is above zero."""
        pattern = place.metric.removeprefix(SPREAD)
        columns = [info for info in self.metrics if info.group == cell.group]
        found = [info for info in columns if _fits(info.key, pattern) or _fits(info.label, pattern)]
        info = _only(found, place, "metric", self.study, [each.label for each in found or columns])

        def spread(trial: Trial) -> float | None:
            metrics = trial.outcome.metrics if isinstance(trial.outcome, Completed) else ()
            widths = [metric.p99_s - metric.median_s for metric in metrics if metric.key == info.key]
            return math.log(widths[0]) if widths and widths[0] > 0 else None

        return self._by_round(cell, spread), f"spread of {info.label}"

    def _by_round(self, cell: Cell, value: Callable[[Trial], float | None]) -> dict[int, float]:
        """Return the mean of a value over the completed launches of a cell that count, by round."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for trial in self._chosen(cell):
            number = value(trial) if isinstance(trial.outcome, Completed) else None
            if number is not None:
                found[trial.key.round].append(number)
        return {number: sum(values) / len(values) for number, values in found.items()}

    def _chosen(self, cell: Cell) -> Sequence[Trial]:
        """Return the trials of a cell that count."""
        return tuple(self._selected.trials[cell.key].values())

    @cached_property
    def _selected(self) -> Selection:
        return select(self.plan, self.trials)

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


def _figure(trial: Trial, label: str) -> float | None:
    figures = trial.outcome.figures if isinstance(trial.outcome, Completed) else ()
    return next((figure.value for figure in figures if figure.label == label), None)


def _fits(name: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(name, pattern)


def _only(found: Sequence[T], place: Place, what: str, study: str, known: Iterable[str]) -> T:
    if len(found) == 1:
        return found[0]
    listed = "; ".join(list(known)[:12])
    count = "no" if not found else "more than one"
    raise ResultsError(f"the results of study {study} have {count} {what} for {place}", remedy=f"name one of: {listed}")
