"""The time of a plan: from the rounds that were measured, or from what is known of its workloads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tare.cli.session import plan_text
from tare.model import Completed, Plan, Trial, TrialKey
from tare.run.progress import Pace
from tare.study import parse
from tare.study.plan import pace
from tare.study.plan.cells import estimate_s, expand

KERNELS = "workloads: {m: {kernels: [latency]}, s: {startup: warm}}"
OWN = "workloads: {m: {kernels: [latency]}, app: {command: [x]}, other: {command: [y]}}"


def plan_of(workloads: str, rounds: int = 10) -> Plan:
    text = f"environments: [bare, podman]\nrepetition: {{rounds: {rounds}}}\n{workloads}\n"
    return expand(parse(text), lambda *_: None)


def trial(round_: int, began_s: float) -> Trial:
    key = TrialKey(cell="c", round=round_, block=0, attempt=0)
    return Trial(key=key, position=0, started_unix_s=began_s, elapsed_s=1.0, outcome=Completed(metrics=()))


@pytest.mark.parametrize(
    ("began", "took_s"),
    [
        ([], None),
        ([(0, 5.0)], None),
        ([(0, 5.0), (0, 3.0), (1, 13.0)], 10.0),
        ([(0, 0.0), (1, 10.0), (2, 22.0), (3, 4000.0), (4, 4010.0)], 10.0),
        ([(0, 0.0), (2, 10.0)], None),
    ],
)
def test_a_round_takes_as_long_as_from_its_first_launch_to_that_of_the_next(
    began: list[tuple[int, float]], took_s: float | None
) -> None:
    assert pace.round_s([trial(*each) for each in began]) == took_s


def test_the_time_of_a_plan_is_that_of_measured_rounds_or_names_the_launches_that_are_not_known() -> None:
    plan = plan_of(KERNELS)
    assert pace.estimated_s(plan) == pytest.approx(pace.START_S + estimate_s(plan))
    assert pace.estimated_s(plan, 12.0) == pace.START_S + 120.0
    assert pace.unknown(plan) == {}
    own = plan_of(OWN)
    assert pace.unknown(own) == {"app": 30, "other": 30}
    assert pace.estimated_s(own) < pace.START_S + estimate_s(own) - 30 * 10
    assert " and the time of 30 launches of app, 30 launches of other\n" in plan_text(own)
    assert "about 2 min, by the rounds in results/study\n" in plan_text(own, 12.0)
    nothing = replace(plan, unavailable=dict.fromkeys((cell.key for cell in plan.cells), "no"))
    assert "about 0 s" in plan_text(nothing)


def test_what_has_not_run_is_expected_to_differ_from_its_estimate_as_what_has_run_does() -> None:
    plan = plan_of(KERNELS)
    kernels = [cell for cell in plan.cells if cell.workload.name == "m"]
    watched = Pace(plan=plan)
    before = watched.left_s(0, 60, 0)
    for done, cell in enumerate(kernels):
        expected = watched._cell_s(cell) if not done else watched.took_s[kernels[0].key][0] / 3
        watched.ended(TrialKey(cell=cell.key, round=0, block=0, attempt=0), 3 * expected, done + 1)
    assert watched.left_s(3, 60, 0) == pytest.approx(3 * before, rel=0.35)
