"""Find in the results of a study what a claim compares. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeVar

from tare.analysis import stats
from tare.analysis.summary.costs import Costs, CostTable, means_by_round
from tare.analysis.summary.rows import PairedRows, paired_rows
from tare.compare.claims import modes
from tare.compare.claims.model import CellPattern
from tare.compare.claims.test_keys import VARIATION
from tare.errors import ResultsError
from tare.model import Cell, Completed, Metric, MetricInfo, Plan, Role, Trial
from tare.study.plan.cells import placement_name

if TYPE_CHECKING:
    from tare.compare.claims.modes import Floats

T = TypeVar("T")
SPREAD: Final = "spread:"
MEAN: Final = "mean:"
COUNTER: Final = "counter:"
FIGURE: Final = "figure:"
TRAFFIC: Final = "traffic:"
NIC: Final = "data NIC*"
"""The roles of the interfaces between nodes: what all of them send is counted once each."""
AMOUNTS: Final = ("packets", "bytes", "packets/s", "bytes/s", "bytes/packet")


@dataclass(frozen=True, kw_only=True)
class MeasuredStudy:
    """The results of a study: its plan and trials, the cores of its machine, what to call them.

    `samples` reads those of a trial by column.
    """

    plan: Plan
    trials: Sequence[Trial]
    cores: int
    label: str
    samples: Callable[[Trial], Mapping[str, Floats]] = lambda trial: {}

    @property
    def study(self) -> str:
        """Return the name of the study."""
        return self.plan.study.name

    @cached_property
    def table(self) -> PairedRows:
        """Return the rows of the study's table, not judged."""
        return paired_rows(self.plan, self.trials)

    @cached_property
    def costs(self) -> CostTable:
        """Return what the launches cost."""
        return self.table.costs

    def cell(self, place: CellPattern) -> Cell:
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

    def logs(self, place: CellPattern) -> tuple[dict[int, float], str]:
        """Return the mean logarithm of a place's costs by round, and the label of its metric.

        Raises `ResultsError` unless the place is one cell and one column.
        """
        cell = self.cell(place)
        if place.metric.startswith(SPREAD):
            return self._spreads(cell, place)
        if place.metric.startswith(tuple(modes.CENTRES)):
            return self._modes(cell, place)
        if place.metric.startswith(VARIATION):
            return self._variation(replace(place, metric=place.metric.removeprefix(VARIATION)))
        if place.metric.startswith(MEAN):
            return self._means(cell, place)
        info = self._column(cell, place, place.metric)
        return self.costs.get((cell.group, cell.environment.name, info.key), Costs()).logs(), info.label

    def _column(self, cell: Cell, place: CellPattern, pattern: str) -> MetricInfo:
        """Return the one column of a cell whose name has a pattern; raise `ResultsError` unless there is one."""
        columns = [info for info in self.table.infos if info.group == cell.group]
        found = [info for info in columns if _fits(info.key, pattern) or _fits(info.label, pattern)]
        return _only(found, place, "metric", self.study, [info.label for info in found or columns])

    def counts(self, place: CellPattern) -> tuple[dict[int, float], str]:
        """Return the mean of a place's counters, figures or traffic by round, and what they are.

        Raises `ResultsError` unless the place is one cell and its metric names a counter, one figure, or traffic.
        """
        if place.metric.startswith(tuple(modes.NUMBERS)):
            return self._modes(self.cell(place), place)
        value, label = self._number(place)
        return self._by_round(self.cell(place), value), label

    def each(self, place: CellPattern) -> tuple[list[float], str]:
        """Return a place's counters or figures in every launch that counts, and what they are."""
        value, label = self._number(place)
        numbers = [value(trial) for trial in self._chosen(self.cell(place)) if isinstance(trial.outcome, Completed)]
        return [number for number in numbers if number is not None], label

    def _number(self, place: CellPattern) -> tuple[Callable[[Trial], float | None], str]:
        """Return how a place's number is read from a completed launch, and what it is."""
        kind, _, name = place.metric.partition(":")
        if f"{kind}:" == COUNTER:
            wanted = name.split("+")
            return (lambda trial: sum(trial.counters.get(each, 0.0) for each in wanted)), name
        if f"{kind}:" == TRAFFIC and name in AMOUNTS:
            return partial(_traffic, amount=name), f"{name} between nodes"
        if f"{kind}:" != FIGURE:
            raise ResultsError(
                f"{place} has neither a counter nor a figure nor traffic",
                remedy=f"name one as counter:NAME or figure:NAME, or one of traffic:{', traffic:'.join(AMOUNTS)}",
            )
        outcomes = [trial.outcome for trial in self._chosen(self.cell(place))]
        completed = [outcome for outcome in outcomes if isinstance(outcome, Completed)]
        if not completed:
            return (lambda _: None), name
        known = {figure.label for outcome in completed for figure in outcome.figures}
        label = _only([each for each in sorted(known) if _fits(each, name)], place, "figure", self.study, sorted(known))
        return (lambda trial: _figure(trial, label)), label

    def _variation(self, place: CellPattern) -> tuple[dict[int, float], str]:
        """Return parts by round whose mean is the logarithm of the standard deviation of a place's logarithms."""
        logs, label = self.logs(place)
        parts = stats.jackknifed_log_deviation([logs[number] for number in sorted(logs)])
        return dict(zip(sorted(logs), parts, strict=False)), f"variation of {label}"

    def _means(self, cell: Cell, place: CellPattern) -> tuple[dict[int, float], str]:
        """Return the mean logarithm by round of the mean iteration, of that of the typical turn if there are turns."""
        info = self._column(cell, place, place.metric.removeprefix(MEAN))
        mean = partial(_log_of, key=info.key, cost=lambda metric: metric.turn_mean_s or metric.value)
        return self._by_round(cell, mean), f"mean of {info.label}"

    def _spreads(self, cell: Cell, place: CellPattern) -> tuple[dict[int, float], str]:
        """Return the mean logarithm of p99 less median by round, in the launches where it is above zero.

        It is that of the typical turn if there are turns.
        """
        info = self._column(cell, place, place.metric.removeprefix(SPREAD))
        spread = partial(
            _log_of, key=info.key, cost=lambda metric: metric.turn_spread_s or metric.p99_s - metric.median_s
        )
        return self._by_round(cell, spread), f"spread of {info.label}"

    def _modes(self, cell: Cell, place: CellPattern) -> tuple[dict[int, float], str]:
        """Return the mean of a number on the modes of a launch's iterations by round."""
        name, _, pattern = place.metric.partition(":")
        info = self._column(cell, place, pattern)

        def value(trial: Trial) -> float | None:
            return modes.number_of(trial, self.samples(trial), info.key, f"{name}:")

        return self._by_round(cell, value), f"{modes.SAID[name]} of {info.label}"

    def _by_round(self, cell: Cell, value: Callable[[Trial], float | None]) -> dict[int, float]:
        """Return the mean of a value over the completed launches of a cell that count, by round."""
        completed = (trial for trial in self._chosen(cell) if isinstance(trial.outcome, Completed))
        numbers = ((trial.key.round, value(trial)) for trial in completed)
        return means_by_round((round_, number) for round_, number in numbers if number is not None)

    def _chosen(self, cell: Cell) -> Sequence[Trial]:
        """Return the trials of a cell that count."""
        return tuple(self.table.selection.trials[cell.key].values())

    def conditions(self, places: Iterable[CellPattern]) -> str:
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


