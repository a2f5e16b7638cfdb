"""The miniFE-like program: the reference's matrix, residuals and operations, on any number of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import checks, counts, figures, right

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

SMALL, LARGE = (32, 97**3, (33.0132, 0.0213628, 2.20577e-4)), (64, 7_189_057, (65.0072, 0.0409684, 0.0116308))


@pytest.mark.parametrize(
    ("n", "entries", "residuals", "ranks"),
    [(*SMALL, 1), (*SMALL, 3), *(pytest.param(*LARGE, ranks, marks=pytest.mark.long) for ranks in (1, 2, 3, 4))],
)
def test_matrix_and_residuals_are_the_references(
    program: Path, n: int, entries: int, residuals: tuple[float, float, float], ranks: int
) -> None:
    found = checks(right(program, f"minife:nx={n},ny={n},nz={n}", ranks))
    assert found["entries of the matrix"] == entries
    start, twentieth, fortieth = residuals
    assert found["norm of the residual at the start"] == pytest.approx(start, rel=1e-5)
    assert found["norm of the residual at iteration 40"] == pytest.approx(fortieth, rel=1e-4)
    # rounding adds to it now and then, most of all here
    assert twentieth * (1 - 2e-4) < found["norm of the residual at iteration 20"] < 5 * twentieth


def test_operations_are_those_of_the_formula(program: Path) -> None:
    record = right(program, "minife:nx=64,ny=64,nz=64", 2)
    assert record["operations"] * 1e6 == pytest.approx(2.89e9 + 2.09715e8 + 4.73432e8, rel=1e-5)  # of the reference
    assert record["rate_unit"] == "Mflop/s"


def test_an_iteration_has_one_exchange_and_two_sums(program: Path) -> None:
    ranks = 2
    record = right(program, "minife:nx=16,ny=16,nz=32", ranks)
    done = figures(record)["iterations"]
    assert 50 < done <= 200
    assert counts(record, "send") == {17 * 17 * 8: ranks * (done + 1)}
    (sums,) = (entry for entry in record["messages"] if entry["kind"] != "send")
    assert sums["bytes"] == 8
    assert ranks * 2 * done <= sums["count"] <= ranks * (2 * done + 1)


def test_boxes_of_unlike_sides_are_solved_the_same_on_many_ranks(program: Path) -> None:
    records = [right(program, "minife:nx=9,ny=30,nz=17", ranks) for ranks in (1, 3, 5)]
    assert {checks(record)["entries of the matrix"] for record in records} == {28 * 91 * 52}
    norms = [figures(record)["norm of the residual after 5 iterations"] for record in records]
    assert norms[0] > 0
    assert norms[1:] == pytest.approx([norms[0]] * 2, rel=1e-9)
