"""Find the cgroups of the jobs in a pod, and the first processes of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tare.runtimes import RUNTIMES
from tare.runtimes.containers.held_namespaces import job_group
from tare.system.node import Pod
from tare.system.node.cgroups import Group


def groups_of(pod: Pod) -> Iterator[tuple[Group, frozenset[int]]]:
    """Yield the cgroups in which a job's processes on a host can be, each with the processes that keep the pod up."""
    yield pod.group, pod.keepers
    if pod.containers:
        yield job_group(pod.node), frozenset()
    yield from ((each.group, each.keepers) for each in pod.containers if each.group is not None)


def held_containers(pods: Iterable[Pod]) -> list[int]:
    """Return the first process of each container that is held and entered."""
    held = [pod for pod in pods if RUNTIMES[pod.runtime].holds_containers]
    return [pid for pod in held for pid in (pod.pid, *(each.pid for each in pod.containers))]


def limited_groups(pod: Pod) -> Iterator[tuple[str, Group]]:
    """Yield the cgroup of each container of a host, in order of its ranks, with a name for messages.

    Containers without a cgroup of their own are in the group of all jobs of their node, which is then the only one.
    """
    named = [(each.name, each.group) for each in pod.containers if each.group is not None]
    for name, group in named:
        yield f"container {name} on node {pod.node.name}", group
    if pod.containers and not named:
        yield f"the jobs on node {pod.node.name}", job_group(pod.node)
    if not pod.containers:
        what = f"container {pod.container or pod.name}" if RUNTIMES[pod.runtime].makes_containers else "the ranks"
        yield f"{what} on node {pod.node.name}", pod.group
