"""Prove the treatment: ranks ran where the placement puts them, and traffic took the claimed network.

A trial whose treatment is refuted is Invalid, not slow. If counters may not be read, it counts and says so. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations
from typing import Final

from tare.model import Binding, InterfaceTraffic, Placement, RankPlace
from tare.model.placement import host_and_local_rank
from tare.system.counters.monitor import UnreadInterface
from tare.system.node import SHARED_ROLES, SILENT_ROLE, Node
from tare.workloads.output import Payload

HEADER_BYTES: Final = 400
"""Bytes on the wire that one small message may need in addition to its payload: headers of MPI, TCP, IP, Ethernet and
VXLAN, its acknowledgement and the acknowledgement's headers."""
CHATTER_BYTES: Final = 262_144
"""Bytes allowed in one launch for connection set-up, neighbour discovery and the like."""
RANK_CHATTER_BYTES: Final = 32_768
"""Additional bytes for each rank: daemons send job data to ranks over `lo`, 20 kB each with Open MPI 5 (measured), and
ranks connect to each other."""
UPPER: Final = 1.5
SILENT: Final = 0.01
MOST_NAMED: Final = 3
"""Most interfaces that a statement names."""
LOWER_BOUND_ONLY: Final = "the interface is shared with other programs: only the lower bound of its traffic was checked"


def check_places(ranks: Sequence[RankPlace], placement: Placement, *, nodes: Sequence[Node]) -> str | None:
    """Return why the ranks' placement does not match the study, or None.

    `nodes` are those of the hosts, in order; all hosts have the same number of ranks. Cores are not checked if the
    study allows sharing them or leaves binding to the MPI: the MPI's choice is then part of what is measured.
    """
    if len(ranks) != placement.ranks:
        return f"{len(ranks)} ranks ran where the placement has {placement.ranks}"
    placed = []
    for rank in ranks:
        host, _ = host_and_local_rank(rank.rank, ranks=placement.ranks, hosts=len(nodes), order=placement.rank_order)
        if not (0 <= rank.rank < placement.ranks and rank.host.startswith(f"{nodes[host].boot_id}/")):
            return f"rank {rank.rank} ran on {rank.hostname}, which is not the node that the placement says"
        placed.append((rank, nodes[host]))
    if placement.oversubscribe or placement.binding is Binding.MPI_DEFAULT:
        return None
    return foreign_cores(placed) or shared_cores(placed)


def foreign_cores(placed: Sequence[tuple[RankPlace, Node]]) -> str | None:
    """Return which rank may run on a core that does not belong to its node, or None."""
    for rank, node in placed:
        if foreign := sorted(set(rank.cpus) - set(node.cores)):
            return f"rank {rank.rank} may run on core {foreign[0]}, which is none of those of its node {node.name}"
    return None


def shared_cores(placed: Sequence[tuple[RankPlace, Node]]) -> str | None:
    """Return which ranks may run on the same core, or None.

    The mask of a single rank may have all cores of its node; the masks of ranks on one machine must be disjoint. A
    lab's nodes are on one machine. Nodes on different machines may each have a core of the same number.
    """
    used: dict[tuple[str, int], int] = {}
    for rank, node in placed:
        for core in rank.cpus:
            other = used.setdefault((node.machine, core), rank.rank)
            if other != rank.rank:
                return f"ranks {other} and {rank.rank} share core {core}: their CPU masks overlap"
    return None


def core_sharers(placed: Sequence[tuple[RankPlace, Node]]) -> dict[int, tuple[int, ...]]:
    """Return for each rank the ranks on other hardware threads of its cores that share no thread with it.

    This is not an error: a node may have no more cores, or the placement may ask for it. But each rank then has only a
    part of a core.
    """
    on_core: defaultdict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    for rank, node in placed:
        core_of = {thread.cpu: thread.core for thread in node.layout}
        for cpu in core_of.keys() & rank.cpus:  # a rank may report any
            on_core[node.machine, core_of[cpu]].add((rank.rank, cpu))
    cpus = {rank.rank: set(rank.cpus) for rank, _ in placed}
    found: dict[int, set[int]] = {rank.rank: set() for rank, _ in placed}
    for threads in on_core.values():
        for (one, here), (other, there) in permutations(threads, 2):
            if one != other and here != there and cpus[one].isdisjoint(cpus[other]):
                found[one].add(other)
    return {rank: tuple(sorted(others)) for rank, others in found.items()}


