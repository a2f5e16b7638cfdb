"""The mechanism that keeps ranks of one node apart is found from their actual places."""

from __future__ import annotations

from dataclasses import replace

from tare.model import Completed, Finding, RankPlace, Trial, TrialKey
from tare.summary.mechanisms import (
    BINDING_COLLAPSE,
    SHARED_CORE,
    TRANSPORT_LOSS,
    binding_collapse,
    findings,
    shared_core,
    transport_loss,
)


def rank(number: int, host: str = "b0/n0", cpus: tuple[int, ...] = (), near: tuple[int, ...] = (0, 1)) -> RankPlace:
    return RankPlace(
        rank=number,
        host=host,
        hostname=host.partition("/")[2],
        pid=number,
        cpus=cpus or (number,),
        shared_memory_ranks=near,
    )


TOGETHER = (rank(0), rank(1))
APART = (rank(0, "b0/n0c0", near=(0,)), rank(1, "b0/n0c1", near=(1,)))
COLLAPSED = tuple(replace(place, cpus=(0,)) for place in APART)


def trial(number: int, ranks: tuple[RankPlace, ...]) -> Trial:
    key = TrialKey(cell="c", round=number, block=0, attempt=0)
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=1.0, outcome=Completed(metrics=()), ranks=ranks)


def test_neighbours_that_share_memory_on_separate_cores_have_no_finding() -> None:
    assert transport_loss(TOGETHER) is None
    assert binding_collapse(TOGETHER) is None
    assert findings("e", "g", [trial(0, TOGETHER)]) == ()


def test_ranks_of_one_node_that_do_not_share_memory_lose_their_transport() -> None:
    text = transport_loss(APART)
    assert text is not None
    assert "ranks 0 and 1 are on one node" in text
    assert "share: pod" in text
    assert binding_collapse(APART) is None


def test_ranks_of_different_nodes_need_not_share_memory_and_may_have_equal_core_numbers() -> None:
    two_nodes = (rank(0, "b0/n0", (0,), (0,)), rank(1, "b1/n1", (0,), (1,)))
    assert transport_loss(two_nodes) is None
    assert binding_collapse(two_nodes) is None


def test_fewer_cores_than_ranks_are_a_collapse_for_any_masks() -> None:
    assert "2 ranks of one node share 1 core (0)" in str(binding_collapse(COLLAPSED))
    three = (*(replace(place, cpus=(0, 1)) for place in TOGETHER), rank(2, cpus=(1,)))
    assert "3 ranks of one node share 2 cores (0, 1)" in str(binding_collapse(three))
    assert binding_collapse([replace(place, cpus=(0, 1)) for place in TOGETHER]) is None


def test_ranks_on_hardware_threads_of_one_core_are_reported_and_are_no_collapse() -> None:
    siblings = (replace(rank(0), core_sharers=(1,)), replace(rank(1), core_sharers=(0,)), rank(2))
    text = shared_core(siblings)
    assert text is not None
    assert "2 of 3 ranks have a hardware thread and not a whole core: ranks 0 and 1 share a core" in text
    assert binding_collapse(siblings) is None
    assert shared_core(TOGETHER) is None
    assert [finding.kind for finding in findings("e", "g", [trial(0, siblings)])][-1] == SHARED_CORE


def test_the_launches_that_show_a_mechanism_are_counted() -> None:
    result = findings("e", "g", [trial(0, COLLAPSED), trial(1, APART), trial(2, ())])
    assert [(finding.kind, finding.launches, finding.of) for finding in result] == [
        (TRANSPORT_LOSS, 2, 2),
        (BINDING_COLLAPSE, 1, 2),
    ]
    assert all(
        isinstance(finding, Finding) and (finding.environment, finding.group) == ("e", "g") for finding in result
    )
