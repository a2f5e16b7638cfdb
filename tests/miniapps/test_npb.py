"""The mini-applications verify themselves against the published values, on any number of ranks that they allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import SANITIZERS, counts, figures, ran

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


@pytest.mark.parametrize(("letter", "ranks"), [("S", 8), ("S", 32), pytest.param("W", 8, marks=pytest.mark.long)])
def test_conjugate_gradients_are_right_where_columns_are_more_than_rows(program: Path, letter: str, ranks: int) -> None:
    status, record, stderr = ran(program, f"npb-cg:class={letter}", ranks)
    assert (status, record.get("verified")) == (0, True), stderr


@pytest.mark.parametrize(("buckets", "ranks"), [(1, 1), (1, 4), (2, 8)])
def test_keys_are_sorted_where_some_ranks_own_no_bucket(program: Path, buckets: int, ranks: int) -> None:
    # With the buckets of its class, this happens to class S on 256 ranks.
    status, record, stderr = ran(program, f"npb-is:class=S,log2_buckets={buckets}", ranks)
    assert (status, record.get("verified")) == (0, True), stderr
    assert {check["name"]: check["value"] for check in record["checks"]} == {
        "ranks of probed keys": 50,
        "places out of order": 0,
        "keys in the end": 2**16,
    }


def test_sanitizers_find_nothing_where_some_ranks_own_no_bucket(sanitized: Path) -> None:
    status, record, stderr = ran(sanitized, "npb-is:class=S,log2_buckets=1", 4, env=SANITIZERS)
    assert (status, record.get("verified")) == (0, True), stderr


CG_PARTS = {
    2: {5600: 2},  # each rank gives the other half of its rows; it transposes with itself
    4: {5600: 4 + 2},  # one sum of whole blocks of rows, two ranks have another to transpose with
    8: {2800: 8 * 2 + 4},  # halves are swapped, then the kept halves are summed; four ranks transpose
}
"""Messages of a multiplication in class S by their bytes, of all ranks together."""


@pytest.mark.parametrize("ranks", CG_PARTS)
def test_conjugate_gradients_send_what_the_official_decomposition_does(program: Path, ranks: int) -> None:
    _, record, _ = ran(program, "npb-cg:class=S", ranks)
    iterations, steps = 15, 25
    columns = 2 ** ((ranks.bit_length()) // 2)
    sums = ranks * (columns.bit_length() - 1)
    expected = {size: count * iterations * (steps + 1) for size, count in CG_PARTS[ranks].items()}
    assert counts(record, "send") == expected | {
        8: sums * iterations * (2 * steps + 2),
        16: sums * iterations,
    }


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_norm_of_multigrid_takes_two_allreduces(program: Path, ranks: int) -> None:
    _, record, _ = ran(program, "npb-mg:class=S", ranks)
    assert counts(record, "allreduce") == {8: 2 * 2 * ranks}
    assert figures(record)["largest residual"] > 0


def test_transforms_send_a_piece_to_each_rank(program: Path) -> None:
    _, transforms, _ = ran(program, "npb-ft:class=S", 4)
    assert counts(transforms, "alltoall") == {64**3 * 16 // 4**2: 4 * 7}


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