def check_traffic(
    traffic: Sequence[InterfaceTraffic],
    payload: Payload,
    *,
    said_bytes: int,
    ranks: int = 0,
    resent_bytes: float = 0.0,
    shared: bool = False,
    unread: Sequence[UnreadInterface] = (),
) -> str | None:
    """Return why the traffic did not take the claimed network, or None.

    `ranks` is the number of ranks of the job; `said_bytes` is the size of its output, which the control network
    carries; `resent_bytes` is the size of what TCP sent again. One node sends a byte and another receives it. So if k
    of N nodes have an interface of a role, these interfaces carry payload x 2k/N in both directions together (k < N
    only with two nodes: one side is bare). Their volume must be in [that, 1.5 x that + overhead + what was sent again],
    or at least that if the job sent more than was counted, or if other programs use the interfaces too (`shared`, or
    their role says so). A
    role with an interface that may not be read (`unread`) has no lower bound; `state_unproven` says so.
    """
    nodes = len({item.node for item in traffic} | {item.node for item in unread})
    chatter = CHATTER_BYTES + RANK_CHATTER_BYTES * ranks
    carried: defaultdict[str, int] = defaultdict(int)
    places: defaultdict[str, set[str]] = defaultdict(set)
    for item in traffic:
        if item.role != SILENT_ROLE:
            carried[item.role] += item.rx_bytes + item.tx_bytes
            places[item.role].add(item.node)
    unread_roles = {item.role for item in unread if item.role != SILENT_ROLE}
    for closed in unread:
        places[closed.role].add(closed.node)
    if not payload.known and unread_roles and not carried:
        return None
    reference = payload.low_bytes if payload.known else max(carried.values(), default=0)
    allowed = SILENT * reference + chatter + 2 * said_bytes
    for item in traffic:
        if item.role == SILENT_ROLE and item.tx_bytes > allowed:
            return (
                f"{item.interface} of {item.node} carried {item.tx_bytes} bytes and should have been silent: "
                "the traffic did not take the network that the cell claims"
            )
    if not carried and not unread_roles:
        return "no interface of the network that the cell claims could be read: nothing proves that the traffic took it"
    if not payload.known:
        return None
    for role, volume in carried.items():
        share = 2 * len(places[role]) / nodes
        lower = 0 if role in unread_roles else share * payload.low_bytes
        sent = UPPER * payload.high_bytes + HEADER_BYTES * payload.messages + resent_bytes
        upper = share * sent + chatter
        if payload.more or shared or role in SHARED_ROLES:
            upper = math.inf
        if not lower <= volume <= upper:
            return (
                f"the {role} carried {volume} bytes where the job's messages need {lower:.0f}"
                f"{'' if math.isinf(upper) else f' to {upper:.0f}'}: "
                "the traffic did not take the network that the cell claims"
            )
    return None


def state_unproven(unread: Sequence[UnreadInterface]) -> str:
    """Return the statement that counters may not be read, with the interfaces and the reasons; "" if all were read."""
    of_why: dict[str, list[str]] = {}
    for item in unread:
        of_why.setdefault(item.why, []).append(f"{item.interface} of {item.node}")
    parts = []
    for why, names in of_why.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        parts.append(f"the counters of {', '.join(names[:MOST_NAMED])}{more} cannot be read ({why})")
    return f"treatment not proven: {'; '.join(parts)}" if parts else ""


def state_partly_proven(
    traffic: Sequence[InterfaceTraffic], payload: Payload, *, shared: bool, unread: Sequence[UnreadInterface] = ()
) -> str:
    """Return the statement that only the lower bound was checked, because interfaces are shared; "" if it was not."""
    has_bounds = payload.known and not payload.more
    roles = {item.role for item in traffic} - {item.role for item in unread} - {SILENT_ROLE}
    return LOWER_BOUND_ONLY if shared and has_bounds and roles else ""


def check_transport(ranks: Sequence[RankPlace]) -> str | None:
    """Return why ranks of different hosts appear to share memory, or None."""
    together: defaultdict[str, set[int]] = defaultdict(set)
    for rank in ranks:
        together[rank.host].add(rank.rank)
    for rank in ranks:
        if not together[rank.host].issuperset(rank.shared_memory_ranks):
            return f"rank {rank.rank} shares memory with ranks of another host: MPI took two nodes for one"
    return None
