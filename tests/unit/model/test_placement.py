"""Every rank has one place, cores are disjoint, and placements that do not fit are refused with a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.errors import RefusedError
from tare.model import Binding, MapBy, Placement, RankOrder
from tare.model.placement import (
    Slot,
    cores_of_container,
    cores_per_container,
    cpu_quota,
    host_and_local_rank,
    order_by_core,
    place,
)
from tare.model.topology import HardwareThread, NodeCores, Topology


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
def test_ranks_are_placed_once_in_blocks_on_cores_of_their_own_and_containers_are_balanced(
    case: tuple[Placement, Topology],
) -> None:
    placement, topology = case
    slots = place(placement, topology)
    assert [slot.rank for slot in slots] == list(range(placement.ranks))
    assert all(slot.node == slot.rank // placement.ranks_per_node for slot in slots)
    assert all(slot.local_rank == slot.rank % placement.ranks_per_node for slot in slots)
    used = [(slot.node, core) for slot in slots for core in slot.cores]
    assert len(used) == len(set(used)) == placement.ranks * placement.threads_per_rank
    assert all(core in topology.nodes[node].cores for node, core in used)
    sizes = Counter((slot.node, slot.container) for slot in slots)
    assert len(sizes) == placement.nodes * placement.containers_per_node
    assert set(sizes.values()) == {placement.ranks_per_node // placement.containers_per_node}
    order = [(slot.node, slot.container) for slot in slots]
    assert order == sorted(order)
    for node in range(placement.nodes):
        sets = [cores_of_container(slots, node=node, container=c) for c in range(placement.containers_per_node)]
        assert sum(len(cores) for cores in sets) == len(set().union(*sets))


@given(fitting(), st.integers(1, 3))
def test_oversubscribed_ranks_are_spread_evenly_over_the_cores(case: tuple[Placement, Topology], cores: int) -> None:
    placement = replace(case[0], oversubscribe=True, threads_per_rank=1)
    topology = Topology(nodes=tuple(NodeCores(cores=tuple(range(cores))) for _ in case[1].nodes))
    loads = Counter((slot.node, core) for slot in place(placement, topology) for core in slot.cores)
    assert max(loads.values()) - min(loads.values()) <= 1


def test_threads_beyond_the_cores_and_the_mpi_default_have_every_core_of_the_node() -> None:
    placement = Placement(nodes=1, threads_per_rank=3, oversubscribe=True)
    (slot,) = place(placement, Topology(nodes=(NodeCores(cores=(4, 5)),)))
    assert slot.cores == (4, 5)
    placement = Placement(nodes=1, ranks_per_node=2, binding=Binding.MPI_DEFAULT)
    slots = place(placement, Topology(nodes=(NodeCores(cores=(2, 3, 7)),)))
    assert [slot.cores for slot in slots] == [(2, 3, 7), (2, 3, 7)]


# --- sockets, NUMA nodes, hardware threads ------------------------------------------------------------------------


def machine(sockets: int, numa: int, cores: int, threads: int) -> tuple[HardwareThread, ...]:
    """Return a machine of so many sockets with NUMA nodes with cores with threads, numbered as Linux does on x86:
    the first threads of all cores, then the second ones."""
    many = sockets * numa * cores
    return tuple(
        HardwareThread(cpu=depth * many + core, core=core, numa=core // cores, socket=core // (cores * numa))
        for depth in range(threads)
        for core in range(many)
    )


@st.composite
def mapped(draw: st.DrawFn) -> tuple[Placement, NodeCores]:
    """Draw a node of 1-4 sockets, some of its CPUs, and a placement that fits on them."""
    layout = machine(*(draw(st.integers(1, most)) for most in (4, 2, 3, 2)))
    cpus = draw(st.lists(st.sampled_from([thread.cpu for thread in layout]), min_size=1, unique=True))
    node = NodeCores(cores=tuple(cpus), layout=layout, name="n0")
    threads = draw(st.integers(1, min(3, len(cpus))))
    ranks = draw(st.integers(1, len(cpus) // threads))
    containers = draw(st.sampled_from([n for n in range(1, ranks + 1) if ranks % n == 0]))
    placement = Placement(
        nodes=1,
        ranks_per_node=ranks,
        containers_per_node=containers,
        threads_per_rank=threads,
        map_by=draw(st.sampled_from(MapBy)),
    )
    return placement, node


def on(placement: Placement, node: NodeCores) -> tuple[Slot, ...]:
    return place(placement, Topology(nodes=(node,)))


@given(mapped())
def test_on_every_machine_ranks_are_in_order_on_cpus_of_their_own_in_whole_containers(
    case: tuple[Placement, NodeCores],
) -> None:
    placement, node = case
    slots = on(placement, node)
    assert [slot.rank for slot in slots] == list(range(placement.ranks))
    used = [cpu for slot in slots for cpu in slot.cores]
    assert len(used) == len(set(used))
    assert set(used) <= set(node.cores)
    assert all(len(slot.cores) >= placement.threads_per_rank for slot in slots)
    assert [slot.container for slot in slots] == sorted(slot.container for slot in slots)
    for container in range(placement.containers_per_node):
        inside = [slot for slot in slots if slot.container == container]
        assert len(inside) == placement.ranks_per_node // placement.containers_per_node
        cores = cores_of_container(slots, node=0, container=container)
        assert set(cores) == {cpu for slot in inside for cpu in slot.cores}


@given(st.integers(1, 5), st.integers(1, 6))
def test_ranks_fill_nodes_or_go_to_them_in_turn(nodes: int, each: int) -> None:
    topology = Topology(nodes=tuple(NodeCores(cores=tuple(range(each)), name=f"n{number}") for number in range(nodes)))
    filled, in_turn = (
        place(Placement(nodes=nodes, ranks_per_node=each, rank_order=order), topology) for order in RankOrder
    )
    assert [slot.rank for slot in in_turn] == list(range(nodes * each))
    assert [slot.node for slot in in_turn] == [rank % nodes for rank in range(nodes * each)]
    assert [slot.node for slot in filled] == [rank // each for rank in range(nodes * each)]
    places = {(slot.node, slot.local_rank): slot.cores for slot in filled}
    assert {(slot.node, slot.local_rank): slot.cores for slot in in_turn} == places
    for order, slots in zip(RankOrder, (filled, in_turn), strict=True):
        for slot in slots:
            found = host_and_local_rank(slot.rank, ranks=nodes * each, hosts=nodes, order=order)
            assert found == (slot.node, slot.local_rank)


@given(mapped())
def test_two_ranks_share_a_core_only_if_no_core_is_free(case: tuple[Placement, NodeCores]) -> None:
    placement, node = case
    placement = replace(placement, map_by=MapBy.CORE if placement.map_by is MapBy.HWTHREAD else placement.map_by)
    slots = on(placement, node)
    core_of = {thread.cpu: thread.core for thread in node.layout}
    ranks_on = Counter(core for slot in slots for core in {core_of[cpu] for cpu in slot.cores})
    whole_in_domain = placement.map_by in {MapBy.SOCKET, MapBy.NUMA} and placement.threads_per_rank > 1
    if max(ranks_on.values()) > 1 and not whole_in_domain:  # a rank of several threads may not fit beside a free core
        assert set(ranks_on) == {core_of[cpu] for cpu in node.cores}
    if placement.ranks * placement.threads_per_rank <= len(node.whole_cores):
        assert max(ranks_on.values()) == 1
        assert all(len({core_of[cpu] for cpu in slot.cores}) == placement.threads_per_rank for slot in slots)


@given(st.integers(1, 4), st.integers(1, 2), st.integers(1, 4), st.integers(1, 2), st.data())
def test_ranks_are_dealt_to_sockets_and_numa_nodes_in_turn(
    sockets: int, numa: int, cores: int, threads: int, data: st.DataObject
) -> None:
    layout = machine(sockets, numa, cores, threads)
    node = NodeCores(cores=tuple(range(len(layout))), layout=layout)
    ranks = data.draw(st.integers(1, sockets * numa * cores))
    where = {thread.cpu: thread for thread in layout}
    by_socket = on(Placement(nodes=1, ranks_per_node=ranks, map_by=MapBy.SOCKET), node)
    assert [{where[cpu].socket for cpu in slot.cores} for slot in by_socket] == [{r % sockets} for r in range(ranks)]
    by_numa = on(Placement(nodes=1, ranks_per_node=ranks, map_by=MapBy.NUMA), node)
    assert [{where[cpu].numa for cpu in slot.cores} for slot in by_numa] == [
        {r % (sockets * numa)} for r in range(ranks)
    ]


@given(st.integers(1, 4), st.integers(2, 6), st.integers(2, 3))
def test_the_cores_of_a_rank_are_in_one_socket_as_long_as_one_has_so_many(
    sockets: int, cores: int, threads: int
) -> None:
    layout = machine(sockets, 1, cores, 2)
    node = NodeCores(cores=tuple(range(len(layout))), layout=layout)
    where = {thread.cpu: thread.socket for thread in layout}
    if fitting := sockets * (cores // threads):
        placement = Placement(nodes=1, ranks_per_node=fitting, threads_per_rank=threads, map_by=MapBy.SOCKET)
        assert all(len({where[cpu] for cpu in slot.cores}) == 1 for slot in on(placement, node))


SMT = NodeCores(cores=(0, 1, 2, 3), layout=machine(1, 1, 2, 2), name="n0")
"""Two cores of two hardware threads: 0 and 2, 1 and 3."""


@pytest.mark.parametrize(
    ("ranks", "map_by", "cores"),
    [
        (2, MapBy.CORE, [(0, 2), (1, 3)]),
        (3, MapBy.CORE, [(0,), (1,), (2,)]),
        (4, MapBy.SOCKET, [(0,), (1,), (2,), (3,)]),
        (2, MapBy.HWTHREAD, [(0,), (2,)]),
        (3, MapBy.HWTHREAD, [(0,), (2,), (1,)]),
    ],
)
def test_a_core_comes_with_its_hardware_threads_as_long_as_there_are_enough(
    ranks: int, map_by: MapBy, cores: list[tuple[int, ...]]
) -> None:
    slots = on(Placement(nodes=1, ranks_per_node=ranks, map_by=map_by), SMT)
    assert [slot.cores for slot in slots] == cores


def test_siblings_are_neighbours_and_an_error_on_too_few_cores_counts_them() -> None:
    with pytest.raises(RefusedError, match=r"8 ranks need 8 cores on node n0, which has 2 \(4 hardware threads\)"):
        on(Placement(nodes=1, ranks_per_node=8), SMT)
    assert order_by_core({0, 1, 2, 3}, SMT.layout) == (0, 2, 1, 3)
    assert order_by_core([5, 4], ()) == (4, 5)


# --- CPUs of a container ------------------------------------------------------------------------------------------

SIX = NodeCores(cores=tuple(range(6)))


@pytest.mark.parametrize(
    ("cpus", "cores", "quota"),
    [(0.0, (0, 1), 0.0), (0.5, (0, 1), 0.5), (2.0, (0, 1), 0.0), (2.5, (0, 1, 2), 2.5), (3.0, (0, 1, 2), 0.0)],
)
def test_a_container_has_its_ranks_cores_or_more_and_a_limit_if_it_may_use_less(
    cpus: float, cores: tuple[int, ...], quota: float
) -> None:
    placement = Placement(nodes=1, ranks_per_node=4, containers_per_node=2, cpus_per_container=cpus)
    slots = on(placement, SIX)
    assert cores_of_container(slots, node=0, container=0) == cores
    assert slots[0].container_cores == cores
    assert [len(slot.cores) for slot in slots] == [1] * 4
    assert cpu_quota(placement) == quota
    second = cores_of_container(slots, node=0, container=1)
    assert not set(cores) & set(second)
    assert len(second) == len(cores) == cores_per_container(placement)


def test_left_to_the_mpi_a_container_has_as_many_cpus_as_are_stated() -> None:
    placement = Placement(nodes=1, ranks_per_node=2, containers_per_node=2, binding=Binding.MPI_DEFAULT)
    slots = on(replace(placement, cpus_per_container=3.0), SIX)
    assert [slot.cores for slot in slots] == [(0, 1, 2), (3, 4, 5)]


@pytest.mark.parametrize(
    ("placement", "part"),
    [
        (Placement(ranks_per_node=2, threads_per_rank=2), "2 ranks x 2 threads need 4 cores"),
        (Placement(ranks_per_node=1, containers_per_node=2), "2 containers per node, but 1 rank"),
        (Placement(nodes=0), "nodes of a placement must be at least 1"),
        (Placement(threads_per_rank=0), "threads_per_rank of a placement must be at least 1"),
        (Placement(cpus_per_container=0.001), "cpus_per_container of 0.001 is not possible"),
        (Placement(memory_per_container=65536), "memory_per_container of 64 KiB is too small"),
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
