"""The NAS Parallel Benchmarks verify themselves against the published values and send the official messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kernels.launching import SANITIZERS
from miniapps.launching import checks, counts, figures, known, right

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


def test_multigrid_has_more_ranks_than_points_on_its_coarse_grids(program: Path) -> None:
    right(program, "npb-mg:class=S", 16)


@pytest.mark.parametrize(
    ("letter", "ranks"),
    [("S", 8), pytest.param("S", 32, marks=pytest.mark.long), pytest.param("W", 8, marks=pytest.mark.long)],
)
def test_conjugate_gradients_are_right_where_columns_are_more_than_rows(program: Path, letter: str, ranks: int) -> None:
    known(program, f"npb-cg:class={letter}", ranks)


@pytest.mark.parametrize(("buckets", "ranks"), [(1, 1), (1, 4), (2, 8)])
def test_keys_are_sorted_where_some_ranks_own_no_bucket(program: Path, buckets: int, ranks: int) -> None:
    # With the buckets of its class, this happens to class S on 256 ranks.
    assert checks(right(program, f"npb-is:class=S,log2_buckets={buckets}", ranks)) == {
        "ranks of probed keys": 50,
        "places out of order": 0,
        "keys in the end": 2**16,
    }


def test_sanitizers_find_nothing_where_some_ranks_own_no_bucket(sanitized: Path) -> None:
    right(sanitized, "npb-is:class=S,log2_buckets=1", 4, env=SANITIZERS)


CG_PARTS = {
    2: {5600: 2},  # each rank gives the other half of its rows; it transposes with itself
    4: {5600: 4 + 2},  # one sum of whole blocks of rows, two ranks have another to transpose with
    8: {2800: 8 * 2 + 4},  # halves are swapped, then the kept halves are summed; four ranks transpose
}
"""Messages of a multiplication in class S by their bytes, of all ranks together."""


@pytest.mark.parametrize("ranks", CG_PARTS)
def test_conjugate_gradients_send_what_the_official_decomposition_does(program: Path, ranks: int) -> None:
    iterations, steps = 15, 25
    columns = 2 ** ((ranks.bit_length()) // 2)
    sums = ranks * (columns.bit_length() - 1)
    expected = {size: count * iterations * (steps + 1) for size, count in CG_PARTS[ranks].items()}
    assert counts(known(program, "npb-cg:class=S", ranks), "send") == expected | {
        8: sums * iterations * (2 * steps + 2),
        16: sums * iterations,
    }


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_norm_of_multigrid_takes_two_allreduces(program: Path, ranks: int) -> None:
    record = right(program, "npb-mg:class=S", ranks)
    assert counts(record, "allreduce") == {8: 2 * 2 * ranks}
    assert figures(record)["largest residual"] > 0


def test_transforms_send_a_piece_to_each_rank(program: Path) -> None:
    assert counts(right(program, "npb-ft:class=S", 4), "alltoall") == {64**3 * 16 // 4**2: 4 * 7}


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
def test_lu_gives_the_published_values_and_sends_a_wave_of_rows_and_the_layers(
    program: Path, ranks: int, rows: dict[int, int], layers: dict[int, int]
) -> None:
    iterations = 50
    record = right(program, "npb-lu:class=S", ranks)
    assert len(record["checks"]) == 11
    assert all(each["tolerance"] == 1e-8 and each["expected"] != 0 for each in record["checks"])
    expected = Counter({8 * doubles: 2 * 10 * pairs * iterations for doubles, pairs in rows.items()})
    expected += Counter({8 * doubles: 2 * pairs * iterations for doubles, pairs in layers.items()})
    assert Counter(counts(record, "send")) == expected
    assert counts(record, "allreduce") == {5 * 8: 2 * ranks}
