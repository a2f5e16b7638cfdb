"""The miniFE-like program: the reference's matrix, residuals and operations, on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from miniapps.launching import SANITIZERS, ran

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


def checks(record: dict[str, Any]) -> dict[str, float]:
    return {check["name"]: check["value"] for check in record["checks"]}


def figures(record: dict[str, Any]) -> dict[str, float]:
    return {figure["name"]: figure["value"] for figure in record["figures"]}


SMALL, LARGE = (32, 97**3, (33.0132, 0.0213628, 2.20577e-4)), (64, 7_189_057, (65.0072, 0.0409684, 0.0116308))


@pytest.mark.parametrize(
    ("n", "entries", "residuals", "ranks"),
    [
        *((*SMALL, ranks) for ranks in (1, 2, 3, 4)),
        (*LARGE, 1),
        *(pytest.param(*LARGE, ranks, marks=pytest.mark.long) for ranks in (2, 3, 4)),
    ],
)
def test_matrix_and_residuals_are_the_references(
    program: Path, n: int, entries: int, residuals: tuple[float, float, float], ranks: int
) -> None:
    status, record, stderr = ran(program, f"minife:nx={n},ny={n},nz={n}", ranks)
    assert status == 0, stderr
    assert record["verified"]
    found = checks(record)
    assert found["entries of the matrix"] == entries
    start, twentieth, fortieth = residuals
    assert found["norm of the residual at the start"] == pytest.approx(start, rel=1e-5)
    assert found["norm of the residual at iteration 40"] == pytest.approx(fortieth, rel=1e-4)
    # rounding adds to it now and then, most of all here
    assert twentieth * (1 - 2e-4) < found["norm of the residual at iteration 20"] < 5 * twentieth


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_minife_is_clean_under_sanitizers(sanitized: Path, ranks: int) -> None:
    status, record, stderr = ran(sanitized, "minife:nx=16,ny=9,nz=12", ranks, env=SANITIZERS)
    assert (status, record.get("verified")) == (0, True), stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_wrong_solution_is_found(program: Path, ranks: int) -> None:
    status, record, stderr = ran(program, "minife:nx=16,ny=16,nz=16", ranks, env={"TARE_FAULT": "corrupt:minife"})
    assert (status, record.get("verified")) == (3, False), stderr
    assert len([check for check in record["checks"] if not check["passed"]]) == 1


def test_operations_are_those_of_the_formula(program: Path) -> None:
    _, record, stderr = ran(program, "minife:nx=64,ny=64,nz=64", 2)
    assert record, stderr
    assert record["operations"] * 1e6 == pytest.approx(2.89e9 + 2.09715e8 + 4.73432e8, rel=1e-5)  # of the reference
    assert record["rate_unit"] == "Mflop/s"


def test_an_iteration_has_one_exchange_and_two_sums(program: Path) -> None:
    ranks, iterations = 2, 200
    _, record, stderr = ran(program, "minife:nx=16,ny=16,nz=32", ranks)
    assert record, stderr
    done = figures(record)["iterations"]
    assert 50 < done <= iterations
    sends = [entry for entry in record["messages"] if entry["kind"] == "send"]
    others = [entry for entry in record["messages"] if entry["kind"] != "send"]
    assert sends == [{"kind": "send", "bytes": 17 * 17 * 8, "count": ranks * (done + 1)}]
    assert others[0]["bytes"] == 8
    assert ranks * 2 * done <= others[0]["count"] <= ranks * (2 * done + 1)
    assert len(others) == 1


def test_boxes_of_unlike_sides_are_solved_the_same_on_many_ranks(program: Path) -> None:
    norms = []
    for ranks in (1, 3, 5):
        status, record, stderr = ran(program, "minife:nx=9,ny=30,nz=17", ranks)
        assert status == 0, stderr
        assert checks(record)["entries of the matrix"] == 28 * 91 * 52
        norms.append(figures(record)["norm of the residual after 5 iterations"])
    assert norms[0] > 0
    assert norms[1:] == pytest.approx([norms[0]] * 2, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "ranks", "said"),
    [
        ("minife:nx=2,ny=2,nz=2", 9, "minife cannot cut 2x2x2 elements for 9 ranks; allowed: at least one element"),
        ("minife:nx=1", 1, "nx=1 is not possible; allowed: a whole number from 2"),
        ("minife:class=S", 1, "minife does not know class; allowed: nx, ny, nz"),
    ],
)
def test_what_cannot_run_is_refused_with_what_is_allowed(program: Path, arguments: str, ranks: int, said: str) -> None:
    status, record, stderr = ran(program, arguments, ranks)
    assert status == 2
    assert record == {}
    assert said in stderr
