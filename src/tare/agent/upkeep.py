"""Look after a deployment's pods on one node: what has ended, what hit a limit, which programs get a signal."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tare.agent.pod_cgroups import held_containers, limited_groups
from tare.networks.wiring.plug import wait_until_running
from tare.system.namespaces import command_line
from tare.system.node import Pod, limits, marked_processes
from tare.system.node.cgroups import Group
from tare.system.node.process_stat import runs


def wait_for_carriers(pods: Iterable[Pod]) -> None:
    """Wait until the data interfaces of all pods are running; those of a machine itself are."""
    made = [pod for pod in pods if pod.pid and not pod.node.is_machine]
    for pid, interface in {(pod.pid, pod.endpoint.interface) for pod in made}:
        wait_until_running(pid, interface)


def ended(pods: Sequence[Pod]) -> str | None:
    """Return which container or daemon has ended although it should be running, or None.

    Runtimes whose containers live only as long as a rank hold namespaces instead, or use the node itself if they need
    none.
    """
    for pod in pods:
        held = [(f"the container {pod.container}" if pod.container else f"what holds the pod {pod.name}", pod.pid)]
        held += [(f"the container {each.name}", each.pid) for each in pod.containers]
        held += list(pod.endpoint.daemons.items())
        for what, pid in held:
            if pid and not runs(pid):
                return f"{what} on {pod.node.name} has ended"
    return None


def usage_s(pods: Iterable[Pod], run_folder: Path) -> float:
    """Return the CPU time of the jobs in pods on a machine, where they have no cgroup of the node's."""
    return marked_processes.usage_s(run_folder) + sum(map(marked_processes.container_usage_s, held_containers(pods)))


def memory_kills(pods: Iterable[Pod]) -> dict[Group, int]:
    """Return for each container's cgroup how many processes the kernel has killed for exceeding its memory limit."""
    return {group: limits.memory_kills(group) for pod in pods for _, group in limited_groups(pod)}


def memory_hit(pods: Iterable[Pod], before: Mapping[Group, int]) -> str | None:
    """Return a sentence that names the container that has hit its memory limit since `before`, or None."""
    for pod in pods:
        for what, group in limited_groups(pod):
            if limits.memory_kills(group) > before.get(group, 0):
                return limits.memory_hit(what, group)
    return None


def limits_of(pods: Iterable[Pod]) -> tuple[tuple[str, ...], ...]:
    """Return the limits of the containers of each host (`tare.system.node.limits.stated`)."""
    return tuple(tuple(limits.stated(group) for _, group in limited_groups(pod)) for pod in pods)


def signal_programs(pids: Iterable[int], number: int, programs: Collection[str], key: str = "") -> int:
    """Send a signal to those processes that run one of the programs, or whose command line contains a key.

    Return how many there were.
    """
    found = 0
    for pid in pids:
        words = command_line(Path(f"/proc/{pid}"))
        if Path(words[0]).name in programs or (key and key in " ".join(words)):
            found += 1
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    return found
