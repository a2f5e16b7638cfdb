"""Say from where the ranks of a launch really were what keeps neighbours apart. Pure (METHOD.md section 2).

Two mechanisms are behind what "one container a rank" costs, and they need different remedies. A third is a machine with
fewer cores than ranks, though it has CPUs enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from tare.model import Finding, RankPlace, Trial

TRANSPORT_LOSS: Final = "transport loss"
BINDING_COLLAPSE: Final = "binding collapse"
SHARED_CORE: Final = "shared core"


def findings(environment: str, group: str, trials: Iterable[Trial]) -> tuple[Finding, ...]:
    """Return what the launches of one cell show, each mechanism once with the number of launches that do."""
    launches = [trial.ranks for trial in trials if trial.ranks]
    found = []
    for kind, look in LOOKS:
        texts = [text for ranks in launches if (text := look(ranks))]
        if texts:
            found.append(
                Finding(
                    group=group,
                    environment=environment,
                    kind=kind,
                    text=texts[0],
                    launches=len(texts),
                    of=len(launches),
                )
            )
    return tuple(found)


def transport_loss(ranks: Sequence[RankPlace]) -> str | None:
    """Return how ranks of one node fail to share memory, with the remedy, or None where all do."""
    for own in _by_node(ranks).values():
        apart = [(a.rank, b.rank) for a in own for b in own if a.rank < b.rank and b.rank not in a.shared_memory_ranks]
        if apart:
            first, second = apart[0]
            hosts = len({rank.hostname for rank in own})
            return (
                f"ranks {first} and {second} are on one node and talk over its network, because the MPI takes their "
                f"{hosts} containers for hosts of their own; remedy: one pod and one daemon for all (share: pod)"
            )
    return None


def binding_collapse(ranks: Sequence[RankPlace]) -> str | None:
    """Return how ranks of one node have fewer cores than they are, with the remedy, or None."""
    for own in _by_node(ranks).values():
        cores = {core for rank in own for core in rank.cpus}
        if cores and len(cores) < len(own):
            few = f"{len(cores)} core{'s' * (len(cores) > 1)} ({', '.join(map(str, sorted(cores)))})"
            return (
                f"{len(own)} ranks of one node share {few}, because the MPI of each container begins there; "
                "remedy: cores of its own for each container (binding: disjoint)"
            )
    return None


def shared_core(ranks: Sequence[RankPlace]) -> str | None:
    """Return which ranks have hardware threads of one core, with the remedy, or None."""
    for rank in ranks:
        if rank.core_sharers:
            other = rank.core_sharers[0]
            many = sum(bool(each.core_sharers) for each in ranks)
            return (
                f"{many} of {len(ranks)} ranks have a hardware thread of a core and not the core: ranks {rank.rank} "
                f"and {other} are on one; remedy: fewer ranks or nodes on the machine, or map_by: core"
            )
    return None


LOOKS: Final = ((TRANSPORT_LOSS, transport_loss), (BINDING_COLLAPSE, binding_collapse), (SHARED_CORE, shared_core))


def _by_node(ranks: Sequence[RankPlace]) -> dict[str, list[RankPlace]]:
    nodes: defaultdict[str, list[RankPlace]] = defaultdict(list)
    for rank in ranks:
        nodes[rank.host.partition("/")[0]].append(rank)
    return dict(nodes)
