"""Made-up results: a study, and launches of which each cell has a factor, counters and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tare import study
from tare.analysis.explain import Explained, Measured, explain
from tare.analysis.summary import summarise
from tare.analysis.summary.costs import costs_in
from tare.model import Cell, Completed, Metric, MetricKind, Plan, RankPlace, Summary, Trial, TrialKey
from tare.study.plan.cells import expand

SLOW = """
environments:
  plain: {{runtime: bare, network: bridge}}
  slow: {{{slow}}}
workloads: {{messages: {{kernels: [latency]}}}}
placements: [{placement}]
repetition: {{rounds: 8}}
"""

FAILING = """
environments:
  bare: {runtime: bare}
  forbids: {runtime: docker, network: host}
  allows: {runtime: podman, network: host}
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the launches of an environment behave: the factor of its time, and what is counted and known of them."""

    factor: float = 1.0
    counters: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    ranks: Sequence[RankPlace] = ()


def plan_of(tmp_path: Path, text: str) -> Plan:
    """Return the plan of a study's text."""
    file = tmp_path / "made-up.yaml"
    file.write_text(text)
    return expand(study.load(file), lambda *_: None)


def trials_of(
    plan: Plan, behaviours: Mapping[str, Behaviour], *, rounds: int = 8, seed: int = 1, metric: str = "latency:8"
) -> tuple[Trial, ...]:
    """Return the launches of a plan; environments behave as their names say, others like the baseline."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(rounds):
        for position, cell in enumerate(plan.cells):
            behaves = behaviours.get(cell.environment.name, Behaviour())
            found.append(_trial(cell, number, position, behaves, metric, random))
    return tuple(found)


def _trial(cell: Cell, number: int, position: int, behaves: Behaviour, key: str, random: Any) -> Trial:
    value = 1e-5 * behaves.factor * float(np.exp(random.normal(0, 0.01)))
    metric = Metric(
        key=key, label=key, kind=MetricKind.COST, value=value, median_s=value, samples=100,
        message_bytes=8,
    )  # fmt: skip
    return Trial(
        key=TrialKey(cell=cell.key, round=number, block=0, attempt=0),
        position=position,
        started_unix_s=1.7e9 + number,
        elapsed_s=1.0,
        outcome=Completed(metrics=(metric,)),
        counters=dict(behaves.counters) or {"turns": 1.0},
        facts=dict(behaves.facts),
        noise={"cores": 2.0, **behaves.noise},
        ranks=tuple(behaves.ranks),
    )


def summary_of(plan: Plan, trials: Sequence[Trial]) -> Summary:
    """Return the summary of made-up results."""
    return summarise(plan, trials, {})


def slow_plan(tmp_path: Path, slow: str, placement: str = "2x1") -> Plan:
    """Return the plan of a study that compares `slow`, with these settings, with a plain bridge."""
    return plan_of(tmp_path, SLOW.format(slow=slow, placement=placement))


def costs_of(plan: Plan, behaviours: Mapping[str, Behaviour], **how: Any) -> tuple[Explained, ...]:
    """Return the explained costs of made-up results; `how` are options of their launches."""
    trials = trials_of(plan, behaviours, **how)
    return explain(plan, trials, summary_of(plan, trials))


def measured(plan: Plan, trials: Sequence[Trial]) -> Measured:
    """Return made-up results as those of an ablation."""
    return Measured(plan=plan, costs=costs_in(summary_of(plan, trials).comparisons))
