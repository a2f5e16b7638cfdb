"""LU verifies itself against the published values and sends the messages of its decomposition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from miniapps.launching import SANITIZERS, ran

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
ITERATIONS = {"S": 50, "W": 300}


def counts(record: dict[str, Any], kind: str) -> Counter[int]:
    return Counter({entry["bytes"]: entry["count"] for entry in record["messages"] if entry["kind"] == kind})


@pytest.mark.parametrize(
    ("letter", "ranks"),
    [("S", 1), ("S", 2), ("S", 4), ("W", 1), ("W", 2), pytest.param("W", 4, marks=pytest.mark.long)],
)
def test_lu_gives_the_eleven_published_values(program: Path, letter: str, ranks: int) -> None:
    status, record, stderr = ran(program, f"npb-lu:class={letter}", ranks)
    assert status == 0, stderr
    assert record["verified"]
    assert len(record["checks"]) == 11
    assert all(check["tolerance"] == 1e-8 and check["expected"] != 0 for check in record["checks"])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_lu_is_clean_under_sanitizers(sanitized: Path, ranks: int) -> None:
    status, record, stderr = ran(sanitized, "npb-lu:class=S", ranks, env=SANITIZERS)
    assert (status, record.get("verified")) == (0, True), stderr


# class S: 12 points along each axis, 10 of them inside; sizes in doubles: 5 a point of a row that the sweeps pass on,
# 10 a point of an edge and plane in the exchange of layers; two of either a neighbour pair and plane, or iteration
@pytest.mark.parametrize(
    ("ranks", "rows", "layers"),
    [
        (1, {}, {}),
        (2, {5 * 10: 1}, {10 * 12 * 12: 1}),
        (4, {5 * 5: 4}, {10 * 6 * 12: 4}),
        (6, {5 * 5: 4, 5 * 3: 2, 5 * 4: 1}, {10 * 6 * 12: 4, 10 * 4 * 12: 3}),
    ],
)
def test_lu_sends_a_wave_of_rows_and_the_layers(
    program: Path, ranks: int, rows: dict[int, int], layers: dict[int, int]
) -> None:
    status, record, stderr = ran(program, "npb-lu:class=S", ranks)
    assert (status, record.get("verified")) == (0, True), stderr
    expected = Counter({8 * doubles: 2 * 10 * pairs * ITERATIONS["S"] for doubles, pairs in rows.items()})
    expected += Counter({8 * doubles: 2 * pairs * ITERATIONS["S"] for doubles, pairs in layers.items()})
    assert counts(record, "send") == expected
    assert counts(record, "allreduce") == {5 * 8: 2 * ranks}


@pytest.mark.parametrize("ranks", [3, 5])
def test_lu_refuses_ranks_without_near_square_factors(program: Path, ranks: int) -> None:
    status, record, stderr = ran(program, "npb-lu", ranks)
    assert (status, record) == (2, {})
    assert f"npb-lu class S cannot run on {ranks} ranks, {ranks} along x and 1 along y; allowed: " in stderr
