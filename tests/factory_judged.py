"""Made-up claims and the results that decide them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from factory_explained import Behaviour, plan_of, trials_of
from tare.compare.claims import Judged, judge, read_paper
from tare.compare.claims.figures import MeasuredStudy
from tare.model import Trial

STUDY = """
baseline: plain
environments:
  plain: {runtime: bare, network: bridge}
  slow: {runtime: bare, network: bridge, env: {A: 1}}
  slower: {runtime: bare, network: bridge, env: {A: 2}}
placements: [{nodes: 2, ranks_per_node: 1}]
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""
HEAD = """
paper: "900"
title: A paper
source: a journal
claims:
"""


def claim(number: int, by: str) -> str:
    return f'  900-{number}: {{place: "1", claim: it is so, kind: sign, here: "yes", {by}}}\n'


def results(
    tmp_path: Path, *, slow: float = 1.2, slower: float = 1.5, rounds: int = 8, cores: int = 2, text: str = STUDY,
    trials: Sequence[Trial] = (),
) -> MeasuredStudy:  # fmt: skip
    """Return results of a study, with made-up launches unless they are given."""
    plan = plan_of(tmp_path, text)
    behave = {"slow": Behaviour(factor=slow), "slower": Behaviour(factor=slower)}
    found = tuple(trials) or trials_of(plan, behave, rounds=rounds)
    return MeasuredStudy(
        plan=plan,
        trials=found,
        cores=cores,
        label="results/made-up",
    )


def decided(tmp_path: Path, test: str, measured: MeasuredStudy | None = None) -> Judged:
    """Return what becomes of a claim with a test of the made-up study."""
    (made,) = judged(tmp_path, claim(1, f"test: {{study: made-up, {test}}}"), measured)
    return made


def changed(found: MeasuredStudy, part: str, change: Callable[[Trial], Trial]) -> MeasuredStudy:
    """Return results in which the launches of cells with this in their name are others."""
    return replace(found, trials=[change(each) if part in each.key.cell else each for each in found.trials])


def judged(tmp_path: Path, claims: str, measured: MeasuredStudy | None = None) -> tuple[Judged, ...]:
    file = tmp_path / "900.yaml"
    file.write_text(HEAD + claims)
    found = results(tmp_path) if measured is None else measured
    return judge(read_paper(file).claims.values(), {found.study: found})
