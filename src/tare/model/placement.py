"""Map ranks to nodes, containers and cores. Pure: decides, binds nothing.

Rank r is on node r // ranks_per_node, or with `RankOrder.CYCLIC` on node r % nodes. On its node it is in container
local_rank // (ranks_per_node / containers_per_node), so that neighbours in rank are neighbours in the machine. With
`Binding.DISJOINT` each rank owns `threads_per_rank` cores that no other rank of its node has (METHOD.md section 2:
two containers that both start at core 0 make a compute-bound program 26 times slower). A core is allocated with all of
its hardware threads; only if there are too few cores are hardware threads allocated one by one, the first of every core
before the second of any.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tare.errors import RefusedError
from tare.model import Binding, MapBy, Placement, RankOrder
from tare.model.text import bytes_label, counted
from tare.model.topology import HardwareThread, NodeCores, Topology

LEAST_MEMORY_BYTES: Final = 6 * 2**20
"""The smallest limit that Docker takes; below it not even the launcher's helpers would start."""
MOST_RANKS: Final = 16_384
"""128 nodes of 128 cores: placing a rank takes 30 us, and its record in every trial 1 kB."""
MOST_CORES: Final = 1 << 18
"""Most cores (or hardware threads) of a placement."""
LEAST_CPUS: Final = 0.01
"""The smallest share of a CPU's time to which the kernel can limit a group, in periods of 100 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The place of one rank: `node` and `container` count from 0, `container` and `local_rank` within the node.

    `container_cores` are all cores of its container, including those of other ranks in it.
    """

    rank: int
    node: int
    container: int
    local_rank: int
    cores: tuple[int, ...]
    container_cores: tuple[int, ...]


def place(placement: Placement, topology: Topology) -> tuple[Slot, ...]:
    """Return one slot per rank, in rank order.

    With `Binding.MPI_DEFAULT` tare does not bind, the MPI does: a rank's cores are all cores of its container, which
    has all cores of its node unless its number of CPUs is set. With `oversubscribe`, allocation starts again at the
    first core when all are used. Raises `RefusedError` if the placement does not fit.
    """
    check_shape(placement)
    check_cores(placement)
    if placement.nodes > len(topology.nodes):
        raise RefusedError(
            f"placement {placement.label} needs {placement.nodes} nodes, but the cluster has {len(topology.nodes)}",
            remedy="use fewer nodes in the placement, or more in the cluster (`cluster: {lab: {nodes: ...}}`)",
        )
    for number in range(placement.nodes):
        _check_cores(placement, number, topology.nodes[number])
    slots: list[Slot] = []
    for number in range(placement.nodes):
        node = topology.nodes[number]
        whole = placement.binding is Binding.MPI_DEFAULT and not placement.cpus_per_container
        for container, ranks in enumerate(_allocate(placement, node)):
            container_cores = node.cores if whole else tuple(sorted({cpu for cpus in ranks for cpu in cpus}))
            for cpus in ranks[: ranks_per_container(placement)]:
                local_rank = len(slots) - number * placement.ranks_per_node
                slots.append(
                    Slot(
                        rank=rank_at(number, local_rank, placement),
                        node=number,
                        container=container,
                        local_rank=local_rank,
                        cores=container_cores if placement.binding is Binding.MPI_DEFAULT else cpus,
                        container_cores=container_cores,
                    )
                )
    return tuple(sorted(slots, key=lambda slot: slot.rank))


def rank_at(node: int, local_rank: int, placement: Placement) -> int:
    """Return which rank a node's rank of a local number is."""
    if placement.rank_order is RankOrder.CYCLIC:
        return local_rank * placement.nodes + node
    return node * placement.ranks_per_node + local_rank


