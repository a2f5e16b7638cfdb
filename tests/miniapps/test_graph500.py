"""graph500 makes the same graph on any number of ranks, checks every tree, and sends visits in full boxes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kernels.launching import TICK_S, ticking
from miniapps.launching import counts, figures, known, right, series

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

BOX_BYTES = 32768


def test_neither_the_edges_nor_the_roots_depend_on_the_ranks_and_every_tree_passes_its_checks(program: Path) -> None:
    records = [right(program, "graph500:scale=9", ranks) for ranks in (1, 2, 3, 4)]
    found = [series(record)["edges of a search"] for record in records]
    assert len(found[0]) == 64
    assert all(edges == found[0] for edges in found)
    for record in records:
        assert len(record["checks"]) == 6
        assert figures(record)["searches"] == 64
        assert record["messages_complete"]


def test_loops_and_edges_of_a_search_are_as_many_as_the_probabilities_make_them(program: Path) -> None:
    scale = 14
    record = known(program, f"graph500:scale={scale},roots=8", 2)
    loops = 16 * 2**scale * 0.62**scale  # an edge is a loop if every bit is drawn from A or D
    assert figures(record)["loops in the list"] == pytest.approx(loops, abs=5 * math.sqrt(loops))
    # the reference generator's is 261818: its loops and edges outside of the large component are other ones
    assert figures(record)["mean edges of a search"] == pytest.approx(261818, abs=150)


def test_the_rate_is_the_harmonic_mean(program: Path) -> None:
    record = right(program, "graph500:scale=8,roots=16", 2)
    times, edges = series(record)["time of a search"], series(record)["edges of a search"]
    rates = [m / t for m, t in zip(edges, times, strict=True)]
    harmonic = len(rates) / math.fsum(1 / rate for rate in rates)
    assert record["rate"] == pytest.approx(harmonic, rel=1e-9)
    assert record["elapsed_s"] == pytest.approx(math.fsum(times), rel=1e-9)
    assert figures(record)["slowest search"] == pytest.approx(min(rates), rel=1e-9)
    assert figures(record)["fastest search"] == pytest.approx(max(rates), rel=1e-9)


def test_each_search_is_timed_alone(program: Path) -> None:
    times = series(right(program, "graph500:scale=8,roots=16", 1, env=ticking()))["time of a search"]
    assert all(time_s / TICK_S == pytest.approx(round(time_s / TICK_S)) for time_s in times)
    assert min(times) / TICK_S >= 1
    assert max(times) / TICK_S < 100  # readings, of a few levels


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_level_ends_with_one_short_message_for_each_other_rank(program: Path, ranks: int) -> None:
    record = known(program, "graph500:scale=14,roots=8", ranks)
    sends = counts(record, "send")
    levels = sum(counts(record, "allreduce").values()) // ranks
    assert max(sends) == BOX_BYTES
    assert sum(count for size, count in sends.items() if size < BOX_BYTES) == levels * ranks * (ranks - 1)
    # both directions of every edge are visited, and most ends are on other ranks
    visits = sum(size * count for size, count in sends.items()) / 8
    edges = sum(series(record)["edges of a search"])
    assert visits == pytest.approx(2 * edges * (ranks - 1) / ranks, rel=0.05)


def test_searches_are_as_many_as_there_are_vertices_with_an_edge(program: Path) -> None:
    assert 10 < figures(right(program, "graph500:scale=6,roots=1024,edgefactor=1", 2))["searches"] < 64
