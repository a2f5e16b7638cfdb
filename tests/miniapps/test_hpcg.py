"""The HPCG-like solver: the reference's residuals, its checks and its messages, on any grid of ranks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kernels.launching import ticking
from miniapps.launching import checks, counts, figures, known, right, series

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
LEVELS = 4
long = pytest.mark.long


def spec(n: int, seconds: int = 0) -> str:
    return f"hpcg:nx={n},ny={n},nz={n},seconds={seconds}"


@pytest.mark.parametrize(
    ("n", "ranks"), [(16, 1), (16, 2), (16, 4), (16, 6), *(pytest.param(32, ranks, marks=long) for ranks in (1, 2, 4))]
)
def test_every_check_of_the_solver_passes(program: Path, n: int, ranks: int) -> None:
    found = checks(known(program, spec(n), ranks))
    assert found["iterations with ten clusters of eigenvalues"] in (11, 12)
    assert found["iterations with ten clusters, preconditioned"] in (1, 2)
    assert found["variance of the sets' residuals"] == 0


@pytest.mark.parametrize(
    ("n", "residuals"),
    [
        (16, {1: 0.175288, 5: 4.17347e-4, 10: 1.63531e-7, 15: 1.25057e-11, 20: 2.01269e-15}),
        pytest.param(32, {1: 0.183273, 5: 0.033451, 10: 9.42444e-5, 15: 1.76166e-6, 20: 1.0310e-8}, marks=long),
    ],
)
def test_one_rank_converges_as_the_reference_does(program: Path, n: int, residuals: dict[int, float]) -> None:
    found = {name: value for name, value in checks(known(program, spec(n), 1)).items() if "residual after" in name}
    wanted = {f"relative residual after {i} iteration{'' if i == 1 else 's'}": value for i, value in residuals.items()}
    assert found == {name: pytest.approx(value, rel=5e-5) for name, value in wanted.items()}


@long
@pytest.mark.parametrize(("ranks", "residual"), [(1, 1.13589e-11), (2, 7.76155e-9), (4, 7.35709e-8)])
def test_ranks_weaken_the_preconditioner_as_they_do_in_the_reference(
    program: Path, ranks: int, residual: float
) -> None:
    found = checks(right(program, spec(64), ranks))
    assert found["relative residual after 50 iterations"] == pytest.approx(residual, rel=5e-6)


EXCHANGES = ((1 + 3) * 50 + 1, 3 * 50, 3 * 50, 50)
"""Exchanges on each level in 50 iterations, eleven in each; one more is for the first residual."""


def test_an_iteration_has_eleven_exchanges_and_three_sums(program: Path) -> None:
    record = known(program, spec(16), 2)
    faces = [(16 >> level) ** 2 * 8 for level in range(LEVELS)]
    assert counts(record, "send") == {size: 2 * count for size, count in zip(faces, EXCHANGES, strict=True)}
    others = [entry for entry in record["messages"] if entry["kind"] != "send"]
    assert others == [{"kind": "allreduce", "bytes": 8, "count": 2 * (3 * 50 + 1)}]


def test_four_ranks_exchange_faces_and_edges(program: Path) -> None:
    expected = {}
    for level, count in enumerate(EXCHANGES):  # a grid of 2x2x1: each has two faces and an edge
        expected |= {8 * (24 >> level) ** 2: 4 * 2 * count, 8 * (24 >> level): 4 * count}
    assert counts(right(program, spec(24), 4), "send") == expected


def test_operations_are_those_of_the_formula(program: Path) -> None:
    record = right(program, "hpcg:nx=16,ny=24,nz=32,seconds=0", 2)
    iterations, sets = 50, 1
    rows = 32 * 24 * 32
    entries = [math.prod(3 * (n >> level) - 2 for n in (32, 24, 32)) for level in range(LEVELS)]
    vectors = 2 * (3 * iterations + sets) * 2 * rows
    products = (iterations + sets) * 2 * entries[0]
    cycles = iterations * (10 * sum(entries[:-1]) + 4 * entries[-1])
    assert record["operations"] * 1e9 == pytest.approx(vectors + products + cycles, rel=1e-12)
    assert record["rate_unit"] == "GFLOP/s"
    with_setup = figures(record)["rate with the share of the set-up"]
    assert with_setup == pytest.approx(
        record["operations"] / (record["elapsed_s"] + figures(record)["set-up"] / 10), rel=1e-9
    )


def test_sets_fill_the_time_by_what_the_first_took(program: Path) -> None:
    # By the clock of ticks, a set takes some thousand of them, of a tenth of a millisecond.
    record = right(program, spec(16, seconds=1), 2, env=ticking(TARE_TICK_NS="100000"))
    sets = figures(record)["sets"]
    assert sets == int(1 / figures(record)["set that chose their number"]) + 1 > 1
    assert len(record["series"]) == 1
    (values,) = series(record).values()
    assert len(values) == sets
    assert sum(values) == pytest.approx(record["elapsed_s"], rel=0.01)
