"""Measure how often whole reports are wrong: simulated studies go through `tare.analysis.summary.summarise`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from simulation import FloatArray, Rate, Scenario, rate, simulate

from tare.analysis.summary import study_is_precise_enough, summarise
from tare.model import (
    Cell,
    Completed,
    Environment,
    LabSpec,
    Metric,
    MetricKind,
    Placement,
    Plan,
    Repetition,
    Role,
    Study,
    Trial,
    TrialKey,
    Verdict,
    Workload,
)


def make_plan(environments: int, *, rounds: int, blocks: int, max_rounds: int = 10, margin: float = 0.02) -> Plan:
    """Return a plan of a baseline, an A/A cell and environments, all available."""
    workload, placement = Workload(name="micro"), Placement()
    cells = []
    for index in range(environments + 2):
        role = (Role.BASELINE, Role.SELF)[index] if index < 2 else Role.ENVIRONMENT
        name = ("bare", "bare (A/A)")[index] if index < 2 else f"env{index - 1}"
        environment = Environment(name=name, runtime="fake", network="host")
        cells.append(
            Cell(
                key=f"micro/{name}",
                group="micro",
                role=role,
                workload=workload,
                environment=environment,
                placement=placement,
            )
        )
    study = Study(
        name="simulated",
        cluster="lab",
        lab=LabSpec(),
        baseline="bare",
        environments=tuple(cell.environment for cell in cells if cell.role is not Role.SELF),
        placements=(placement,),
        workloads=(workload,),
        repetition=Repetition(rounds=rounds, blocks_per_round=blocks, max_rounds=max(rounds, max_rounds)),
        margin=margin,
    )
    return Plan(study=study, cells=tuple(cells), unavailable={}, digest="simulated")


def make_trials(plan: Plan, costs: FloatArray) -> list[Trial]:
    """Return completed trials for costs of shape (metrics, cells, rounds, blocks)."""
    metrics, _, rounds, blocks = costs.shape
    return [
        Trial(
            key=TrialKey(cell=cell.key, round=r, block=b, attempt=0),
            position=index,
            started_unix_s=float(r),
            elapsed_s=1.0,
            outcome=Completed(
                metrics=tuple(
                    Metric(key=f"m{m}", label=f"metric {m}", kind=MetricKind.COST, value=float(costs[m, index, r, b]))
                    for m in range(metrics)
                )
            ),
        )
        for r in range(rounds)
        for b in range(blocks)
        for index, cell in enumerate(plan.cells)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What whole reports get wrong: A/A that differs, null environments with a verdict, true costs not covered."""

    self_different: Rate
    null_called: Rate
    wrong_no_cost: Rate
    covered: Rate
    power: Rate


def pipeline(scenario: Scenario, repetitions: int, *, metrics: int = 3, looks: bool = True, seed: int = 11) -> Pipeline:
    """Summarise simulated studies (A/A, one equal, one that costs `truth`, one just beyond the margin) by the rules."""
    rng = np.random.default_rng(seed)
    margin = 0.02
    truths = (0.0, 0.0, scenario.truth, math.log1p(margin))
    longest = replace(scenario, rounds=40 if looks else scenario.rounds)
    plan = make_plan(3, rounds=10, blocks=scenario.blocks, max_rounds=longest.rounds, margin=margin)
    outcomes: dict[str, list[bool]] = {name: [] for name in ("self", "null", "margin", "covered", "power")}
    for _ in range(repetitions):
        costs = np.stack([simulate(rng, longest, truths) for _ in range(metrics)])
        trials: list[Trial] = []
        for n in (10, 20, 40) if looks else (scenario.rounds,):
            trials = make_trials(plan, costs[:, :, :n])
            if study_is_precise_enough(plan, trials):
                break
        summary = summarise(plan, trials, {})
        by_name = {name: [c for c in summary.comparisons if c.environment == name] for name in ("env1", "env2", "env3")}
        outcomes["self"].append(any(warning.startswith("The baseline differs") for warning in summary.warnings))
        outcomes["null"].append(any(c.verdict in {Verdict.COSTS, Verdict.GAINS} for c in by_name["env1"]))
        for item in by_name["env3"]:
            outcomes["margin"].append(item.within == margin)
        for item in by_name["env2"]:
            estimate = item.overhead
            inside = estimate is not None and estimate.low <= math.expm1(scenario.truth) <= estimate.high
            outcomes["covered"].append(inside)
            outcomes["power"].append(item.verdict is Verdict.COSTS)
    return Pipeline(
        self_different=rate(outcomes["self"]),
        null_called=rate(outcomes["null"]),
        wrong_no_cost=rate(outcomes["margin"]),
        covered=rate(outcomes["covered"]),
        power=rate(outcomes["power"]),
    )
