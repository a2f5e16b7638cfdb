"""Predict what the ranks of one host should communicate over, and verify it with a ping-pong in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.agent.geometry import pods_per_node
from tare.analysis.summary.mechanisms import BINDING_COLLAPSE, TRANSPORT_LOSS, binding_collapse, transport_loss
from tare.clusters import Site
from tare.errors import CommandFailed, CommandTimeout
from tare.model import Cell, Environment, KernelSpec, Placement, RankPlace, Workload
from tare.model.text import bytes_label
from tare.run import job
from tare.run.deploy.hosts import Deployed
from tare.run.symptoms import recognised
from tare.workloads import plugin_of
from tare.workloads.failure_reasons import reason_said
from tare.workloads.output import OutputError

SHARED_MEMORY_S: Final = 3e-6
"""Largest half round trip of one byte over shared memory: measured .1 to 1.5 us with it, from 4 us over any network."""

PING_PONG: Final = Workload(
    name="ping-pong",
    kernels=tuple(
        KernelSpec(kernel="latency", message_bytes=size, iterations=count)
        for size, count in ((1, 2000), (65536, 200), (1 << 20, 50))
    ),
    time_limit_s=300.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PingPong:
    """Measurements of two ranks on a host: half round trips in seconds by bytes, and where the host's ranks ran."""

    half_round_trips_s: Mapping[int, float]
    ranks: tuple[RankPlace, ...]


def expected(environment: Environment, placement: Placement) -> str:
    """Return what ranks of one host should communicate over. Pure."""
    pods = pods_per_node(environment, placement)
    if placement.ranks_per_node == 1:
        return "one rank a host: there are no neighbours"
    if pods == placement.ranks_per_node:
        return "neighbours use the data network: each has a pod, an address and a daemon of its own (share: none)"
    within = "neighbours share memory, copied in and out; a single copy (CMA) is not used"
    if pods > 1:
        return f"{within}; those of another container are reached over the data network (share: none)"
    return within


def ping_pong(site: Site, cell: Cell, up: Deployed, agent: Path) -> PingPong:
    """Run a ping-pong between the first and the last rank of the first host, in an environment that is up.

    Raises `CommandFailed` with the MPI's message if the ranks do not start.
    """
    first = tuple(pod for pod in up.pods if pod.node == up.pods[0].node)
    placement = replace(cell.placement, nodes=1)
    probing = replace(cell, workload=PING_PONG, placement=placement)
    one_host = replace(up, pods=first)
    launch = job.make_launch(site, probing, one_host)
    command = job.command_of(site, one_host, launch, agent, name="ping-pong")
    result = job.started(site, command, timeout_s=PING_PONG.time_limit_s)
    up.end_left()
    if result.timed_out:
        raise CommandTimeout(f"the ping-pong did not end within {PING_PONG.time_limit_s:g} s")
    try:
        parsed = plugin_of(PING_PONG).parse(PING_PONG, result.stdout)
    except OutputError as error:
        words = reason_said(result.stderr, result.stdout) or str(error)
        raise CommandFailed(f"the ping-pong failed: {words}", remedy=recognised(result.stderr)) from error
    sizes = [spec.message_bytes or 0 for spec in PING_PONG.kernels]
    times = {size: metric.median_s for size, metric in zip(sizes, parsed.metrics, strict=True)}
    return PingPong(half_round_trips_s=times, ranks=parsed.ranks)


def described(measured: PingPong) -> tuple[str, ...]:
    """Return the measurements and whatever slows messages between neighbours, one sentence each. Pure."""
    first, last = measured.ranks[0], measured.ranks[-1]
    times = ", ".join(f"{bytes_label(size)} {s * 1e6:.2f} us" for size, s in measured.half_round_trips_s.items())
    sentences = [f"half round trip between ranks {first.rank} and {last.rank} of {first.hostname}: {times}"]
    sentences += [
        f"{kind}: {text}"
        for kind, look in ((TRANSPORT_LOSS, transport_loss), (BINDING_COLLAPSE, binding_collapse))
        if (text := look(measured.ranks))
    ]
    if len(sentences) == 1:
        sentences.append(_quick_or_not(measured.half_round_trips_s, measured.ranks))
    return tuple(sentences)


def _quick_or_not(times: Mapping[int, float], ranks: Sequence[RankPlace]) -> str:
    smallest = times[min(times)]
    if smallest <= SHARED_MEMORY_S:
        return f"all {len(ranks)} ranks of this host share memory"
    return (
        f"they share memory, but {bytes_label(min(times))} takes more than {SHARED_MEMORY_S * 1e6:g} us: "
        "something else uses their cores (tare doctor)"
    )
