"""A study expands to every cell; its thin version has every part; blocks are in seeded random order."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare import model, study
from tare.model import Environment, KernelSpec, LabSpec, Placement, Plan, Repetition, Role, Study, Workload
from tare.runtimes import RUNTIMES
from tare.study.feasibility.availability import make_plan
from tare.study.plan import calibration, cells
from tare.study.plan.cells import available, block_order, digest, estimate_s, estimate_trial_s, expand, placement_name
from tare.study.plan.thin import LEFT_OUT, thin
from tare.workloads import plugin_of

BARE = Environment(name="bare", runtime="bare", network="host")
OVERLAY = Environment(name="docker+overlay", runtime="docker", network="overlay", image="default")
STUDY = Study(
    name="s",
    cluster="lab",
    lab=LabSpec(),
    baseline="bare",
    environments=(OVERLAY, BARE),
    placements=(Placement(), Placement(ranks_per_node=2)),
    workloads=(
        Workload(name="p2p", kernels=(KernelSpec(kernel="latency", message_bytes=8),)),
        Workload(name="app", command=("./app",)),
    ),
    repetition=Repetition(rounds=3, blocks_per_round=2, max_rounds=5),
)


def everywhere(_environment: Environment, _placement: Placement) -> str | None:
    return None


def test_every_combination_is_a_cell_with_the_baseline_first_and_its_copy_second() -> None:
    plan = expand(STUDY, everywhere)
    assert len(plan.cells) == 2 * 2 * 3
    assert [cell.role for cell in plan.cells[:3]] == [Role.BASELINE, Role.SELF, Role.ENVIRONMENT]
    assert plan.cells[1].environment == replace(BARE, name="bare (A/A)")
    assert plan.cells[0].key == "p2p / 2n x 1r / bare"
    assert plan.cells[0].group == "p2p / 2n x 1r"
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    assert not plan.unavailable
    assert plan.estimated_s > 0
    plan = expand(replace(STUDY, self_comparison=False), everywhere)
    assert Role.SELF not in {cell.role for cell in plan.cells}


def test_a_mpi_of_a_workload_is_in_every_environment_and_concerns_that_workload_alone() -> None:
    ours = replace(OVERLAY, name="ours", image="debian-openmpi")
    borrowed = replace(ours, name="borrowed", launch=model.Launching.HOST_MPI)
    theirs = replace(OVERLAY, name="theirs", image="/own.tar")
    app = Workload(name="app", command=("./app",), mpi="mpich5")
    study = replace(STUDY, environments=(BARE, ours, borrowed, theirs), workloads=(STUDY.workloads[0], app))
    asked = []
    plan = expand(study, lambda environment, _: asked.append(environment))
    found = {(c.workload.name, c.environment.name): (c.environment.mpi, c.environment.image) for c in plan.cells}
    assert {mpi for (workload, _), (mpi, _) in found.items() if workload == "p2p"} == {"openmpi"}
    assert {mpi for (workload, _), (mpi, _) in found.items() if workload == "app"} == {"mpich5"}
    assert found["p2p", "ours"] == ("openmpi", "debian-openmpi")
    images = {name: image for (workload, name), (_, image) in found.items() if workload == "app"}
    assert images == {
        "bare": "", "bare (A/A)": "", "ours": "debian-mpich5", "borrowed": "debian-openmpi", "theirs": "/own.tar",
    }  # fmt: skip
    assert len(asked) == len(set(asked)) * len(study.placements) == 8 * len(study.placements)
    app = replace(STUDY.workloads[1], mpi="mpich5")
    study = replace(STUDY, workloads=(STUDY.workloads[0], app))
    plan = expand(study, lambda environment, _: "no MPICH" if environment.mpi == "mpich5" else None)
    assert {cell.workload.name for cell in plan.cells if cell.key in plan.unavailable} == {"app"}
    assert sum(cell.workload.name == "app" for cell in plan.cells) == len(plan.unavailable)


def test_a_cell_that_cannot_run_stays_with_its_reason_is_in_no_block_and_takes_no_time() -> None:
    plan = expand(STUDY, lambda e, _p: "there is no Docker" if e.runtime == "docker" else None)
    assert len(plan.cells) == 12
    assert set(plan.unavailable.values()) == {"there is no Docker"}
    assert all("docker" not in key for key in block_order(plan, 0, 0))
    plan = expand(STUDY, lambda e, _p: "no root" if e.name == "bare" else None)
    assert plan.unavailable["p2p / 2n x 1r / bare (A/A)"] == "no root"
    plan = expand(STUDY, lambda _e, _p: "nothing works")
    assert block_order(plan, 0, 0) == ()
    assert plan.estimated_s == 0


def test_kernels_that_need_a_partner_and_one_side_only_are_unavailable_without() -> None:
    barrier = Workload(name="sync", kernels=(KernelSpec(kernel="barrier"),))
    halo = Workload(name="field", kernels=(KernelSpec(kernel="halo"),))
    study = replace(STUDY, placements=(Placement(nodes=1),), workloads=(*STUDY.workloads, barrier, halo))
    plan = expand(study, everywhere)
    assert plan.unavailable["p2p / 1n x 1r / bare"] == "latency needs at least 2 ranks, but this placement has 1"
    assert plan.unavailable["sync / 1n x 1r / bare"].startswith("barrier needs at least 2 ranks")
    assert "app / 1n x 1r / bare" not in plan.unavailable
    assert "field / 1n x 1r / bare" not in plan.unavailable
    named = replace(BARE, name="one side", network="bridge", sides=model.Sides.RECEIVER)
    plan = expand(replace(STUDY, environments=(BARE, named), placements=(Placement(nodes=3),)), everywhere)
    reasons = [reason for key, reason in plan.unavailable.items() if key.endswith("one side")]
    assert len(reasons) == 2
    assert "needs exactly 2 nodes" in reasons[0]


def test_placements_that_differ_in_anything_have_different_names() -> None:
    base = Placement(ranks_per_node=2)
    variants = [
        base,
        replace(base, containers_per_node=2),
        replace(base, share=model.Share.NONE),
        replace(base, binding=model.Binding.MPI_DEFAULT),
        replace(base, threads_per_rank=2),
        replace(base, oversubscribe=True),
        replace(base, map_by=model.MapBy.SOCKET),
        replace(base, rank_order=model.RankOrder.CYCLIC),
        replace(base, cpus_per_container=0.5),
        replace(base, memory_per_container=2**26),
        replace(base, memory_per_container=2**26 + 4096),
    ]
    assert len({placement_name(p) for p in variants}) == len(variants)


@given(st.integers(0, 2**62), st.integers(0, 99), st.integers(0, 3), st.integers(0, 3))
def test_a_block_runs_each_cell_once_and_groups_stay_together(seed: int, round_: int, block: int, attempt: int) -> None:
    plan = expand(replace(STUDY, seed=seed), everywhere)
    order = block_order(plan, round_, block, attempt)
    assert sorted(order) == sorted(cell.key for cell in plan.cells)
    assert order == block_order(plan, round_, block, attempt)
    groups = [key.rsplit(" / ", 1)[0] for key in order]
    assert sum(a != b for a, b in itertools.pairwise(groups)) == len(set(groups)) - 1


def test_the_order_depends_on_seed_round_block_and_attempt_and_gives_every_place_equally_often() -> None:
    study = replace(STUDY, placements=(Placement(),), workloads=STUDY.workloads[:1])
    plan = expand(study, everywhere)
    counts = Counter((place, key) for r in range(900) for place, key in enumerate(block_order(plan, r, 0)))
    assert len(counts) == 9
    assert all(abs(count - 300) < 5 * math.sqrt(200) for count in counts.values())
    plan = expand(STUDY, everywhere)
    other = expand(replace(STUDY, seed=2), everywhere)
    orders = {block_order(plan, *key) for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}
    assert len(orders | {block_order(other, 0, 0, 0)}) == 5


FIRST, SECOND = STUDY.placements
AFTERWARDS: list[dict[str, Any]] = [
    {"name": "t"},
    {"margin": 0.05, "limit": 0.1},
    {"repetition": replace(STUDY.repetition, rounds=9, max_rounds=9, budget_s=1.0, confidence=0.9)},
]
"""What only stops or judges."""
OF_TRIALS: list[dict[str, Any]] = [
    {"seed": 2},
    {"baseline": "docker+overlay"},
    {"environments": (BARE,)},
    {"lab": LabSpec(segmented=True)},
    {"self_comparison": False},
    {"placements": (Placement(),)},
    {"placements": (replace(FIRST, rank_order=model.RankOrder.CYCLIC), SECOND)},
    {"workloads": (Workload(name="p2p", commands=(model.NodeCommand(run=("true",)),)), STUDY.workloads[1])},
    {"repetition": replace(STUDY.repetition, blocks_per_round=1)},
]


def test_the_digest_changes_with_a_trial_or_its_block_and_not_with_what_only_stops_or_judges() -> None:
    for changed in AFTERWARDS:
        assert digest(replace(STUDY, **changed)) == digest(STUDY), changed
    for changed in OF_TRIALS:
        assert digest(replace(STUDY, **changed)) != digest(STUDY), changed


@pytest.mark.parametrize(
    ("environment", "once_s"),
    [(BARE, RUNTIMES["bare"].start_s), (OVERLAY, RUNTIMES["docker"].start_s + 2 * RUNTIMES["docker"].pod_s)],
)
def test_a_start_up_is_estimated_to_take_pods_and_launches_twice(environment: Environment, once_s: float) -> None:
    study = replace(
        STUDY,
        baseline=environment.name,
        environments=(environment,),
        placements=(Placement(),),
        workloads=(Workload(name="start", startup=model.Caches.WARM),),
        repetition=Repetition(rounds=1, max_rounds=1),
        self_comparison=False,
    )
    assert estimate_s(expand(study, everywhere)) == pytest.approx(cells.STARTUPS * once_s)


def test_a_mini_application_is_refused_and_estimated_by_what_it_declares_and_a_budget_bounds_it() -> None:
    cg = Workload(name="cg", miniapp="npb-cg:class=A")
    study = replace(STUDY, workloads=(cg,), placements=(Placement(nodes=2), Placement(nodes=3)))
    plan = expand(study, everywhere)
    refused = {cell.key for cell in plan.cells if cell.placement.nodes == 3}
    assert set(plan.unavailable) == refused
    assert set(plan.unavailable.values()) == {"npb-cg class A cannot run on 3 ranks; allowed: powers of two"}
    larger = replace(study, workloads=(replace(cg, miniapp="npb-cg:class=C"),))
    assert expand(larger, everywhere).estimated_s > 20 * plan.estimated_s

    def cannot(workload: Workload, environment: Environment, placement: Placement) -> str | None:
        wanted = (workload.name, environment.name, placement.ranks_per_node)
        return "not this one" if wanted == ("app", "bare", 2) else None

    plan = expand(STUDY, everywhere, cannot)
    assert set(plan.unavailable) == {"app / 2n x 2r / bare", "app / 2n x 2r / bare (A/A)"}
    plan = expand(STUDY, everywhere)
    short = expand(replace(STUDY, repetition=replace(STUDY.repetition, budget_s=1.0)), everywhere)
    assert short.estimated_s < plan.estimated_s
    assert estimate_s(plan, rounds=6) == pytest.approx(2 * plan.estimated_s)


STUDIES = sorted((Path(__file__).parents[4] / "studies").glob("*.yaml"))
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


def thin_everywhere(text: str, *, without: tuple[str, ...] = ()) -> Plan:
    """Return the plan of a thin study on a machine that lacks some runtimes."""
    return expand(thin(study.parse(text)), lambda env, _: "not installed" if env.runtime in without else None)


def parts(plan: Plan) -> set[str]:
    cells = [cell for cell in available(plan) if cell.role is not Role.SELF]
    return {part for c in cells for part in (c.environment.name, c.workload.name, placement_name(c.placement))}


def test_a_thin_plan_has_every_part_in_few_cells_and_what_cannot_run_keeps_its_reason() -> None:
    plan = thin_everywhere(TEXT)
    assert parts(plan) == {"bare", "docker", "podman", "2n x 1r", "1n x 2r", "micro", "cg", "minife", "tcp"}
    assert len(available(plan)) == 4, "as many as the longest list has members"
    assert {reason for key, reason in plan.unavailable.items()} == {LEFT_OUT}
    plan = thin_everywhere(TEXT, without=("docker",))
    reasons = {plan.unavailable[c.key] for c in plan.cells if c.environment.name == "docker"}
    assert reasons == {"not installed"}
    assert parts(plan) == {"bare", "podman", "2n x 1r", "1n x 2r", "micro", "cg", "minife", "tcp"}
    plan = thin_everywhere(TEXT, without=("bare", "docker", "podman"))
    assert set(plan.unavailable.values()) == {"not installed"}


def test_environments_beyond_those_that_workloads_need_have_the_one_that_takes_least() -> None:
    text = """
