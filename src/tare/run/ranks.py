"""Compare what ranks report about themselves with their nodes: namespaces, cores, devices, mounts, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tare.deploy.hosts import Deployed
from tare.model import RankPlace
from tare.node import surroundings
from tare.run import proof


def compared(ranks: Sequence[RankPlace], up: Deployed) -> tuple[RankPlace, ...]:
    """Return the ranks with what they share with their nodes, who shares their cores, and their containers' limits.

    Limits are as the kernel reports them outside of the containers.
    """
    sharers = proof.core_sharers([(rank, up.side_of(rank.rank, len(ranks)).pod.node) for rank in ranks])
    nodes = {node.node.name: node.surroundings() for node in up.nodes}
    limits = up.limits()
    answers = []
    for rank in ranks:
        side = up.side_of(rank.rank, len(ranks))
        node = nodes[side.pod.node.name]
        own = limits[up.sides.index(side)]
        each = max(1, len(ranks) // len(up.sides))
        limit = own[min(rank.rank % each * len(own) // each, len(own) - 1)]
        rights = surroundings.reach(rank.rights, node)
        shared = tuple(name for name, inode in rank.namespaces.items() if node.namespaces.get(name) == inode)
        answers.append(
            replace(
                rank,
                node_namespaces=shared,
                core_sharers=sharers[rank.rank],
                rights={**rights, "setuid": side.pod.setuid, "limits": limit},
            )
        )
    return tuple(answers)
