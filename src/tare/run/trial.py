"""Turn a launch that has ended into a trial for the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tare.deploy.hosts import Deployed
from tare.host.process import Result
from tare.model import (
    InterfaceTraffic,
    Outcome,
    RankPlace,
    Trial,
    TrialKey,
)
from tare.node import surroundings
from tare.run import proof
from tare.run.outcome import Ready, startup
from tare.workloads import Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch that has ended: result, outcome, parsed output, interface traffic, and the machine's state meanwhile.

    `gaps` are the statements on what is not proven, and on what is proven only in part.
    """

    result: Result
    outcome: Outcome
    parsed: Parsed | None
    traffic: tuple[InterfaceTraffic, ...]
    counters: Mapping[str, float]
    noise: Mapping[str, float]
    active_s: float
    gaps: tuple[str, str] = ("", "")


def trial_of(key: TrialKey, position: int, started_unix_s: float, ready: Ready, launched: Launched) -> Trial:
    """Return the trial of a launch that has ended."""
    parsed = launched.parsed
    return Trial(
        key=key,
        position=position,
        started_unix_s=started_unix_s,
        elapsed_s=launched.active_s,
        outcome=launched.outcome,
        argv=ready.argv,
        startup_s=startup(ready.pods_s, launched.active_s, parsed),
        ranks=compared(parsed.ranks, ready.deployed) if parsed else (),
        traffic=launched.traffic,
        counters=launched.counters,
        mpi_library=parsed.mpi_library if parsed else "",
        noise=launched.noise,
        facts=ready.deployed.facts | ({"transport": ready.chosen.words} if ready.chosen else {}),
        unproven=launched.gaps[0],
        partly_proven=launched.gaps[1],
    )


def compared(ranks: Sequence[RankPlace], up: Deployed) -> tuple[RankPlace, ...]:
    """Return the ranks with what they share with their nodes, who shares their cores, and their containers' limits.

    Limits are as the kernel reports them outside of the containers.
    """
    sharers = proof.core_sharers([(rank, up.side_of(rank.rank, len(ranks)).pod.node) for rank in ranks])
    nodes = {node.node.name: node.surroundings() for node in up.nodes}
    limits = up.limits()
    answers = []
    each = max(1, len(ranks) // len(up.sides))
    limits_of = dict(zip(map(id, up.sides), limits, strict=False))
    for rank in ranks:
        side = up.side_of(rank.rank, len(ranks))
        node = nodes[side.pod.node.name]
        own = limits_of[id(side)]
        limit = own[min(rank.rank % each * len(own) // each, len(own) - 1)]
        rights = surroundings.reach(rank.rights, node)
        shared = tuple(name for name, inode in rank.namespaces.items() if node.namespaces.get(name) == inode)
        answers.append(
            replace(
                rank,
                node_namespaces=shared,
                core_sharers=sharers[rank.rank],
                rights={**rights, "setuid": side.pod.setuid, "by": side.pod.by, "limits": limit},
            )
        )
    return tuple(answers)
