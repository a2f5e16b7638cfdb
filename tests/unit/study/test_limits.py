"""A study that nobody could wait for is refused before anything is expanded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tare.errors import RefusedError, StudyError
from tare.model import Placement
from tare.model.placement import place
from tare.model.topology import NodeCores, Topology
from tare.study import load, parse

ONE = "workloads: {w: {kernels: [barrier]}}\n"


def many(key: str, number: int) -> str:
    return f"{key}:\n" + "".join(f"  n{i}: {{runtime: bare, env: {{A: b{i}}}}}\n" for i in range(number))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("environments: [bare, docker]\nplacements: [4000x4000]\n" + ONE,
         "4000n x 4000r has 16000000 ranks; the maximum is 16384"),
        ("environments: [bare, docker]\nplacements: [{nodes: 2, ranks_per_node: 100, threads_per_rank: 1000000,"
         " oversubscribe: true}]\n" + ONE, "needs 200000000 cores; the maximum is 262144"),
        ("environments: [bare, docker]\nplacements: [" + ", ".join(f"{n}x16" for n in range(100, 300)) + "]\n" + ONE,
         "ranks: use at most 65536"),
        ("environments: [bare, docker]\ncluster: {lab: {nodes: 1000000}}\n" + ONE,
         "1000000 nodes are too many: use at most 4096"),
        ("environments: [bare, docker]\nrepetition: {rounds: 1000000, blocks_per_round: 1000000}\n" + ONE,
         "are 3000000000000 launches, but at most 1000000 can run"),
        (many("environments", 200) + "placements: [" + ", ".join(f"1x{n}" for n in range(1, 201)) + "]\nworkloads:\n"
         + "".join(f"  w{n}: {{kernels: [barrier]}}\n" for n in range(200)),
         "201 environments x 200 placements x 200 workloads are 8040000 cells, but at most 10000 can run"),
        ("environments: [bare, docker]\nworkloads: {w: {kernels: [{latency: ["
         + ", ".join(str(n) for n in range(1, 1200)) + "]}]}}\n",
         "1199 kernels in one launch are too many: use at most 1000"),
    ],
)  # fmt: skip
def test_a_study_beyond_all_bounds_is_refused_with_the_bound_and_soon(text: str, told: str) -> None:
    started = time.process_time()
    with pytest.raises(StudyError) as caught:
        parse(text)
    assert told in caught.value.message
    assert time.process_time() - started < 10


def test_a_study_at_the_bounds_is_taken() -> None:
    stated = parse("environments: [bare, docker]\nplacements: [{nodes: 128, ranks_per_node: 128}]\n" + ONE)
    assert stated.placements[0].ranks == 16_384


def test_a_placement_beyond_the_bounds_is_refused_before_its_ranks_are_placed() -> None:
    with pytest.raises(RefusedError, match="the maximum is 16384"):
        place(Placement(nodes=4000, ranks_per_node=4000), Topology(nodes=(NodeCores(cores=(0,)),) * 4000))


def test_a_device_is_no_study_file() -> None:
    with pytest.raises(StudyError, match="more than 1 MiB, which is too large"):
        load(Path("/dev/zero"))