baseline: bare
environments: [bare, docker, podman, apptainer]
placements: [2x1]
workloads: {tcp: {program: iperf3, arguments: ["-t", "30"]}, micro: {kernels: [latency: 8]}}
"""
    kept = sorted(cell.workload.name for cell in available(thin_everywhere(text)))
    assert kept == ["micro", "micro", "micro", "tcp"]


def test_thin_workloads_are_small_if_their_ranks_allow_it_and_keep_what_they_start() -> None:
    micro, cg, minife, tcp = thin(study.parse(TEXT)).workloads
    assert [(spec.kernel, spec.message_bytes) for spec in micro.kernels] == [("latency", 8), ("barrier", None)]
    assert cg.miniapp == "npb-cg:class=S"
    assert minife.miniapp == "minife:nx=16,ny=16,nz=16"
    assert tcp.arguments == ("-u", "-t", "1")
    text = """
baseline: bare
environments: [bare]
placements: [{nodes: 8, ranks_per_node: 18}]
workloads: {lu: {miniapp: "npb-lu:class=A"}}
"""
    stated = study.parse(text)
    assert thin(stated).workloads == stated.workloads


@pytest.mark.parametrize(("window", "expected"), [("", 8), (", window: 2", 2)])
def test_a_bandwidth_has_a_window_of_few_messages(window: str, expected: int) -> None:
    text = TEXT.replace("latency: [8, 64KiB], barrier", f"{{bw: 1MiB{window}}}, {{bibw: 1MiB{window}}}")
    micro = thin(study.parse(text)).workloads[0]
    assert [(spec.iterations, spec.window) for spec in micro.kernels] == [(8, expected)] * 2


def test_a_thin_study_has_one_round_no_first_launch_and_results_of_its_own() -> None:
    stated = study.parse(TEXT)
    whole, small = (expand(each, lambda *_: None) for each in (stated, thin(stated)))
    assert [cell.workload.name for cell in calibration.due(whole, ())] == ["tcp"]
    assert calibration.due(small, ()) == ()
    stated = study.parse(TEXT.replace('cg: {miniapp: "npb-cg:class=A"}', "cg: {miniapp: npb-cg}"))
    small = thin(stated)
    assert (small.repetition.rounds, small.repetition.max_rounds, small.repetition.turns) == (1, 1, 2)
    assert expand(small, lambda *_: None).digest != expand(stated, lambda *_: None).digest


def named(path: Path) -> Any:
    """Return a study file, marked with what `make test` does not bring."""
    needs = [name for name in ("openmpi5", "mpich5") if name in path.read_text()]
    return pytest.param(path, id=path.stem, marks=[pytest.mark.requires(*needs)] if needs else [])


@pytest.mark.parametrize("path", list(map(named, STUDIES)))
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
