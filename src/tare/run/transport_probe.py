"""Try messages between hosts, and ask an MPI's library which transport it selected, in launches before the timed ones.

Reporting costs the library time, so the timed launches do not ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.clusters import Site
from tare.model import Cell, KernelSpec, Workload
from tare.mpi import MPIS
from tare.mpi.launch.ways import way_of
from tare.networks.wiring.conflist import PREFIX
from tare.networks.wiring.transports import is_local, needs_port
from tare.run import job
from tare.run.deploy.hosts import Deployed
from tare.run.outcome import Pair, ReadyCell
from tare.run.transport_log import ChosenTransports, by_rank, judged
from tare.system.counters import monitor
from tare.workloads import plugin_of
from tare.workloads.answers import SHOWN

QUESTION: Final = Workload(
    name="question",
    kernels=(
        KernelSpec(kernel="alltoall", message_bytes=8, iterations=5, warmup=1),
        KernelSpec(kernel="alltoall", message_bytes=1 << 16, iterations=5, warmup=1),
    ),
    time_limit_s=60.0,
)
"""Every rank sends a short and a long message to every other."""


def answers(site: Site, launches: Iterable[ReadyCell], agent: Path) -> dict[Pair, ChosenTransports]:
    """Return the transports that the libraries selected, asking once per environment and placement."""
    found: dict[Pair, ChosenTransports] = {}
    for each in launches:
        if each.pair not in found and asks(each.cell, each.deployed):
            found[each.pair] = ask(site, each.cell, each.deployed, agent)
            each.deployed.end_left()
    return found


LOST: Final = ("TcpExtTCPSynRetrans", "TcpRetransSegs")
"""Counters that tell that packets were lost: those of new connections, and all."""
TRIES: Final = 2
"""Launches that hang without such a sign until it is said that messages do not arrive."""


def unreached(site: Site, launches: Iterable[ReadyCell], agent: Path) -> dict[Pair, str]:
    """Return why messages do not arrive, for environments and placements where a launch that only sends them hangs.

    A launch that fails says why itself. Tried is only what tare did not set up itself: machines as they are, and a
    user's network.
    """
    found: dict[Pair, str] = {}
    for each in launches:
        if each.pair not in found and tries(each.cell, each.deployed):
            found[each.pair] = why_unreached(site, each.cell, each.deployed, agent)
    return {pair: reason for pair, reason in found.items() if reason}


def tries(cell: Cell, up: Deployed) -> bool:
    """Return whether messages between a cell's hosts may be lost on a way that others have made."""
    mpi = MPIS.get(cell.environment.mpi)
    if mpi is None or mpi.is_fake or len(up.pods) < 2 or is_local(cell.environment.transport):
        return False
    as_it_is = cell.environment.network.startswith(PREFIX) or any(pod.node.is_machine for pod in up.pods)
    return as_it_is and not plugin_of(cell.workload).runs_on_node


def why_unreached(site: Site, cell: Cell, up: Deployed, agent: Path) -> str:
    """Return why small and large messages between hosts do not arrive, "" if they do, or their launch fails.

    A launch that hangs without a sign of lost packets is tried again: it may have hung for another reason.
    """
    limit_s = min(QUESTION.time_limit_s, cell.workload.time_limit_s)
    launch = job.make_launch(site, replace(cell, workload=QUESTION), up)
    command = job.command_of(site, up, launch, agent, name="messages")
    reason = ""
    for _ in range(TRIES):
        before = up.counters()
        if not job.started(site, command, timeout_s=limit_s).timed_out:
            up.end_left()
            return ""
        counted = monitor.counters(before, up.counters())
        up.end_left()
        reason = lost_on_the_way(counted, limit_s, min(pod.endpoint.mtu for pod in up.pods))
        if any(counted.get(name) for name in LOST):
            break
    return reason


def lost_on_the_way(counted: Mapping[str, float], limit_s: float, mtu: int) -> str:
    """Return what happens to messages of a launch that only sends some and hangs, as its counters tell. Pure."""
    unanswered, again = (counted.get(name, 0.0) for name in LOST)
    hung = f"before the launches, messages between its hosts did not arrive within {limit_s:g} s"
    if unanswered:
        return (
            f"{hung}: TCP connections are not established ({unanswered:.0f} tries without an answer); open its ports "
            "and addresses on the way (a firewall, a network policy)"
        )
    if again:
        return (
            f"{hung}: TCP connections are established, but larger packets are lost ({again:.0f} sent again); give its "
            f"network an MTU that the way carries: it is {mtu} now"
        )
    return hung


def asks(cell: Cell, up: Deployed) -> bool:
    """Return whether the library has to be asked; a launch without ranks has none.

    It is not asked on a single host, nor if the settings name everything and counters verify it. An MPI that is left as
    it is is always asked.
    """
    if plugin_of(cell.workload).runs_on_node:
        return False
    mpi = MPIS.get(cell.environment.mpi)
    if mpi is not None and not mpi.pins:
        return cell.placement.ranks > 1
    if mpi is None or len(up.pods) < 2 or is_local(cell.environment.transport):
        return False
    return bool(mpi.ways) and bool(way_of(mpi.ways, cell.environment.transport, mpi.name).tells)


def ask(site: Site, cell: Cell, up: Deployed, agent: Path) -> ChosenTransports:
    """Return the transport that the library selected in an environment that is up, or why it is not known."""
    environment = cell.environment
    asking = replace(cell, workload=QUESTION)
    launch = job.make_launch(site, asking, up, asks=True)
    command = job.command_of(site, up, launch, agent, name="question")
    result = job.started(site, command, timeout_s=QUESTION.time_limit_s)
    library = way_of(MPIS[environment.mpi].ways, environment.transport, environment.mpi).tells
    if not MPIS[environment.mpi].pins:
        return by_rank(library, result.stdout + result.stderr)
    if result.status != 0:
        said = " ".join(result.stderr_tail.split())[-SHOWN:] or "it wrote nothing to stderr"
        why = f"asked what it took, the MPI ended with status {result.status}: {said}"
        return ChosenTransports(library=library, reason=why)
    port = needs_port(environment.transport, environment.devices)
    return judged(environment.transport, library, result.stdout + result.stderr, port=port)
