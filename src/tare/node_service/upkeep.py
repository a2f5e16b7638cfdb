"""Look after a deployment's pods on one node: what has ended, what hit a limit, what remains of a failed launch."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.host.namespaces import command_line, processes_beside, runs
from tare.host.process import run
from tare.node import limits, marked
from tare.node_service.sides import Side, groups_of, limited_groups
from tare.runtimes import RUNTIMES
from tare.wiring.plug import wait_until_running

END_ALL: Final = (
    "for entry in /proc/[0-9]*; do pid=${entry#/proc/}; "
    'read -r words < "$entry/stat" 2> /dev/null || continue; '
    'case $pid:$words in 1:*|$$:*|*"(sleep) "*) ;; *) kill -KILL "$pid" 2> /dev/null ;; esac; done'
)
"""Kills all processes of a container but its init and the program that keeps it up."""


def wait_for_carriers(sides: Iterable[Side]) -> None:
    """Wait until the data interfaces of all pods are running; those of a machine itself are."""
    made = [side for side in sides if side.pod.pid and not side.pod.node.is_machine]
    for pid, interface in {(side.pod.pid, side.endpoint.interface) for side in made}:
        wait_until_running(pid, interface)


def ended(sides: Sequence[Side]) -> str | None:
    """Return which container or daemon has ended although it should be running, or None.

    Runtimes whose containers live only as long as a rank hold namespaces instead, or use the node itself if they need
    none.
    """
    for side in sides:
        pod = side.pod
        held = [(f"the container {pod.container}" if pod.container else f"what holds the pod {pod.name}", pod.pid)]
        held += [(f"the container {each.name}", each.pid) for each in side.containers]
        held += list(side.endpoint.daemons.items())
        for what, pid in held:
            if pid and not runs(pid):
                return f"{what} on {pod.node.name} has ended"
    return None


def keepers_of(sides: Iterable[Side]) -> frozenset[int]:
    """Return the processes that keep pods up, including their sshds."""
    return frozenset(pid for side in sides for _, keepers in groups_of(side) for pid in keepers)


def end_strays(sides: Iterable[Side], spare: Collection[int], run_folder: Path) -> None:
    """Kill what remains of a failed launch in pods: killing docker exec, for one, leaves its process running.

    `spare` are the processes that keep other deployments up: several of them on a node share a cgroup.
    """
    for side in sides:
        if side.pod.node.is_machine:
            marked.end_launches(run_folder, spare)
            _end_in_container(side)
            continue
        if not side.pod.group.hierarchies:
            for pid in processes_beside(side.pod.pid) if side.pod.pid else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            continue
        for group, keepers in groups_of(side):
            with suppress(InfrastructureError):
                group.kill(spare=keepers.union(spare))


def _end_in_container(side: Side) -> None:
    """Kill a launch's processes in the containers of a pod, which have process numbers of their own."""
    holds_containers = RUNTIMES[side.pod.runtime].holds_containers
    for enter in (side.pod.enter, *(each.enter for each in side.containers)) if holds_containers else ():
        if not enter:  # the service is in the pod itself
            continue
        run((*enter, "/bin/sh", "-c", END_ALL), check=False, timeout_s=20, what=f"ending processes in {side.pod.name}")


def usage_s(sides: Iterable[Side], run_folder: Path) -> float:
    """Return the CPU time of the jobs in pods on a machine, where they have no cgroup of the node's."""
    held = [
        pid
        for side in sides
        if RUNTIMES[side.pod.runtime].holds_containers
        for pid in (side.pod.pid, *(each.pid for each in side.containers))
    ]
    return marked.usage_s(run_folder) + sum(map(marked.container_usage_s, held))


def memory_kills(sides: Iterable[Side]) -> dict[str, int]:
    """Return for each container how many processes the kernel has killed for exceeding its memory limit."""
    return {what: limits.memory_kills(group) for side in sides for what, group in limited_groups(side)}


def memory_hit(sides: Iterable[Side], before: Mapping[str, int]) -> str | None:
    """Return a sentence that names the container that has hit its memory limit since `before`, or None."""
    for side in sides:
        for what, group in limited_groups(side):
            if limits.memory_kills(group) > before.get(what, 0):
                return limits.memory_hit(what, group)
    return None


def limits_of(sides: Iterable[Side]) -> tuple[tuple[str, ...], ...]:
    """Return the limits of the containers of each host (`tare.node.limits.stated`)."""
    return tuple(tuple(limits.stated(group) for _, group in limited_groups(side)) for side in sides)


def signal_programs(side: Side, names: Collection[str], number: int, run_folder: Path) -> bool:
    """Send a signal to the programs of these names in a pod, because `docker exec` forwards none; return if any ran."""
    is_machine = side.pod.node.is_machine
    started = marked.pids_of_launches(run_folder) if is_machine else side.pod.group.pids()
    pids = [pid for pid in started if Path(command_line(Path(f"/proc/{pid}"))[0]).name in names]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(pids)


def end_named(pids: Iterable[int], key: str) -> int:
    """Kill those processes whose command line contains a key; return how many there were."""
    found = [pid for pid in pids if key in " ".join(command_line(Path(f"/proc/{pid}")))]
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)
