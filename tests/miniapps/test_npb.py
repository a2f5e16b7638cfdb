"""The mini-applications verify themselves against the published values, on any number of ranks that they allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import ran

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
APPS = ("npb-ep", "npb-is", "npb-cg", "npb-mg", "npb-ft")


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("app", APPS)
def test_class_s_gives_the_published_values(program: Path, app: str, ranks: int) -> None:
    status, record, stderr = ran(program, f"{app}:class=S", ranks)
    assert status == 0, stderr
    assert record["verified"]
    assert all(check["passed"] for check in record["checks"])
    assert record["ranks"] == ranks
    assert record["rate"] > 0
    assert record["messages_complete"]


@pytest.mark.parametrize(
    ("app", "ranks"), [(app, ranks) for app in (*APPS, "npb-lu") for ranks in (1, 4) if (app, ranks) != ("npb-is", 1)]
)
def test_one_wrong_value_is_found(program: Path, app: str, ranks: int) -> None:
    status, record, _ = ran(program, f"{app}:class=S", ranks, env={"TARE_FAULT": f"corrupt:{app}"})
    assert (status, record["verified"]) == (3, False)


def test_multigrid_has_more_ranks_than_points_on_its_coarse_grids(program: Path) -> None:
    status, record, stderr = ran(program, "npb-mg:class=S", 16)
    assert (status, record.get("verified")) == (0, True), stderr


def test_messages_are_counted_as_the_decomposition_has_them(program: Path) -> None:
    _, conjugate, _ = ran(program, "npb-cg:class=S", 2)
    # a step: one exchange of half a vector's rows, two sums; and a transpose exchange with oneself
    sends = {entry["bytes"]: entry["count"] for entry in conjugate["messages"] if entry["kind"] == "send"}
    iterations, steps = 15, 25
    assert sends == {1400 * 8: 2 * iterations * (steps + 1), 8: 2 * iterations * (2 * steps + 2), 16: 2 * iterations}
    _, transforms, _ = ran(program, "npb-ft:class=S", 4)
    pieces = [entry for entry in transforms["messages"] if entry["kind"] == "alltoall"]
    assert pieces == [{"kind": "alltoall", "bytes": 64**3 * 16 // 4**2, "count": 4 * 7}]


@pytest.mark.parametrize(
    ("spec", "ranks", "said"),
    [
        ("npb-xx", 1, "unknown application npb-xx; allowed: npb-ep"),
        ("npb-cg:class=Z", 1, "npb-cg has no class Z; allowed: one letter of SWABCD"),
        ("npb-cg:size=3", 1, "npb-cg does not know size; allowed: class"),
        ("npb-cg", 3, "npb-cg class S cannot run on 3 ranks; allowed: powers of two"),
    ],
)
def test_what_cannot_run_is_refused_with_what_is_allowed(program: Path, spec: str, ranks: int, said: str) -> None:
    status, record, stderr = ran(program, spec, ranks)
    assert status == 2
    assert record == {}
    assert said in stderr
