"""kmi answers right, keeps every string, and sends the messages of its protocol."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from miniapps.launching import checks, counts, figures, right

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

REQUEST, REPLY, END = 288, 12, 1


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_answers_are_those_of_a_count_by_brute_force(program: Path, ranks: int) -> None:
    record = right(program, "kmi:reads=512,queries=512", ranks)
    assert figures(record)["answers checked"] == 256 * ranks
    assert figures(record)["different strings"] == 2 * 512 * ranks
    assert checks(record)["strings in the end"] == 2 * 512 * ranks


@pytest.mark.parametrize(
    "sizes",
    [
        "length=16,query_length=4",  # short: strings are equal, queries hit hundreds, answers carry strings
        "length=33,query_length=31",  # neither fills its bytes
        "length=40,query_length=33",  # more letters than the splitters look at
        "length=256,query_length=256",
    ],
)
def test_strings_and_queries_may_have_any_length(program: Path, sizes: str) -> None:
    right(program, f"kmi:reads=300,queries=100,{sizes}", 3)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_query_for_another_rank_is_a_request_and_a_reply(program: Path, ranks: int) -> None:
    queries = 1000
    sends = counts(right(program, f"kmi:reads=1000,queries={queries}", ranks), "send")
    assert set(sends) == {REQUEST, REPLY, END}
    assert sends[REQUEST] == sends[REPLY]
    assert sends[END] == ranks * (ranks - 1)
    far = (ranks - 1) / ranks
    mean, deviation = queries * ranks * far, math.sqrt(queries * ranks * far * (1 - far))
    assert sends[REQUEST] == pytest.approx(mean, abs=6 * deviation + 0.1 * mean)  # parts differ by up to 10 %


def test_strings_follow_a_reply_if_there_are_any(program: Path) -> None:
    sends = counts(right(program, "kmi:reads=256,queries=50,query_length=4", 2), "send")
    strings = {size for size in sends if size not in (REQUEST, REPLY, END)}
    assert strings
    assert all(size % 44 == 0 for size in strings)
    assert sum(sends[size] for size in strings) <= sends[REPLY]


def test_hits_are_the_same_every_time(program: Path) -> None:
    spec = "kmi:reads=256,queries=200,query_length=5"
    first, second = (figures(right(program, spec, 2)) for _ in range(2))
    assert first["strings that were hit"] == second["strings that were hit"] > 0
    assert first["queries with a hit"] == second["queries with a hit"]
    # 200 queries a rank, each expected in 4 x 256 strings once in 4^5
    assert first["strings that were hit"] == pytest.approx(400, abs=100)
