"""Find mechanisms that make a cell slow, from the actual places of its ranks, and what is not proven. Pure.

The cost of "one container per rank" has two mechanisms, which need different remedies. A third is a machine with fewer
cores than ranks, although it has enough CPUs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tare.model import Completed, Finding, ProofGap, RankPlace, Trial

TRANSPORT_LOSS: Final = "transport loss"
BINDING_COLLAPSE: Final = "binding collapse"
SHARED_CORE: Final = "shared core"
_COUNTS: Final = re.compile(r"\d{4,}")
"""Counts of bytes, which differ from launch to launch. The numbers of nodes and ranks are shorter."""


def findings(
    environment: str, group: str, trials: Iterable[Trial], *, oversubscribed: bool = False
) -> tuple[Finding, ...]:
    """Return each mechanism that launches of one cell show, with the number of these launches.

    If the cell is `oversubscribed`, its ranks share cores because the study asks for it.
    """
    launches = [trial.ranks for trial in trials if trial.ranks]
    result = []
    for kind, detect in DETECTORS:
        if oversubscribed and kind is not TRANSPORT_LOSS:
            continue
        found = [text for ranks in launches if (text := detect(ranks))]
        if found:
            result.append(
                Finding(
                    group=group,
                    environment=environment,
                    kind=kind,
                    text=found[0],
                    launches=len(found),
                    of=len(launches),
                )
            )
    return tuple(result)


def transport_loss(ranks: Sequence[RankPlace]) -> str | None:
    """Return which ranks of one node do not share memory, with the remedy; None if all do."""
    for of_node in _by_node(ranks).values():
        pairs = [(one, other) for one in of_node for other in of_node if one.rank < other.rank]
        apart = [(one.rank, other.rank) for one, other in pairs if other.rank not in one.shared_memory_ranks]
        if apart:
            first, second = apart[0]
            hosts = len({rank.hostname for rank in of_node})
            return (
                f"ranks {first} and {second} are on one node but communicate over its network, because the MPI treats "
                f"their {hosts} containers as separate hosts; remedy: one pod and one daemon for all (share: pod)"
            )
    return None


def binding_collapse(ranks: Sequence[RankPlace]) -> str | None:
    """Return how many ranks of one node share how many cores, with the remedy; None if there are enough cores."""
    for of_node in _by_node(ranks).values():
        cores = {core for rank in of_node for core in rank.cpus}
        if cores and len(cores) < len(of_node):
            few = f"{len(cores)} core{'s' * (len(cores) > 1)} ({', '.join(map(str, sorted(cores)))})"
            shared = f"{len(of_node)} ranks of one node share {few}"
            if len({rank.host for rank in of_node}) == 1:
                return f"{shared}; remedy: a core for each rank (binding: disjoint; mpirun --bind-to core)"
            return (
                f"{shared}, because the MPI of each container binds from there; "
                "remedy: separate cores for each container (binding: disjoint)"
            )
    return None


def shared_core(ranks: Sequence[RankPlace]) -> str | None:
    """Return which ranks have hardware threads of one core, with the remedy; None if there are none."""
    for rank in ranks:
        if rank.core_sharers:
            other = rank.core_sharers[0]
            sharing = sum(bool(place.core_sharers) for place in ranks)
            return (
                f"{sharing} of {len(ranks)} ranks have a hardware thread and not a whole core: ranks {rank.rank} and "
                f"{other} share a core; remedy: fewer ranks or nodes on the machine, or map_by: core"
            )
    return None


DETECTORS: Final = ((TRANSPORT_LOSS, transport_loss), (BINDING_COLLAPSE, binding_collapse), (SHARED_CORE, shared_core))


def _by_node(ranks: Sequence[RankPlace]) -> dict[str, list[RankPlace]]:
    nodes: defaultdict[str, list[RankPlace]] = defaultdict(list)
    for rank in ranks:
        nodes[rank.host.partition("/")[0]].append(rank)
    return dict(nodes)


def proof_gaps_of(environment: str, group: str, trials: Iterable[Trial]) -> Iterator[ProofGap]:
    """Yield each statement of a cell's completed launches, with the number of these launches; the gravest first.

    Statements that differ in a count of bytes are one, in the words of the first launch.
    """
    completed = [trial for trial in trials if isinstance(trial.outcome, Completed)]
    unproven = [trial.unproven for trial in completed if trial.unproven]
    partly_proven = [trial.partly_proven for trial in completed if trial.partly_proven]
    for partly, texts in ((False, unproven), (True, partly_proven)):
        of_form = Counter(_form(text) for text in texts)
        first = {_form(text): text for text in reversed(texts)}
        for form, launches in of_form.items():
            yield ProofGap(
                group=group,
                environment=environment,
                text=first[form],
                partly=partly,
                launches=launches,
                of=len(completed),
            )


def _form(text: str) -> str:
    return _COUNTS.sub("#", text)
