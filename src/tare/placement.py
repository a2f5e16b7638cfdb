"""Map ranks to nodes, containers and cores. Pure: decides, binds nothing.

Mapping is by block: rank r is on node r // ranks_per_node, and on its node in container
local_rank // (ranks_per_node / containers_per_node), so that neighbours in rank are neighbours in the machine. With
`Binding.DISJOINT` each rank owns `threads_per_rank` cores that no other rank of its node has (METHOD.md section 2:
two containers that both begin at core 0 make a compute-bound program 26 times slower).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tare.errors import RefusedError
from tare.model import Binding, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCores:
    """The cores of one node, as the kernel numbers them, in the order in which they are given out."""

    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The nodes that a placement can use, in order. Core numbers are each node's own."""

    nodes: tuple[NodeCores, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The place of one rank: `node` and `container` count from 0, `container` and `local_rank` within the node."""

    rank: int
    node: int
    container: int
    local_rank: int
    cores: tuple[int, ...]


def place(placement: Placement, topology: Topology) -> tuple[Slot, ...]:
    """Return one slot per rank, in rank order.

    With `Binding.MPI_DEFAULT` a rank's cores are all cores of its node: we do not bind, the MPI does. With
    `oversubscribe` cores are given out again from the first when they are used up. Raises `RefusedError` where
    the placement does not fit.
    """
    check_shape(placement)
    if placement.nodes > len(topology.nodes):
        raise RefusedError(
            f"placement {placement.label} needs {placement.nodes} nodes, and there are {len(topology.nodes)}",
            remedy="use fewer nodes in the placement, or more in the cluster (`cluster: {lab: {nodes: ...}}`)",
        )
    for node in range(placement.nodes):
        _check_cores(placement, node, topology.nodes[node].cores)
    return tuple(
        Slot(
            rank=node * placement.ranks_per_node + local_rank,
            node=node,
            container=local_rank * placement.containers_per_node // placement.ranks_per_node,
            local_rank=local_rank,
            cores=_cores_of(placement, local_rank, topology.nodes[node].cores),
        )
        for node in range(placement.nodes)
        for local_rank in range(placement.ranks_per_node)
    )


def check_shape(placement: Placement) -> None:
    """Raise `RefusedError` where a placement is impossible on any machine."""
    for what in ("nodes", "ranks_per_node", "containers_per_node", "threads_per_rank"):
        if getattr(placement, what) < 1:
            raise RefusedError(f"a placement needs {what} of at least 1, not {getattr(placement, what)}")
    ranks, containers = placement.ranks_per_node, placement.containers_per_node
    if containers > ranks:
        raise RefusedError(
            f"placement {placement.label} has {containers} containers for {ranks} ranks on a node, so some stay empty",
            remedy=f"use at most {ranks} containers per node",
        )
    if ranks % containers:
        divisors = ", ".join(str(n) for n in range(1, ranks + 1) if ranks % n == 0)
        raise RefusedError(
            f"placement {placement.label}: {ranks} ranks per node cannot be shared out equally over "
            f"{containers} containers",
            remedy=f"containers_per_node can be {divisors}",
        )


def cores_of_container(slots: Iterable[Slot], *, node: int, container: int) -> tuple[int, ...]:
    """Return the cpuset of a container: the cores of its ranks, sorted, each once."""
    return tuple(sorted({c for s in slots if (s.node, s.container) == (node, container) for c in s.cores}))


def _check_cores(placement: Placement, node: int, cores: tuple[int, ...]) -> None:
    if not cores:
        raise RefusedError(f"node {node} has no cores to place ranks on")
    if len(set(cores)) != len(cores):
        raise RefusedError(f"node {node} lists a core twice: {cores}")
    needed = placement.ranks_per_node * placement.threads_per_rank
    if needed > len(cores) and not placement.oversubscribe:
        threads = f" x {placement.threads_per_rank} threads" if placement.threads_per_rank > 1 else ""
        raise RefusedError(
            f"placement {placement.label}: {placement.ranks_per_node} ranks{threads} need {needed} cores on "
            f"node {node}, which has {len(cores)}",
            remedy="use fewer ranks per node, or `oversubscribe: true` in the placement (then no verdict is given)",
        )


def _cores_of(placement: Placement, local_rank: int, cores: tuple[int, ...]) -> tuple[int, ...]:
    if placement.binding is Binding.MPI_DEFAULT:
        return cores
    threads = placement.threads_per_rank
    first = local_rank * threads
    picked = (cores[index % len(cores)] for index in range(first, first + threads))
    return tuple(dict.fromkeys(picked))
