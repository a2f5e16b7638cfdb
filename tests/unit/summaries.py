"""Plans and trials of known cost, from which summaries are made in tests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tare.analysis.summary import summarise
from tare.model import (
    Cell,
    Comparison,
    Completed,
    Environment,
    KernelSpec,
    LabSpec,
    Metric,
    MetricKind,
    Outcome,
    Placement,
    Plan,
    Repetition,
    Role,
    Study,
    Summary,
    Trial,
    TrialKey,
    Workload,
)
from tare.report.plots.histograms import Read

BARE, SELF = "bare", "bare (A/A)"
MICRO = Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),))
TEN_ROUNDS = Repetition()


class NoSamples:
    """A source for results whose samples were not kept."""

    def reader(self, trial: Trial) -> Read:
        """Return what returns no samples."""
        return dict


def make_plan(
    *names: str,
    unavailable: Mapping[str, str] | None = None,
    placements: tuple[Placement, ...] = (Placement(),),
    workload: Workload = MICRO,
    cluster: str = "lab",
    limit: float | None = None,
    repetition: Repetition = TEN_ROUNDS,
) -> Plan:
    """Return a plan of the baseline, its A/A and these environments, each in every placement."""
    cells = []
    for placement in placements:
        group = f"{workload.name} {placement.label}"
        for name in (BARE, SELF, *names):
            role = {BARE: Role.BASELINE, SELF: Role.SELF}.get(name, Role.ENVIRONMENT)
            cells.append(
                Cell(
                    key=f"{group}/{name}",
                    group=group,
                    role=role,
                    workload=workload,
                    environment=Environment(name=name, runtime="fake", network="host"),
                    placement=placement,
                )
            )
    study = Study(
        name="example",
        cluster=cluster,
        lab=LabSpec(),
        baseline=BARE,
        environments=tuple(cell.environment for cell in cells if cell.role is not Role.SELF),
        placements=placements,
        workloads=(workload,),
        repetition=repetition,
        limit=limit,
    )
    held = {
        cell.key: reason
        for cell in cells
        for name, reason in (unavailable or {}).items()
        if cell.environment.name == name
    }
    return Plan(study=study, cells=tuple(cells), unavailable=held, digest="abc")


def latency(value: float, **more: object) -> Metric:
    values: dict[str, object] = {
        "key": "latency:8",
        "label": "8-byte latency",
        "kind": MetricKind.COST,
        "value": value,
        "median_s": value,
        "p99_s": 2 * value,
        "message_bytes": 8,
    }
    return Metric(**{**values, **more})  # type: ignore[arg-type]


def took(value: float, **more: object) -> Completed:
    """Return the outcome of a launch with this latency alone."""
    return Completed(metrics=(latency(value, **more),))


def make_trial(cell: Cell, r: int, outcome: Outcome, *, block: int = 0, attempt: int = 0) -> Trial:
    return Trial(
        key=TrialKey(cell=cell.key, round=r, block=block, attempt=attempt),
        position=0,
        started_unix_s=1e9 + r,
        elapsed_s=1.0,
        outcome=outcome,
        mpi_library="Open MPI 4.1.4",
    )


def factor_of(name: str) -> float:
    return {"overlay": 1.6, "slow": 1.1, "fast": 0.7}.get(name, 1.0)


def noise(r: int, index: int) -> float:
    """Return a deterministic factor near 1 that differs between cells and rounds."""
    return math.exp(random.Random(1000 * r + index).gauss(0.0, 0.003))


def make_trials(plan: Plan, rounds: int = 10, *, blocks: int = 1, more: Iterable[float] = ()) -> list[Trial]:
    """Return completed trials with round effects; `more` adds metrics of these costs, the same in all environments."""
    trials = []
    for r in range(rounds):
        for b in range(blocks):
            for index, cell in enumerate(plan.cells):
                if cell.key in plan.unavailable:
                    continue
                value = 8e-6 * (1 + 0.2 * (r % 3)) * factor_of(cell.environment.name) * noise(r + 31 * b, index)
                others = tuple(
                    Metric(
                        key=f"other{m}", label=f"other {m}", kind=MetricKind.COST, value=base * noise(r, index + 9 * m)
                    )
                    for m, base in enumerate(more)
                )
                trials.append(make_trial(cell, r, Completed(metrics=(latency(value), *others)), block=b))
    return trials


def change(trials: Iterable[Trial], name: str, outcome: Callable[[int], Outcome | None]) -> list[Trial]:
    """Return trials with other outcomes for the rounds of one environment where `outcome` gives one."""
    changed = []
    for trial in trials:
        other = outcome(trial.key.round) if trial.key.cell.endswith(f"/{name}") else None
        changed.append(trial if other is None else replace(trial, outcome=other))
    return changed


def scaled(trials: Iterable[Trial], name: str, factor: Callable[[int], float]) -> list[Trial]:
    """Return trials with the costs of one environment multiplied, by round."""

    def outcome(trial: Trial) -> Completed:
        value = trial.outcome.metrics[0].value * factor(trial.key.round)
        return Completed(metrics=(latency(value), *trial.outcome.metrics[1:]))

    return [
        replace(trial, outcome=outcome(trial)) if trial.key.cell.endswith(f"/{name}") else trial for trial in trials
    ]


def summary_of(*names: str, **more: object) -> Summary:
    """Return the summary of a plan of these environments after ten rounds without trouble."""
    plan = make_plan(*names, **more)  # type: ignore[arg-type]
    return summarise(plan, make_trials(plan), {})


def of(summary: Summary, environment: str, metric: str = "latency:8") -> Comparison:
    (found,) = [c for c in summary.comparisons if (c.environment, c.metric) == (environment, metric)]
    return found
