"""Run one launch to its end, judge its output, and check the proof of its treatment."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.clusters import Site
from tare.model import Cell, Completed, Environment, Failed, Invalid, Outcome, Placement, Workload
from tare.model.trial import ENDED_EARLY, NOT_ENDED
from tare.networks.wiring.transports import CHOSEN_BY_MPI
from tare.run import proof
from tare.run.deploy.hosts import Deployed
from tare.run.job import ROOT, LaunchCommand, as_bound, started
from tare.run.on_node import run_commands
from tare.run.symptoms import recognised
from tare.run.transport_log import ChosenTransports
from tare.runtimes import RUNTIMES
from tare.system.counters.monitor import Observed
from tare.system.node import stragglers
from tare.system.process import FLOODED, Result
from tare.workloads import LaunchTiming, Parsed, plugin_of
from tare.workloads.failure_reasons import printed_last, reason_said, said_meanwhile
from tare.workloads.gate import why_not_within
from tare.workloads.output import OutputError
from tare.workloads.parts import has_records

NO_MPI: Final = (
    "it ended well, but without MPI_Init and MPI_Finalize: it is not an MPI program, its MPI is linked statically, "
    "it started the MPI program as a job of its own, or in an empty environment"
)
Pair = tuple[Environment, Placement]
OWN_CHOICE: Final = "treatment not proven: the MPI chose what its messages use"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyCell:
    """A cell's launch, prepared once a round: its command, and the start-up time of its pods.

    `chosen` is the transport that the MPI library reported, if it was asked.
    """

    cell: Cell
    deployed: Deployed
    command: LaunchCommand
    pods_s: float
    chosen: ChosenTransports | None = None

    @property
    def pair(self) -> Pair:
        """Return the environment and placement, which cells launched in the same pods have in common."""
        return self.cell.environment, self.cell.placement

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command line of the launch."""
        return self.command.argv

    def with_argv(self, argv: tuple[str, ...]) -> ReadyCell:
        """Return the same launch with another command line."""
        return replace(self, command=replace(self.command, argv=argv))


def run_launch(
    ready: ReadyCell,
    padding: int,
    site: Site,
    *,
    key: str = "",
    stop: socket.socket | None = None,
    its_own: Callable[[], Collection[int]] | None = None,
) -> Result:
    """Run a launch to its end or its time limit. With `stop`, the caller enforces the limit and ends it through `stop`.

    `key` is that of its records, by default a new one. `its_own` returns the launch's processes, for when other
    launches are started while it runs.
    """
    if plugin_of(ready.cell.workload).runs_on_node:
        return run_commands(site, ready.deployed, ready.cell.workload)
    before = stragglers.named(site.pids())
    with ready.deployed.preferred(ready.cell.placement.cpu_weight):
        return started(
            site,
            ready.command,
            timeout_s=ready.cell.workload.time_limit_s if stop is None else None,
            padding=padding,
            key=key,
            cwd=None if ready.cell.workload.command else ROOT,
            stdin=Path(ready.cell.workload.input) if ready.cell.workload.input else None,
            at_limit=lambda: stragglers.told(stragglers.since(site.pids(), before) if its_own is None else its_own()),
            stop=stop,
        )


def judge(ready: ReadyCell, result: Result, observed: Observed) -> tuple[Outcome, Parsed | None]:
    """Return the outcome of a launch and its parsed output."""
    limit = ready.cell.workload.time_limit_s
    if result.timed_out:
        names, _, each = result.at_limit.partition("\n")
        still = f"; still running were {names}" if names else ""
        known = said_meanwhile(result.stderr, result.stdout), recognised(result.stderr, hung=True)
        reason = f"{NOT_ENDED} of {limit:g} s{still}{_in_turn(*known)}"
        return Failed(reason=reason, stderr_tail=f"{_tail(result)}\n{each}".strip()), None
    if result.flooded:
        return Failed(reason=f"it {FLOODED}", status=result.status, stderr_tail=result.stderr_tail), None
    try:
        began = LaunchTiming(launched_s=result.began_s, ended_s=result.began_s + result.elapsed_s, pods_s=ready.pods_s)
        parsed = plugin_of(ready.cell.workload).parse(ready.cell.workload, result.stdout, began)
    except OutputError as error:
        reason = _why_ended(result) if result.status else unread(ready.cell.workload, result)
        reason = reason or f"{error}{_said(result)}"
        return Failed(reason=reason, status=result.status, stderr_tail=_tail(result)), None
    if not RUNTIMES[ready.cell.environment.runtime].is_fake:
        pods_s = ready.pods_s if ready.cell.workload.startup is not None else 0.0  # it is part of a start-up
        if why := why_not_within(parsed, result.elapsed_s + pods_s):
            return Failed(reason=why, status=result.status, stderr_tail=_tail(result)), None
    if parsed.wrong:
        return Failed(
            reason=f"wrong data in {', '.join(parsed.wrong)}", status=result.status, stderr_tail=_tail(result)
        ), parsed
    if result.status != 0:
        return Failed(reason=_why_ended(result), status=result.status, stderr_tail=_tail(result)), parsed
    untreated_because = untreated(ready, parsed, observed)
    if untreated_because:
        return Invalid(reason=untreated_because), parsed
    return Completed(metrics=parsed.metrics, figures=parsed.figures), parsed


