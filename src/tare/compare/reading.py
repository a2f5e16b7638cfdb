"""Read a results folder, and keep of it what a comparison needs: costs by cell and round, and facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tare.analysis import stats
from tare.analysis.summary.rows import Row, paired_rows
from tare.compare.facts import Facts, facts_of
from tare.compare.kinds import Moves, measured
from tare.compare.launch_facts import LaunchFacts, launch_facts
from tare.errors import ResultsError
from tare.model import Estimate, MetricInfo, Plan, Role, Trial
from tare.model.text import printable
from tare.report import units
from tare.store.results import Results, read_only, read_plan
from tare.study import KNOWN, full_name


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CellMetric:
    """What is compared: one metric of one environment in one group (workload and placement)."""

    group: str
    environment: str
    metric: str

    def __str__(self) -> str:
        return f"{self.group} / {self.environment} / {self.metric}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCosts:
    """One metric of one cell over the rounds of one result.

    `logs` has the mean log of the typical cost in seconds for each round, shape (n,); `overheads` the log ratios to the
    baseline, shape (m,), or None for the baseline itself. `reason` says why there are no figures. `failed` of
    `launches` have none.
    """

    info: MetricInfo
    measures: Moves
    is_baseline: bool
    logs: stats.FloatArray
    overheads: stats.FloatArray | None
    failed: int
    launches: int
    reason: str = ""

    def interval(self, logs: Estimate) -> str:
        """Return a cost and its interval, given as logs of seconds, as a time or as the rate that the metric is."""
        return str(units.cost_interval(logs.map(exp_of), self.info))

    def text(self, log_cost: float) -> str:
        """Return a cost, given as the log of seconds, as a time or as the rate that the metric is."""
        return units.cost(exp_of(log_cost), self.info)


def exp_of(log: float) -> float:
    """Return what a logarithm is of, as a number that is finite."""
    return math.exp(min(log, 700.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedResults:
    """What is used of a results folder. `began_unix_s` is the start of its first launch, 0 if it has none."""

    path: Path
    name: str
    baseline: str
    margin: float
    confidence: float
    began_unix_s: float
    rounds: int
    facts: Facts
    costs: Mapping[CellMetric, CellCosts]
    caveats: tuple[str, ...] = ()
    launched: Mapping[tuple[str, str], LaunchFacts] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the cells that have figures, as `GROUP / ENVIRONMENT`."""
        return tuple(dict.fromkeys(f"{place.group} / {place.environment}" for place in self.costs))


def read(path: Path) -> ComparedResults:
    """Return what a results folder has to compare; damaged lines are left out and named in `caveats`.

    Folders of earlier versions are read. Raises `ResultsError` if it is no results folder, or if it has no launches.
    """
    results = read_only(path, skip_damaged=True)
    if not results.trials:
        raise ResultsError(f"{path} has no launches yet", remedy="name another folder, or wait for its first round")
    return _reading(results, _tool_of(path))


def _tool_of(path: Path) -> str:
    tool = read_plan(path).get("tool")
    return printable(tool) if isinstance(tool, str) else ""


def _reading(results: Results, tool: str) -> ComparedResults:
    plan, trials = results.plan, results.trials
    paired = paired_rows(plan, trials)
    table = [row for row in paired.rows if row.info.judged and row.cell.role is not Role.SELF]
    repetition = plan.study.repetition
    return ComparedResults(
        path=results.path,
        name=plan.study.name,
        baseline=next(full_name(each, KNOWN) for each in plan.study.environments if each.name == plan.study.baseline),
        margin=plan.study.margin,
        confidence=repetition.confidence,
        began_unix_s=min((trial.started_unix_s for trial in trials), default=0.0),
        rounds=paired.selection.rounds_done,
        facts=facts_of(tool, results.facts, plan),
        costs=dict(_costs(table)),
        caveats=results.caveats,
        launched=_launched(plan, trials),
    )


def _costs(table: Sequence[Row]) -> Iterator[tuple[CellMetric, CellCosts]]:
    for row in table:
        place = CellMetric(
            group=row.info.group, environment=full_name(row.cell.environment, KNOWN), metric=row.info.key
        )
        is_baseline = row.cell.role is Role.BASELINE
        usable = row.blocked is None
        yield (
            place,
            CellCosts(
                info=row.info,
                measures=measured(row.cell.workload),
                is_baseline=is_baseline,
                logs=np.array(list(row.costs.logs().values())) if usable else np.zeros(0),
                overheads=None if is_baseline or row.pairs is None else row.pairs.log_ratios,
                failed=row.series.bad,
                launches=row.series.launches,
                reason=row.blocked[1] if row.blocked else "",
            ),
        )


def _launched(plan: Plan, trials: Sequence[Trial]) -> dict[tuple[str, str], LaunchFacts]:
    """Return the facts that launches recorded, by group and environment."""
    cells = {cell.key: cell for cell in plan.cells if cell.role is not Role.SELF}
    of_cell: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.key.cell in cells:
            of_cell.setdefault(trial.key.cell, []).append(trial)
    return {
        (cells[key].group, full_name(cells[key].environment, KNOWN)): launch_facts(launches)
        for key, launches in of_cell.items()
    }
