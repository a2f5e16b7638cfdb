"""BT and SP verify themselves against the published values and send the messages of the multi-partition scheme."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from miniapps.launching import counts, figures, known, right

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
STEPS = {"npb-bt": 60, "npb-sp": 100}
POINTS = 12  # of class S, along each axis
every_app = pytest.mark.parametrize("app", STEPS)


@pytest.mark.parametrize("ranks", [1, 4, 9, 16])
@every_app
def test_ten_norms_are_the_published_ones_and_the_systems_of_every_axis_are_solved(
    program: Path, app: str, ranks: int
) -> None:
    record = known(program, f"{app}:class=S", ranks)
    published = [check for check in record["checks"] if check["name"].startswith(("residual ", "error "))]
    assert len(published) == 10
    assert all(check["expected"] > 0 and check["tolerance"] == 1e-8 for check in published)
    defects = {check["name"]: check["value"] for check in record["checks"] if check["expected"] == 0}
    assert sorted(defects) == ["systems along x", "systems along y", "systems along z"]
    assert all(0 < defect < 1e-10 for defect in defects.values()), "nothing is solved without rounding"
    assert figures(record)["active ranks"] == ranks


@every_app
def test_ranks_beyond_the_largest_square_stay_idle(program: Path, app: str) -> None:
    record = right(program, f"{app}:class=S", 6)
    assert figures(record)["active ranks"] == 4
    assert record["messages"] == known(program, f"{app}:class=S", 4)["messages"]


@pytest.mark.requires("mpich")
@every_app
def test_mpich_gives_the_same_norms_and_messages(program: Path, program_mpich: Path, app: str) -> None:
    record, other = right(program_mpich, f"{app}:class=S", 4, mpi="mpich"), known(program, f"{app}:class=S", 4)
    assert record["checks"] == other["checks"]
    assert counts(record, "send") == counts(other, "send")


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


OFFICIAL = {("npb-bt", 2): {360, 1470, 245}, ("npb-bt", 3): {320, 750, 125}, ("npb-sp", 2): {360, 550, 250}}
"""The doubles of a message in the official programs."""


@pytest.mark.parametrize("parts", [1, 2, 3])
@every_app
def test_messages_are_those_of_the_multi_partition_scheme(program: Path, app: str, parts: int) -> None:
    record = known(program, f"{app}:class=S", parts**2)
    steps = STEPS[app]
    expected = {8 * doubles: steps * count for doubles, count in expected_sends(app, parts).items() if doubles > 0}
    assert counts(record, "send") == expected
    assert sum(expected.values()) == (6 * parts**3 * steps if parts > 1 else 0)
    assert {entry["kind"] for entry in record["messages"]} <= {"send"}, "a step has no collective"
    if (app, parts) in OFFICIAL:
        assert {size // 8 for size in expected} == OFFICIAL[app, parts]
