"""Turn a launch that has ended into a trial for the store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import numpy as np

from tare.agent.protocol import DescribedPods
from tare.analysis import stats
from tare.analysis.summary.isolation import SECCOMP
from tare.model import (
    Completed,
    Failed,
    Metric,
    Outcome,
    RankPlace,
    Trial,
    TrialKey,
)
from tare.run import proof
from tare.run.deploy.hosts import Deployed
from tare.run.outcome import ReadyCell, startup
from tare.store.plausible import DAMAGED_FACTS, sound_facts
from tare.store.results_checks import sound_ranks
from tare.system.counters.monitor import Observed
from tare.system.node import surroundings
from tare.system.process import Result
from tare.workloads import Parsed
from tare.workloads.output import BY_TURN

LEAST_TOGETHER: Final = 2
"""Launches that must have taken turns with each other to be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch that has ended: result, outcome, parsed output, and what it did to its nodes.

    `left` are the processes that it left behind, by name. `gaps` are the statements on what is not proven, and on what
    is proven only in part.
    """

    result: Result
    outcome: Outcome
    parsed: Parsed | None
    observed: Observed
    active_s: float
    left: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[str, str] = ("", "")

    def with_counters(self, **more: float) -> Launched:
        """Return the launch with further counters."""
        return replace(self, observed=replace(self.observed, counters={**self.observed.counters, **more}))


def in_the_same_passes(launches: Sequence[Launched], turns: int) -> list[Launched]:
    """Return launches that took turns, each with its typical cost against the others' turns of the same passes.

    What a launch costs by itself is that of its median turn. The machine's speed drifts by 20 % and more within a
    block, so that the median turns of two launches can be of different states; compared pass by pass they are not.
    """
    made = list(launches)
    found = [_by_turn(launched, turns) for launched in launches]
    for key, what in dict.fromkeys(chain.from_iterable(found)):
        logs = {number: each[key, what] for number, each in enumerate(found) if (key, what) in each}
        if len(logs) >= LEAST_TOGETHER and len({log.size for log in logs.values()}) == 1:
            for number, typical in zip(logs, stats.typical_turns(list(logs.values())).tolist(), strict=True):
                made[number] = _with_cost(made[number], key, what, math.exp(typical))
    return made


def _by_turn(launched: Launched, turns: int) -> dict[tuple[str, str], stats.FloatArray]:
    """Return the logarithms of a completed launch's costs in each turn, by metric and by field of `Metric`."""
    found: dict[tuple[str, str], stats.FloatArray] = {}
    if not isinstance(launched.outcome, Completed) or launched.parsed is None:
        return found
    for metric in launched.outcome.metrics:
        parts = launched.parsed.samples.get(f"{metric.key}/{BY_TURN}")
        iterations = launched.parsed.iterations.get(metric.key)
        if parts is not None and metric.median_s > 0 and len(launched.outcome.metrics) == 1:
            logs = np.log(parts)
            found[metric.key, "median_s"] = logs - float(np.median(logs)) + math.log(metric.median_s)
        elif iterations is not None and (told := _told(metric, iterations, turns)) is not None:
            logs_of = {"median_s": told.medians, "turn_mean_s": told.means, "turn_spread_s": told.spreads}
            found |= {(metric.key, what): logs for what, logs in logs_of.items() if logs is not None}
    return found


def _told(metric: Metric, iterations: stats.FloatArray, turns: int) -> stats.TurnLogs | None:
    """Return the logarithms of a kernel's turns; the messages of a window are one iteration."""
    messages = metric.done_per_sample / metric.message_bytes if metric.done_per_sample and metric.message_bytes else 1.0
    return stats.turn_logs(iterations, turns, operations=messages)


def _with_cost(launched: Launched, key: str, what: str, seconds: float) -> Launched:
    """Return a completed launch with another value of a field of one of its metrics."""
    outcome = launched.outcome
    assert isinstance(outcome, Completed)
    changed: dict[str, Any] = {what: seconds}
    metrics = tuple(replace(each, **changed) if each.key == key else each for each in outcome.metrics)
    return replace(launched, outcome=replace(outcome, metrics=metrics))