def _why_ended(result: Result) -> str:
    return f"it ended with status {result.status}{_said(result)}"


def _said(result: Result) -> str:
    """Return what a launch that failed said of the reason, and what is known of such a reason."""
    return _in_turn(reason_said(result.stderr, result.stdout), recognised(result.stderr))


def _in_turn(*words: str) -> str:
    return "".join(f": {each}" for each in words if each)


def _tail(result: Result) -> str:
    """Return the ends of what a launch that failed wrote to standard error and to standard output."""
    printed = printed_last(result.stdout)
    return f"{result.stderr_tail}\nstandard output ends in:\n{printed}".strip() if printed else result.stderr_tail


def unread(workload: Workload, result: Result) -> str:
    """Return why a third-party program that succeeded wrote no tare record, or "" if it wrote one."""
    if not (workload.command or workload.program) or has_records(result.stdout):
        return ""
    known = recognised(result.stderr)
    return f"{ENDED_EARLY}: {known}" if known else NO_MPI


def untreated(ready: ReadyCell, parsed: Parsed, observed: Observed) -> str | None:
    """Return why the treatment is refuted, or None."""
    if parsed.refuted is not None:
        return parsed.refuted or None
    environment = ready.cell.environment
    placement = as_bound(environment, ready.cell.placement)
    nodes = [pod.node for pod in ready.deployed.pods]
    if RUNTIMES[environment.runtime].is_fake:
        return None
    return (
        (ready.chosen.reason if ready.chosen else None)
        or proof.check_places(parsed.ranks, placement, nodes=nodes)
        or proof.check_transport(parsed.ranks)
        or (None if environment.transport == CHOSEN_BY_MPI else other_path(ready, parsed, observed))
    )


def other_path(ready: ReadyCell, parsed: Parsed, observed: Observed) -> str | None:
    """Return why the traffic did not take the network that the cell claims, or None."""
    mtu = max((pod.endpoint.mtu for pod in ready.deployed.pods if observed.resent), default=0)
    return proof.check_traffic(
        observed.traffic,
        parsed.payload,
        said_bytes=observed.said_bytes,
        ranks=ready.cell.placement.ranks,
        resent_bytes=observed.resent * (mtu + proof.HEADER_BYTES),
        shared=ready.deployed.shares_nics,
        unread=observed.unread,
    )


def proof_gaps(ready: ReadyCell, outcome: Outcome, parsed: Parsed | None, observed: Observed) -> tuple[str, str]:
    """Return what of a completed launch's treatment is not proven, and what is proven only in part ("": nothing)."""
    if parsed is None or not isinstance(outcome, Completed) or RUNTIMES[ready.cell.environment.runtime].is_fake:
        return "", ""
    if parsed.refuted is not None:
        return "", ""
    unproven = proof.state_unproven(observed.unread)
    if ready.cell.environment.transport == CHOSEN_BY_MPI:
        elsewhere = other_path(ready, parsed, observed)
        return (f"{OWN_CHOICE}: {elsewhere}" if elsewhere else unproven), ""
    shared = ready.deployed.shares_nics
    return unproven, proof.state_partly_proven(observed.traffic, parsed.payload, shared=shared, unread=observed.unread)


def startup(pods_s: float, active_s: float, parsed: Parsed | None) -> dict[str, float]:
    """Return the start-up times of a launch that was active for `active_s`; `pods_s` is that of its pods."""
    if parsed is None:
        return {"pods_s": pods_s}
    launch_s = max(0.0, active_s - parsed.measured_s)
    return {"pods_s": pods_s, "mpi_init_s": parsed.init_s, "launch_s": launch_s}