def _log_of(trial: Trial, *, key: str, cost: Callable[[Metric], float]) -> float | None:
    """Return the logarithm of a cost of a metric in a launch; None unless it is above zero."""
    costs = [cost(metric) for metric in trial.metrics if metric.key == key]
    return math.log(costs[0]) if costs and costs[0] > 0 else None


def _figure(trial: Trial, label: str) -> float | None:
    return next((figure.value for figure in trial.figures if figure.label == label), None)


def _traffic(trial: Trial, *, amount: str) -> float | None:
    """Return what the data NICs of all nodes sent in a launch; None if none was read, or nothing was timed."""
    sent = [each for each in trial.traffic if fnmatchcase(each.role, NIC)]
    packets, size = sum(each.tx_packets for each in sent), sum(each.tx_bytes for each in sent)
    timed_s = sum(metric.value * metric.samples for metric in trial.metrics)
    what, _, per = amount.partition("/")
    unit = {"": 1.0, "s": timed_s, "packet": float(packets)}[per]
    return ({"packets": packets, "bytes": size}[what] / unit) if sent and unit > 0 else None


def _fits(name: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(name, pattern)


def _only(found: Sequence[T], place: CellPattern, what: str, study: str, known: Iterable[str]) -> T:
    if len(found) == 1:
        return found[0]
    listed = "; ".join(list(known)[:12])
    count = "no" if not found else "more than one"
    raise ResultsError(f"the results of study {study} have {count} {what} for {place}", remedy=f"name one of: {listed}")
