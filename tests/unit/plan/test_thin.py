"""The thin version of a study: small workloads, and few cells that still have every part of the study."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare import study
from tare.feasibility.availability import make_plan
from tare.model import Plan, Role
from tare.plan import calibration
from tare.plan.cells import available, estimate_s, estimate_trial_s, expand, placement_name
from tare.plan.thin import LEFT_OUT, thin
from tare.workloads import plugin_of

STUDIES = sorted((Path(__file__).parents[3] / "studies").glob("*.yaml"))
TEXT = """
baseline: bare
environments: [bare, docker, podman]
placements: [{nodes: 2}, {nodes: 1, ranks_per_node: 2}]
workloads:
  micro: {kernels: [latency: [8, 64KiB], barrier]}
  cg: {miniapp: "npb-cg:class=A"}
  minife: {miniapp: "minife:nx=96,ny=96,nz=96,pace=official"}
  tcp: {program: iperf3, arguments: ["-t", "30", "-u"]}
repetition: {rounds: 12, turns: 10}
"""


def everywhere(text: str, *, without: tuple[str, ...] = ()) -> Plan:
    """Return the plan of a thin study on a machine that lacks some runtimes."""
    return expand(thin(study.parse(text)), lambda env, _: "not installed" if env.runtime in without else None)


def parts(plan: Plan) -> set[str]:
    cells = [cell for cell in available(plan) if cell.role is not Role.SELF]
    return {part for c in cells for part in (c.environment.name, c.workload.name, placement_name(c.placement))}


def test_every_part_is_in_a_cell_and_few_cells_are_left() -> None:
    plan = everywhere(TEXT)
    assert parts(plan) == {"bare", "docker", "podman", "2n x 1r", "1n x 2r", "micro", "cg", "minife", "tcp"}
    assert len(available(plan)) == 4, "as many as the longest list has members"
    assert {reason for key, reason in plan.unavailable.items()} == {LEFT_OUT}


def test_what_cannot_run_keeps_its_reason_and_the_rest_is_still_covered() -> None:
    plan = everywhere(TEXT, without=("docker",))
    reasons = {plan.unavailable[c.key] for c in plan.cells if c.environment.name == "docker"}
    assert reasons == {"not installed"}
    assert parts(plan) == {"bare", "podman", "2n x 1r", "1n x 2r", "micro", "cg", "minife", "tcp"}


def test_environments_beyond_those_that_workloads_need_have_the_one_that_takes_least() -> None:
    text = """
baseline: bare
environments: [bare, docker, podman, apptainer]
placements: [2x1]
workloads: {tcp: {program: iperf3, arguments: ["-t", "30"]}, micro: {kernels: [latency: 8]}}
"""
    kept = sorted(cell.workload.name for cell in available(everywhere(text)))
    assert kept == ["micro", "micro", "micro", "tcp"]


def test_a_study_without_a_cell_that_can_run_has_none_left_out() -> None:
    plan = everywhere(TEXT, without=("bare", "docker", "podman"))
    assert set(plan.unavailable.values()) == {"not installed"}


def test_workloads_are_small_and_keep_what_they_start() -> None:
    micro, cg, minife, tcp = thin(study.parse(TEXT)).workloads
    assert [(spec.kernel, spec.message_bytes) for spec in micro.kernels] == [("latency", 8), ("barrier", None)]
    assert cg.miniapp == "npb-cg:class=S"
    assert minife.miniapp == "minife:nx=16,ny=16,nz=16"
    assert tcp.arguments == ("-u", "-t", "1")


@pytest.mark.parametrize(("window", "expected"), [("", 8), (", window: 2", 2)])
def test_a_bandwidth_has_a_window_of_few_messages(window: str, expected: int) -> None:
    text = TEXT.replace("latency: [8, 64KiB], barrier", f"{{bw: 1MiB{window}}}, {{bibw: 1MiB{window}}}")
    micro = thin(study.parse(text)).workloads[0]
    assert [(spec.iterations, spec.window) for spec in micro.kernels] == [(8, expected)] * 2


def test_a_program_is_not_launched_once_more_before_a_thin_study() -> None:
    stated = study.parse(TEXT)
    whole, small = (expand(each, lambda *_: None) for each in (stated, thin(stated)))
    assert [cell.workload.name for cell in calibration.due(whole, ())] == ["tcp"]
    assert calibration.due(small, ()) == ()


def test_a_small_size_that_the_ranks_of_a_placement_are_too_many_for_is_not_taken() -> None:
    text = """
baseline: bare
environments: [bare]
placements: [{nodes: 8, ranks_per_node: 18}]
workloads: {lu: {miniapp: "npb-lu:class=A"}}
"""
    stated = study.parse(text)
    assert thin(stated).workloads == stated.workloads


def test_a_thin_study_has_one_round_and_does_not_continue_the_whole_one() -> None:
    stated = study.parse(TEXT.replace('cg: {miniapp: "npb-cg:class=A"}', "cg: {miniapp: npb-cg}"))
    small = thin(stated)
    assert (small.repetition.rounds, small.repetition.max_rounds, small.repetition.turns) == (1, 1, 2)
    assert expand(small, lambda *_: None).digest != expand(stated, lambda *_: None).digest


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_file_has_a_thin_version_that_takes_less_time(path: Path) -> None:
    stated = study.load(path)
    whole, small = make_plan(stated), make_plan(thin(stated))
    assert bool(available(whole)) == bool(available(small))
    assert parts(small) == parts(whole)
    assert estimate_s(small) <= estimate_s(whole, rounds=1)
    for before, after in zip(stated.workloads, small.study.workloads, strict=True):
        placement = stated.placements[0]
        if plugin_of(before).refuse(before, placement) is None:
            assert estimate_of(small, after.name) <= estimate_of(whole, before.name)


def estimate_of(plan: Plan, workload: str) -> float:
    return max(estimate_trial_s(cell) for cell in plan.cells if cell.workload.name == workload)
