"""The HPCG-like solver: the reference's residuals, its checks and its messages, on any grid of ranks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from miniapps.launching import SANITIZERS, ran

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
LEVELS = 4


def spec(n: int, seconds: int = 0) -> str:
    return f"hpcg:nx={n},ny={n},nz={n},seconds={seconds}"


def checks(record: dict[str, Any]) -> dict[str, float]:
    return {check["name"]: check["value"] for check in record["checks"]}


def figures(record: dict[str, Any]) -> dict[str, float]:
    return {figure["name"]: figure["value"] for figure in record["figures"]}


@pytest.mark.parametrize(
    ("n", "ranks"), [(16, 1), (16, 2), (16, 4), (16, 6), (32, 1), (32, 2), pytest.param(32, 4, marks=pytest.mark.long)]
)
def test_every_check_of_the_solver_passes(program: Path, n: int, ranks: int) -> None:
    status, record, stderr = ran(program, spec(n), ranks)
    assert status == 0, stderr
    assert record["verified"]
    found = checks(record)
    assert found["iterations with ten clusters of eigenvalues"] in (11, 12)
    assert found["iterations with ten clusters, preconditioned"] in (1, 2)
    assert found["variance of the sets' residuals"] == 0
    assert record["ranks"] == ranks


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_hpcg_is_clean_under_sanitizers(sanitized: Path, ranks: int) -> None:
    status, record, stderr = ran(sanitized, spec(16), ranks, env=SANITIZERS)
    assert (status, record.get("verified")) == (0, True), stderr


@pytest.mark.parametrize(
    ("n", "residuals"),
    [
        (16, {1: 0.175288, 5: 4.17347e-4, 10: 1.63531e-7, 15: 1.25057e-11, 20: 2.01269e-15}),
        (32, {1: 0.183273, 5: 0.033451, 10: 9.42444e-5, 15: 1.76166e-6, 20: 1.0310e-8}),
    ],
)
def test_one_rank_converges_as_the_reference_does(program: Path, n: int, residuals: dict[int, float]) -> None:
    _, record, stderr = ran(program, spec(n), 1)
    found = {name: value for name, value in checks(record).items() if name.startswith("relative residual after")}
    wanted = {f"relative residual after {i} iteration{'' if i == 1 else 's'}": value for i, value in residuals.items()}
    assert found.keys() == wanted.keys(), stderr
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=5e-5), name


@pytest.mark.parametrize(
    ("ranks", "residual"),
    [
        pytest.param(1, 1.13589e-11, marks=pytest.mark.long),  # smaller grids converge on one rank in every run
        pytest.param(2, 7.76155e-9, marks=pytest.mark.long),  # test_one_rank_converges_as_the_reference_does
        pytest.param(4, 7.35709e-8, marks=pytest.mark.long),  # one number of ranks more
    ],
)
def test_ranks_weaken_the_preconditioner_as_they_do_in_the_reference(
    program: Path, ranks: int, residual: float
) -> None:
    _, record, stderr = ran(program, spec(64), ranks)
    assert record, stderr
    assert checks(record)["relative residual after 50 iterations"] == pytest.approx(residual, rel=5e-6)


def test_an_iteration_has_eleven_exchanges_and_three_sums(program: Path) -> None:
    ranks, iterations = 2, 50
    _, record, stderr = ran(program, spec(16), ranks)
    assert record, stderr
    sends = {entry["bytes"]: entry["count"] for entry in record["messages"] if entry["kind"] == "send"}
    others = [entry for entry in record["messages"] if entry["kind"] != "send"]
    faces = [(16 >> level) ** 2 * 8 for level in range(LEVELS)]
    exchanges = [(1 + 3) * iterations + 1, 3 * iterations, 3 * iterations, iterations]  # one for the first residual
    assert sends == {size: ranks * count for size, count in zip(faces, exchanges, strict=True)}
    assert sum(exchanges) == 11 * iterations + 1
    assert others == [{"kind": "allreduce", "bytes": 8, "count": ranks * (3 * iterations + 1)}]


def test_four_ranks_exchange_faces_and_edges(program: Path) -> None:
    ranks, iterations = 4, 50
    _, record, stderr = ran(program, spec(24), ranks)  # a grid of 2x2x1: each has two faces and an edge
    assert record, stderr
    sends = {entry["bytes"]: entry["count"] for entry in record["messages"] if entry["kind"] == "send"}
    exchanges = [(1 + 3) * iterations + 1, 3 * iterations, 3 * iterations, iterations]
    expected = {}
    for level, count in enumerate(exchanges):
        expected |= {8 * (24 >> level) ** 2: ranks * 2 * count, 8 * (24 >> level): ranks * count}
    assert sends == expected


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_wrong_solution_is_found(program: Path, ranks: int) -> None:
    status, record, stderr = ran(program, spec(16), ranks, env={"TARE_FAULT": "corrupt:hpcg"})
    assert (status, record.get("verified")) == (3, False), stderr
    assert len([check for check in record["checks"] if not check["passed"]]) == 1


def test_operations_are_those_of_the_formula(program: Path) -> None:
    _, record, stderr = ran(program, "hpcg:nx=16,ny=24,nz=32,seconds=0", 2)
    assert record, stderr
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
    for seconds in (1, 10):  # on a busy machine one set may take a second
        _, record, stderr = ran(program, spec(16, seconds=seconds), 2)
        assert record, stderr
        if figures(record)["sets"] > 1:
            break
    assert record["verified"]
    assert figures(record)["sets"] == int(seconds / figures(record)["set that chose their number"]) + 1 > 1
    (series,) = record["series"]
    assert len(series["values"]) == figures(record)["sets"]
    assert sum(series["values"]) == pytest.approx(record["elapsed_s"], rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "ranks", "said"),
    [
        ("hpcg:nx=20", 1, "hpcg cannot halve 20 points three times; allowed for nx, ny, nz: multiples of 8"),
        ("hpcg:nx=8", 1, "nx=8 is not possible; allowed: a whole number from 16"),
        ("hpcg:nx=16,ny=136", 1, "allowed: the longest side at most 8 times the shortest"),
        ("hpcg:nx=16,ny=16,nz=16", 11, "hpcg cannot run on 11 ranks, a grid of 11x1x1"),
    ],
)
def test_what_cannot_run_is_refused_with_what_is_allowed(program: Path, arguments: str, ranks: int, said: str) -> None:
    status, record, stderr = ran(program, arguments, ranks)
    assert status == 2
    assert record == {}
    assert said in stderr
