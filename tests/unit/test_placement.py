"""Every rank has one place, cores are disjoint, and what does not fit is refused in a sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.errors import RefusedError
from tare.model import Binding, Placement
from tare.placement import NodeCores, Topology, cores_of_container, place


@st.composite
def fitting(draw: st.DrawFn) -> tuple[Placement, Topology]:
    """Draw a placement and a topology that it fits on; core numbers have gaps."""
    containers = draw(st.integers(1, 4))
    ranks = containers * draw(st.integers(1, 4))
    threads = draw(st.integers(1, 3))
    nodes = draw(st.integers(1, 4))
    placement = Placement(nodes=nodes, ranks_per_node=ranks, containers_per_node=containers, threads_per_rank=threads)
    needed = ranks * threads
    node_cores = st.lists(st.integers(0, 500), min_size=needed, max_size=needed + 5, unique=True)
    there = draw(st.lists(node_cores, min_size=nodes, max_size=nodes + 2))
    return placement, Topology(nodes=tuple(NodeCores(cores=tuple(cores)) for cores in there))


@given(fitting())
def test_each_rank_is_placed_exactly_once_and_in_blocks(case: tuple[Placement, Topology]) -> None:
    placement, topology = case
    slots = place(placement, topology)
    assert [slot.rank for slot in slots] == list(range(placement.ranks))
    assert all(slot.node == slot.rank // placement.ranks_per_node for slot in slots)
    assert all(slot.local_rank == slot.rank % placement.ranks_per_node for slot in slots)


@given(fitting())
def test_cores_are_disjoint_and_of_the_ranks_own_node(case: tuple[Placement, Topology]) -> None:
    placement, topology = case
    slots = place(placement, topology)
    used = [(slot.node, core) for slot in slots for core in slot.cores]
    assert len(used) == len(set(used)) == placement.ranks * placement.threads_per_rank
    assert all(core in topology.nodes[node].cores for node, core in used)


@given(fitting())
def test_containers_are_balanced_and_hold_neighbouring_ranks(case: tuple[Placement, Topology]) -> None:
    placement, topology = case
    slots = place(placement, topology)
    sizes = Counter((slot.node, slot.container) for slot in slots)
    assert len(sizes) == placement.nodes * placement.containers_per_node
    assert set(sizes.values()) == {placement.ranks_per_node // placement.containers_per_node}
    order = [(slot.node, slot.container) for slot in slots]
    assert order == sorted(order)


@given(fitting())
def test_the_cpusets_of_containers_are_disjoint(case: tuple[Placement, Topology]) -> None:
    placement, topology = case
    slots = place(placement, topology)
    for node in range(placement.nodes):
        sets = [cores_of_container(slots, node=node, container=c) for c in range(placement.containers_per_node)]
        assert sum(len(cores) for cores in sets) == len(set().union(*sets))


@given(fitting(), st.integers(1, 3))
def test_oversubscribed_ranks_are_spread_evenly_over_the_cores(case: tuple[Placement, Topology], cores: int) -> None:
    placement = replace(case[0], oversubscribe=True, threads_per_rank=1)
    topology = Topology(nodes=tuple(NodeCores(cores=tuple(range(cores))) for _ in case[1].nodes))
    loads = Counter((slot.node, core) for slot in place(placement, topology) for core in slot.cores)
    assert max(loads.values()) - min(loads.values()) <= 1


def test_more_threads_than_cores_do_not_name_a_core_twice() -> None:
    placement = Placement(nodes=1, threads_per_rank=3, oversubscribe=True)
    (slot,) = place(placement, Topology(nodes=(NodeCores(cores=(4, 5)),)))
    assert slot.cores == (4, 5)


def test_the_mpi_default_leaves_every_core_of_the_node_to_each_rank() -> None:
    placement = Placement(nodes=1, ranks_per_node=2, binding=Binding.MPI_DEFAULT)
    slots = place(placement, Topology(nodes=(NodeCores(cores=(2, 3, 7)),)))
    assert [slot.cores for slot in slots] == [(2, 3, 7), (2, 3, 7)]


@pytest.mark.parametrize(
    ("placement", "part"),
    [
        (Placement(nodes=3), "needs 3 nodes, and there are 2"),
        (Placement(ranks_per_node=3), "3 ranks need 3 cores on node 0, which has 2"),
        (Placement(ranks_per_node=2, threads_per_rank=2), "2 ranks x 2 threads need 4 cores"),
        (Placement(ranks_per_node=3, containers_per_node=2), "3 ranks per node cannot be shared out equally"),
        (Placement(ranks_per_node=1, containers_per_node=2), "some stay empty"),
        (Placement(nodes=0), "nodes of at least 1"),
        (Placement(threads_per_rank=0), "threads_per_rank of at least 1"),
    ],
)
def test_a_placement_that_does_not_fit_is_refused_with_the_reason(placement: Placement, part: str) -> None:
    with pytest.raises(RefusedError) as caught:
        place(placement, Topology(nodes=(NodeCores(cores=(0, 1)),) * 2))
    assert part in str(caught.value)


@pytest.mark.parametrize(("cores", "part"), [((), "no cores"), ((1, 1), "twice")])
def test_a_node_without_usable_cores_is_refused(cores: tuple[int, ...], part: str) -> None:
    with pytest.raises(RefusedError, match=part):
        place(Placement(nodes=1), Topology(nodes=(NodeCores(cores=cores),)))
