"""What neighbours should talk over follows from the placement, and what they measured is told with the remedy."""

from __future__ import annotations

import pytest

from tare.model import Environment, Placement, RankPlace, Share
from tare.run.ping_pong import PingPong, described, expected

DOCKER = Environment(name="docker", runtime="docker", network="bridge", image="debian-openmpi")
BARE = Environment(name="bare", runtime="bare", network="bridge")
APART = Share.NONE


@pytest.mark.parametrize(
    ("environment", "placement", "part"),
    [
        (BARE, Placement(ranks_per_node=1), "no neighbours"),
        (BARE, Placement(ranks_per_node=4, containers_per_node=2, share=APART), "neighbours share memory"),
        (DOCKER, Placement(ranks_per_node=2), "neighbours share memory"),
        (DOCKER, Placement(ranks_per_node=2, containers_per_node=2), "neighbours share memory"),
        (DOCKER, Placement(ranks_per_node=2, containers_per_node=2, share=APART), "use the data network: each has a"),
        (DOCKER, Placement(ranks_per_node=4, containers_per_node=2, share=APART), "of another container are reached"),
    ],
)
def test_what_neighbours_should_talk_over(environment: Environment, placement: Placement, part: str) -> None:
    assert part in expected(environment, placement)


def rank(number: int, *, beside: tuple[int, ...] = (0, 1), cpus: tuple[int, ...] | None = None) -> RankPlace:
    return RankPlace(
        rank=number,
        host="b/n0",
        hostname="n0",
        pid=10 + number,
        cpus=(number,) if cpus is None else cpus,
        shared_memory_ranks=beside,
    )


def measured(*ranks: RankPlace, smallest_s: float = 3e-7) -> PingPong:
    return PingPong(half_round_trips_s={1: smallest_s, 65536: 5e-6, 1 << 20: 9e-5}, ranks=ranks)


def test_ranks_that_share_memory_are_told_with_their_times() -> None:
    assert described(measured(rank(0), rank(1))) == (
        "half round trip between ranks 0 and 1 of n0: 1 B 0.30 us, 64 KiB 5.00 us, 1 MiB 90.00 us",
        "all 2 ranks of this host share memory",
    )


def test_shared_memory_that_is_slow_is_not_called_proven() -> None:
    _, said = described(measured(rank(0), rank(1), smallest_s=4e-3))
    assert "something else uses their cores" in said


def test_what_keeps_neighbours_apart_is_told_with_its_remedy() -> None:
    _, loss = described(measured(rank(0, beside=(0,)), rank(1, beside=(1,))))
    assert loss.startswith("transport loss: ranks 0 and 1")
    assert "share: pod" in loss
    _, collapse = described(measured(rank(0, cpus=(0,)), rank(1, cpus=(0,))))
    assert collapse.startswith("binding collapse: 2 ranks of one node share 1 core (0)")
    assert "binding: disjoint" in collapse
