"""The remedy of a row is all its proven changes at once, is measured once, and reads as a part of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from factory_explained import Behaviour, costs_of, measured, plan_of, slow_plan, summary_of, trials_of
from tare import study
from tare.analysis.explain import Explained, ResultsIndex, explain
from tare.analysis.explain import ablation as ablations
from tare.analysis.explain.environment_text import environment_text
from tare.analysis.explain.remedy import RemedyOutcome, effect_of, outcome_of, remedies_of, studies_of
from tare.model import Plan
from tare.study.plan.cells import expand

FILTER = "link: {br_netfilter: true, conntrack: track}"
BOTH = "runtime: bare, network: bridge, link: {br_netfilter: true, conntrack: track, rps: all}, env: {A: 1}"
FACTS = {"conntrack": "track in the pod", "br_netfilter": "on for br0", "rps": "0,1"}
RUNS = Behaviour(factor=2.0, facts=FACTS)
HALF = 1.4
"""What each of two factors costs alone."""


def costs_with(
    plan: Plan, behaviour: Behaviour, factors: dict[str, float]
) -> tuple[Explained, tuple[ResultsIndex, ...]]:
    """Return the one cost of a made-up study and the results that prove its causes; `factors` by a part of names."""
    trials = trials_of(plan, {"slow": behaviour})
    (cost,) = explain(plan, trials, summary_of(plan, trials))
    (ablation,) = ablations.studies_of(plan.study, [cost])
    again = expand(ablation.study, lambda *_: None)
    behaves = {"slow": behaviour} | {
        each.name: Behaviour(factor=factor, facts=FACTS)
        for part, factor in factors.items()
        for each in again.study.environments
        if each.name.endswith(part)
    }
    proof = measured(again, trials_of(again, behaves, seed=2))
    (cost,) = explain(plan, trials, summary_of(plan, trials), [proof])
    return cost, (
        ResultsIndex(proof),
        ResultsIndex(measured(plan, trials)),
    )


@pytest.fixture
def proven(tmp_path: Path) -> tuple[Plan, Explained, tuple[ResultsIndex, ...]]:
    plan = slow_plan(tmp_path, BOTH)
    return plan, *costs_with(plan, RUNS, {"packet-filter": HALF, "steering": HALF, "everything": 1.0})


def test_two_proven_causes_are_removed_together(proven: tuple[Plan, Explained, tuple[ResultsIndex, ...]]) -> None:
    plan, cost, places = proven
    assert {suspect.name for suspect in cost.proven} == {"packet filter", "steering"}
    (remedy,) = remedies_of([cost])
    assert {suspect.name for suspect in remedy.removed} == {"packet filter", "steering"}
    assert not remedy.environment.link
    assert remedy.environment.env == ("A=1",)
    assert remedy.left == ()
    effect = effect_of(cost, remedy, places)
    assert outcome_of(effect, 0.02) is RemedyOutcome.BACK
    assert studies_of(plan.study, [remedy], places) == (), "--run has measured all changes together"


@pytest.mark.parametrize(
    ("factor", "outcome"), [(2.0, RemedyOutcome.SAME), (1.2, RemedyOutcome.LESS), (1.0, RemedyOutcome.BACK)]
)
def test_a_cell_that_was_not_measured_gets_a_study_whose_outcome_is_what_it_measures(
    proven: tuple[Plan, Explained, tuple[ResultsIndex, ...]], factor: float, outcome: RemedyOutcome
) -> None:
    plan, cost, places = proven
    (remedy,) = remedies_of([cost])
    (wanted,) = studies_of(plan.study, [remedy], places[1:], rounds=7)
    assert [each.name for each in wanted.study.environments] == ["plain", "slow", "slow-remedied"]
    assert wanted.folder.startswith("remedied-")
    assert wanted.study.repetition.rounds == 7
    again = expand(wanted.study, lambda *_: None)
    behaves = {"slow": RUNS, "slow-remedied": Behaviour(factor=factor)}
    effect = effect_of(cost, remedy, [ResultsIndex(measured(again, trials_of(again, behaves, seed=3)))])
    assert effect.before.low < 1.0 < effect.before.high
    assert effect.without.low < factor - 1 < effect.without.high
    assert outcome_of(effect, 0.02) is outcome


def test_costs_without_a_proven_cause_or_whose_cause_no_key_removes_keep_their_environment(tmp_path: Path) -> None:
    text = """
environments: {bare: , bare+dockerd: , docker: {runtime: docker, network: host}}
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""
    plan = plan_of(tmp_path, text)
    slow = Behaviour(factor=1.2, counters={"conntrack_entries": 10.0})
    found = costs_of(plan, {"docker": slow, "bare+dockerd": slow})
    (docker,) = (cost for cost in found if cost.evidence.here.cell.environment.name == "docker")
    assert docker.named is not None
    (remedy,) = remedies_of([docker])
    assert remedy.environment is None
    assert [suspect.name for suspect in remedy.left] == ["packet filter"]
    assert studies_of(plan.study, [remedy], ()) == ()
    assert remedies_of(costs_of(slow_plan(tmp_path, BOTH), {"slow": RUNS})) == ()


@pytest.mark.parametrize("slow", [BOTH, f"runtime: bare, network: bridge, {FILTER}, env: {{A: 1}}"])
def test_the_fragment_is_a_part_of_a_study(tmp_path: Path, slow: str) -> None:
    plan = slow_plan(tmp_path, slow)
    cost, _ = costs_with(plan, RUNS, {"packet-filter": HALF, "steering": HALF, "everything": 1.0})
    (remedy,) = remedies_of([cost])
    assert remedy.environment is not None
    environments = {"plain": {"runtime": "bare", "network": "bridge"}}
    environments |= yaml.safe_load(environment_text(remedy.environment))
    pasted = yaml.safe_dump({"environments": environments, "workloads": {"m": {"kernels": ["latency"]}}})
    assert study.parse(pasted).environments[1] == remedy.environment
