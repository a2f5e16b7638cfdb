"""BT and SP verify themselves against the published values and send the messages of the multi-partition scheme."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from miniapps.launching import SANITIZERS, ran

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
APPS = ("npb-bt", "npb-sp")
STEPS = {"npb-bt": 60, "npb-sp": 100}
POINTS = 12  # of class S, along each axis


def figures(record: dict[str, Any]) -> dict[str, float]:
    return {figure["name"]: figure["value"] for figure in record["figures"]}


def sends(record: dict[str, Any]) -> dict[int, int]:
    return {entry["bytes"]: entry["count"] for entry in record["messages"] if entry["kind"] == "send"}


@pytest.mark.parametrize(
    ("letter", "ranks"),
    [("S", 1), ("S", 4), ("S", 9), ("S", 16), ("W", 1), pytest.param("W", 4, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("app", APPS)
def test_ten_norms_are_the_published_ones(program: Path, app: str, letter: str, ranks: int) -> None:
    status, record, stderr = ran(program, f"{app}:class={letter}", ranks)
    assert status == 0, stderr
    assert record["verified"]
    published = [check for check in record["checks"] if check["name"].startswith(("residual ", "error "))]
    assert len(published) == 10
    assert all(check["passed"] and check["expected"] > 0 and check["tolerance"] == 1e-8 for check in published)
    assert figures(record)["active ranks"] == record["ranks"] == ranks
    assert record["rate"] > 0


@pytest.mark.parametrize("ranks", [1, 9])
@pytest.mark.parametrize("app", APPS)
def test_the_systems_of_every_axis_are_solved_to_rounding(program: Path, app: str, ranks: int) -> None:
    _, record, stderr = ran(program, f"{app}:class=S", ranks)
    defects = {check["name"]: check["value"] for check in record["checks"] if check["expected"] == 0}
    assert sorted(defects) == ["systems along x", "systems along y", "systems along z"], stderr
    assert all(0 < defect < 1e-10 for defect in defects.values()), "nothing is solved without rounding"


@pytest.mark.parametrize("app", APPS)
def test_one_wrong_value_fails_the_norms_and_the_systems_of_every_axis(program: Path, app: str) -> None:
    status, record, _ = ran(program, f"{app}:class=S", 4, env={"TARE_FAULT": f"corrupt:{app}"})
    assert (status, record["verified"]) == (3, False)
    failed = {check["name"] for check in record["checks"] if not check["passed"]}
    assert failed >= {"error 1", "systems along x", "systems along y", "systems along z"}


@pytest.mark.parametrize("app", APPS)
def test_ranks_beyond_the_largest_square_stay_idle(program: Path, app: str) -> None:
    status, record, stderr = ran(program, f"{app}:class=S", 6)
    assert (status, record.get("verified"), record.get("ranks")) == (0, True, 6), stderr
    assert figures(record)["active ranks"] == 4
    _, without, _ = ran(program, f"{app}:class=S", 4)
    assert record["messages"] == without["messages"]


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("app", APPS)
def test_sanitizers_find_nothing(sanitized: Path, app: str, ranks: int) -> None:
    status, record, stderr = ran(sanitized, f"{app}:class=S", ranks, env=SANITIZERS)
    assert (status, record.get("verified")) == (0, True), stderr


@pytest.mark.requires("mpich")
@pytest.mark.parametrize("app", APPS)
def test_mpich_gives_the_same_norms_and_messages(program: Path, program_mpich: Path, app: str) -> None:
    (status, record, stderr), (_, other, _) = (
        ran(each, f"{app}:class=S", 4, mpi=mpi) for each, mpi in ((program_mpich, "mpich"), (program, "openmpi"))
    )
    assert status == 0, stderr
    assert record["checks"] == other["checks"]
    assert sends(record) == sends(other)


def cell_lines(parts: int, rank: int, axis: int, slab: int) -> int:
    """Return the lines along an axis, off the cube's faces, of the rank's cell in a slab."""
    first, second = rank % parts, rank // parts
    for z in range(parts):
        place = ((first + z) % parts, (second - z) % parts, z)
        if place[axis] == slab:
            inner = [POINTS // parts - (at == 0) - (at == parts - 1) for at in place]
            return inner[(axis + 1) % 3] * inner[(axis + 2) % 3]
    raise AssertionError


def expected_sends(app: str, parts: int) -> Counter[int]:
    """Return how many messages of how many doubles the scheme has in a step, all ranks together."""
    side = POINTS // parts
    found = Counter({10 * (parts - 1) * side**2: 6 * parts**2})
    for rank in range(parts**2):
        for axis in range(3):
            for slab in range(parts - 1):
                if app == "npb-bt":
                    found[30 * (side + 1) ** 2] += 1
                    found[5 * (side + 1) ** 2] += 1
                else:
                    found[22 * cell_lines(parts, rank, axis, slab)] += 1
                    found[10 * cell_lines(parts, rank, axis, slab + 1)] += 1
    return found


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("app", APPS)
def test_messages_are_those_of_the_multi_partition_scheme(program: Path, app: str, parts: int) -> None:
    _, record, _ = ran(program, f"{app}:class=S", parts**2)
    steps = STEPS[app]
    expected = {8 * doubles: steps * count for doubles, count in expected_sends(app, parts).items() if doubles > 0}
    assert sends(record) == expected
    assert sum(expected.values()) == (6 * parts**3 * steps if parts > 1 else 0)
    assert {entry["kind"] for entry in record["messages"]} <= {"send"}, "a step has no collective"


def test_on_four_and_nine_ranks_messages_have_the_sizes_of_the_official_programs(program: Path) -> None:
    sizes = {
        (app, ranks): {size // 8 for size in sends(ran(program, f"{app}:class=S", ranks)[1])}
        for app, ranks in (("npb-bt", 4), ("npb-bt", 9), ("npb-sp", 4))
    }
    assert sizes == {
        ("npb-bt", 4): {360, 1470, 245},
        ("npb-bt", 9): {320, 750, 125},
        ("npb-sp", 4): {360, 550, 250},
    }


@pytest.mark.parametrize("app", APPS)
def test_slabs_of_fewer_than_three_points_are_refused(program: Path, app: str) -> None:
    status, record, stderr = ran(program, f"{app}:class=S", 25)
    assert (status, record) == (2, {})
    assert f"{app} class S cannot run on 25 ranks; allowed: up to 24, of which the largest square number" in stderr