def trial_of(key: TrialKey, position: int, started_unix_s: float, ready: ReadyCell, launched: Launched) -> Trial:
    """Return the trial of a launch that has ended; the store takes it as invalid if what was counted is impossible."""
    parsed, observed = launched.parsed, launched.observed
    described = ready.deployed.described()
    ranks, damaged = sound_ranks(compared(parsed.ranks, ready.deployed, described)) if parsed else ((), ())
    facts, others = sound_facts(_facts(ready, described, ranks, observed.lacking))
    inside = ready.deployed.inside
    steps = inside.took() if inside is not None and inside.took is not None else {}
    if damaged or others:
        facts = {**facts, DAMAGED_FACTS: ", ".join((*damaged, *others))}
    return Trial(
        key=key,
        position=position,
        started_unix_s=started_unix_s,
        elapsed_s=launched.active_s,
        outcome=launched.outcome,
        argv=ready.argv,
        startup_s={**startup(ready.pods_s, launched.active_s, parsed), **steps},
        ranks=ranks,
        traffic=observed.traffic,
        counters=observed.counters,
        node_counters=with_ranks(observed.by_place, parsed, ready.deployed),
        mpi_library=parsed.mpi_library if parsed else "",
        noise=observed.noise,
        facts=facts,
        unproven=launched.gaps[0],
        partly_proven=launched.gaps[1],
        left=launched.left,
        work=parsed.work if parsed else None,
    )


def failed_trial(key: TrialKey, position: int, started: float, reason: str) -> Trial:
    """Return the trial of a launch that was not made."""
    return Trial(key=key, position=position, started_unix_s=started, elapsed_s=0.0, outcome=Failed(reason=reason))


def _facts(
    ready: ReadyCell, described: Sequence[DescribedPods], ranks: Sequence[RankPlace], lacking: str
) -> dict[str, str]:
    """Return the facts of a trial: of its data path, of the first rank's container, and what could not be read."""
    facts = {**ready.deployed.state(described), **(of_rank(ranks[0]) if ranks else {})}
    if ready.chosen:
        facts["transport"] = ready.chosen.words
    return facts | ({"unread counters": lacking} if lacking else {})


def of_rank(rank: RankPlace) -> dict[str, str]:
    """Return what limits a rank: its system call filter, SSBD, its container's limits, and its number of cores."""
    limits = dict(word.partition("=")[::2] for word in rank.rights.get("limits", "").split())
    mode = SECCOMP.get(rank.rights.get("seccomp", ""), "")
    filters = rank.rights.get("seccomp_filters", "")
    found = {
        "seccomp": f"{mode}, filters {filters}" if mode and filters.strip("0") else mode,
        "ssbd": rank.rights.get("speculation_store_bypass", ""),
        "cpu_quota": limits.get("cpus", ""),
        "memory_limit": limits.get("memory_bytes", ""),
        "cores": str(len(rank.cpus)) if rank.cpus else "",
    }
    return {name: text for name, text in found.items() if text}


def with_ranks(
    counters: Mapping[str, Mapping[str, float]], parsed: Parsed | None, up: Deployed
) -> dict[str, Mapping[str, float]]:
    """Return counters by place with what the ranks of each host reported at their end, summed over its ranks."""
    found = {place: dict(values) for place, values in counters.items()}
    usage = parsed.usage if parsed else ()
    for rank, own in enumerate(usage):
        pod, _ = up.place_of(rank, len(usage))
        place = found.setdefault(pod.host or pod.node.name, {})
        for name, value in own.items():
            if value > 0:
                place[name] = float(f"{place.get(name, 0.0) + value:.6g}")
    return dict(found)


def compared(ranks: Sequence[RankPlace], up: Deployed, described: Sequence[DescribedPods]) -> tuple[RankPlace, ...]:
    """Return the ranks with what they share with their nodes, who shares their cores, and their containers' limits.

    Limits are as the kernel reports them outside of the containers.
    """
    sharers = proof.core_sharers([(rank, up.place_of(rank.rank, len(ranks))[0].node) for rank in ranks])
    nodes = {node.node.name: pods.node for node, pods in zip(up.nodes, described, strict=True)}
    limits = [own for pods in described for own in pods.limits]
    answers = []
    each = max(1, len(ranks) // len(up.pods))
    limits_of = dict(zip(map(id, up.pods), limits, strict=False))
    for rank in ranks:
        pod, local = up.place_of(rank.rank, len(ranks))
        node = nodes[pod.node.name]
        own = limits_of[id(pod)]
        limit = own[min(local * len(own) // each, len(own) - 1)]
        rights = surroundings.reach(rank.rights, node)
        shared = tuple(name for name, inode in rank.namespaces.items() if node.namespaces.get(name) == inode)
        answers.append(
            replace(
                rank,
                node_namespaces=shared,
                core_sharers=sharers[rank.rank],
                rights={**rights, "setuid": pod.setuid, "by": pod.by, "limits": limit},
            )
        )
    return tuple(answers)