def host_and_local_rank(rank: int, *, ranks: int, hosts: int, order: RankOrder) -> tuple[int, int]:
    """Return the number of a rank's host, and of the rank on it, in a job with the same number of ranks on each."""
    if order is RankOrder.CYCLIC:
        return rank % hosts, rank // hosts
    each = max(1, ranks // hosts)
    return min(rank // each, hosts - 1), rank % each


def check_shape(placement: Placement) -> None:
    """Raise `RefusedError` if a placement is impossible on any machine."""
    for key in ("nodes", "ranks_per_node", "containers_per_node", "threads_per_rank"):
        if getattr(placement, key) < 1:
            raise RefusedError(f"{key} of a placement must be at least 1, not {getattr(placement, key)}")
    if placement.ranks > MOST_RANKS:
        raise RefusedError(
            f"placement {placement.label} has {placement.ranks} ranks; the maximum is {MOST_RANKS}",
            remedy="use fewer nodes or fewer ranks per node",
        )
    ranks, containers = placement.ranks_per_node, placement.containers_per_node
    if containers > ranks:
        raise RefusedError(
            f"placement {placement.label} has {containers} containers per node, but {ranks} rank{'s' * (ranks != 1)}",
            remedy=f"use at most {ranks} containers per node",
        )
    if ranks % containers:
        divisors = ", ".join(str(n) for n in range(1, ranks + 1) if ranks % n == 0)
        raise RefusedError(
            f"placement {placement.label}: {ranks} ranks per node cannot be divided equally among {containers} "
            "containers",
            remedy=f"containers_per_node can be {divisors}",
        )
    if placement.binding is Binding.MPI_DEFAULT and placement.map_by is not MapBy.CORE:
        raise RefusedError(
            f"map_by: {placement.map_by} assigns cores to ranks, but binding: mpi-default leaves that to the MPI",
            remedy="use binding: disjoint, or omit map_by",
        )
    if 0 < placement.memory_per_container < LEAST_MEMORY_BYTES:
        raise RefusedError(
            f"memory_per_container of {bytes_label(placement.memory_per_container)} is too small to start a process",
            remedy=f"use {bytes_label(LEAST_MEMORY_BYTES)} or more; an MPI needs tens of MiB per rank",
        )
    if placement.cpus_per_container < 0 or 0 < placement.cpus_per_container < LEAST_CPUS:
        raise RefusedError(
            f"cpus_per_container of {placement.cpus_per_container:g} is not possible",
            remedy=f"use 0 for no limit, or {LEAST_CPUS:g} or more",
        )


def check_cores(placement: Placement) -> None:
    """Raise `RefusedError` if a placement of a possible shape needs more cores than any cluster has."""
    if (cores := placement.nodes * needed_cores(placement)) > MOST_CORES:
        raise RefusedError(
            f"placement {placement.label} needs {cores} cores; the maximum is {MOST_CORES}",
            remedy="use fewer ranks, threads_per_rank or cpus_per_container",
        )


def cores_of_container(slots: Iterable[Slot], *, node: int, container: int) -> tuple[int, ...]:
    """Return the cpuset of a container, sorted, each CPU once."""
    return tuple(sorted({c for s in slots if (s.node, s.container) == (node, container) for c in s.container_cores}))


def ranks_per_container(placement: Placement) -> int:
    """Return the number of ranks in a container."""
    return placement.ranks_per_node // placement.containers_per_node


def cores_per_container(placement: Placement) -> int:
    """Return the number of cores of a container: those of its ranks, or `cpus_per_container` if that is more."""
    wanted = math.ceil(placement.cpus_per_container)
    if placement.binding is Binding.MPI_DEFAULT and wanted:
        return wanted
    return max(wanted, ranks_per_container(placement) * placement.threads_per_rank)


def needed_cores(placement: Placement) -> int:
    """Return the number of cores that a placement needs on a node."""
    return placement.containers_per_node * cores_per_container(placement)


def cpu_quota(placement: Placement) -> float:
    """Return the limit on a container's CPU time, in CPUs, if it is less than its number of cores; otherwise 0."""
    wanted = placement.cpus_per_container
    return wanted if wanted < cores_per_container(placement) else 0.0


def order_by_core(cpus: Iterable[int], layout: Sequence[HardwareThread]) -> tuple[int, ...]:
    """Return CPUs in the order of socket, NUMA node and core: neighbours in it are neighbours in the machine."""
    where = {thread.cpu: (thread.socket, thread.numa, thread.core) for thread in layout}
    return tuple(sorted(cpus, key=lambda cpu: (*where.get(cpu, (0, 0, cpu)), cpu)))


# --- cores --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A unit of allocation: a core or a hardware thread. `depth` counts the threads of its core before it."""

    cpus: tuple[int, ...]
    domain: int
    depth: int


def _check_cores(placement: Placement, number: int, node: NodeCores) -> None:
    name = node.name or str(number)
    if not node.cores:
        raise RefusedError(f"node {name} has no cores to place ranks on")
    if len(set(node.cores)) != len(node.cores):
        raise RefusedError(f"node {name} lists a core twice: {node.cores}")
    needed = needed_cores(placement)
    if needed > len(node.cores) and not placement.oversubscribe:
        ranks, cores = placement.ranks_per_node, len(node.whole_cores)
        threads = f" x {placement.threads_per_rank} threads" if placement.threads_per_rank > 1 else ""
        request = f"{ranks} rank{'s' * (ranks != 1)}{threads}"
        if needed > ranks * placement.threads_per_rank:
            containers = placement.containers_per_node
            request = f"{counted(containers, 'container')} x {placement.cpus_per_container:g} CPUs"
        more = f" ({len(node.cores)} hardware threads)" if len(node.cores) > cores else ""
        more += node.note
        fewer = (
            ["fewer nodes"] * bool(node.note)
            + ["fewer ranks per node"] * (ranks > 1)
            + ["fewer threads"] * bool(threads)
        )
        raise RefusedError(
            f"placement {placement.label}: {request} need{'s' * (request == '1 rank')} {needed} cores on node {name}, "
            f"which has {cores}{more}",
            remedy=f"use {' or '.join(fewer or ['fewer CPUs'])}, or `oversubscribe: true` in the placement "
            "(then no verdict is given)",
        )


def _allocate(placement: Placement, node: NodeCores) -> list[list[tuple[int, ...]]]:
    """Return for each container of a node the CPUs of each of its ranks, and last its additional CPUs."""
    stock = _Stock(_units(placement, node))
    bound = placement.binding is not Binding.MPI_DEFAULT
    ranks, units_per_rank = ranks_per_container(placement), placement.threads_per_rank if bound else 0
    additional = cores_per_container(placement) - ranks * units_per_rank
    containers = []
    for container in range(placement.containers_per_node):
        turn = container * ranks
        of_ranks = [stock.take(units_per_rank, turn + rank) for rank in range(ranks)]
        containers.append([*of_ranks, stock.take(additional, turn + ranks - 1)])
    return containers


def _units(placement: Placement, node: NodeCores) -> list[_Unit]:
    """Return the units of allocation, in order: cores if there are enough, otherwise hardware threads."""
    cores = node.whole_cores
    needed = needed_cores(placement)
    by_thread = placement.map_by is MapBy.HWTHREAD
    if needed <= len(cores) and not by_thread:
        return [
            _Unit(cpus=tuple(thread.cpu for thread in core), domain=_domain(placement, core[0]), depth=0)
            for core in cores
        ]
    return [
        _Unit(cpus=(thread.cpu,), domain=_domain(placement, thread), depth=0 if by_thread else depth)
        for core in cores
        for depth, thread in enumerate(core)
    ]


def _domain(placement: Placement, thread: HardwareThread) -> int:
    """Return the domain of a hardware thread (socket or NUMA node); ranks are assigned to domains in turn."""
    if placement.map_by is MapBy.SOCKET:
        return thread.socket
    return thread.numa if placement.map_by is MapBy.NUMA else 0


class _Stock:
    """The units that are not allocated yet; when all are allocated, allocation starts again."""

    def __init__(self, units: Sequence[_Unit]) -> None:
        self._units = units
        self._domains = list(dict.fromkeys(unit.domain for unit in units))
        self._depths = sorted({unit.depth for unit in units})
        self._fill()

    def take(self, many: int, turn: int) -> tuple[int, ...]:
        """Return the CPUs of `many` units, each once; `turn` selects the domain that comes first."""
        first = turn % len(self._domains)
        order = (*self._domains[first:], *self._domains[:first])
        taken: list[_Unit] = []
        while len(taken) < many:
            if not any(self._left.values()):
                self._fill()
            taken += self._pick(many - len(taken), order)
        return tuple(dict.fromkeys(cpu for unit in taken for cpu in unit.cpus))

    def _fill(self) -> None:
        self._left = {(depth, domain): deque[_Unit]() for depth in self._depths for domain in self._domains}
        for unit in self._units:
            self._left[unit.depth, unit.domain].append(unit)

    def _pick(self, many: int, order: Sequence[int]) -> list[_Unit]:
        """Take units: all from one domain if one has enough, otherwise from several.

        A unit on a core that is already in use is taken only if no domain has another.
        """
        for deepest in range(len(self._depths)):
            depths = self._depths[: deepest + 1]
            for domain in order:
                if sum(len(self._left[depth, domain]) for depth in depths) >= many:
                    return self._pop(many, [(depth, domain) for depth in depths])
            if sum(len(self._left[depth, domain]) for depth in depths for domain in order) >= many:
                break
        return self._pop(many, [(depth, domain) for depth in self._depths for domain in order])

    def _pop(self, many: int, queues: Sequence[tuple[int, int]]) -> list[_Unit]:
        taken: list[_Unit] = []
        for queue in queues:
            while self._left[queue] and len(taken) < many:
                taken.append(self._left[queue].popleft())
        return taken
