"""Define one host of a deployed environment, and the cgroups of its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tare.daemons.ssh import SshHost
from tare.model import Control, Environment
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.client import Client
from tare.runtimes.containers.held_namespaces import job_group
from tare.system.node import Container, Endpoint, Pod
from tare.system.node.cgroups import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One host of a deployed environment: its pod, its endpoint, and the path of tare's programs inside.

    `containers` are those that the host's ranks enter; if there are none, the MPI's daemon runs in the pod's own
    container. `session` is the folder that they share with the daemon. `control` is the pod's address on the control
    network, `variables` is the daemon's environment, as `NAME=value`. `client` is how commands on the node call the
    runtime. `ssh_port` is that of the pod's sshd, 0 if there is none.
    """

    pod: Pod
    endpoint: Endpoint
    prefix: Path
    containers: tuple[Container, ...] = ()
    session: str = ""
    control: str = ""
    variables: tuple[str, ...] = ()
    client: Client = field(default_factory=Client)
    ssh_port: int = 0


def groups_of(side: Side) -> Iterator[tuple[Group, frozenset[int]]]:
    """Yield the cgroups in which a job's processes on a host can be, each with the processes that keep the pod up."""
    yield side.pod.group, side.pod.keepers
    if side.containers:
        yield job_group(side.pod.node), frozenset()
    yield from ((each.group, each.keepers) for each in side.containers if each.group is not None)


def ssh_host(side: Side, environment: Environment) -> SshHost:
    """Return how a deployed host is reached by ssh."""
    address = side.endpoint.address if environment.control is Control.DATA else side.control
    return SshHost(name=side.pod.host or side.pod.node.name, address=address, port=side.ssh_port, pod=side.pod)


def held_containers(sides: Iterable[Side]) -> list[int]:
    """Return the first process of each container that is held and entered."""
    held = [side for side in sides if RUNTIMES[side.pod.runtime].holds_containers]
    return [pid for side in held for pid in (side.pod.pid, *(each.pid for each in side.containers))]


def limited_groups(side: Side) -> Iterator[tuple[str, Group]]:
    """Yield the cgroup of each container of a host, in order of its ranks, with a name for messages.

    Containers without a cgroup of their own are in the group of all jobs of their node, which is then the only one.
    """
    pod = side.pod
    named = [(each.name, each.group) for each in side.containers if each.group is not None]
    for name, group in named:
        yield f"container {name} on node {pod.node.name}", group
    if side.containers and not named:
        yield f"the jobs on node {pod.node.name}", job_group(pod.node)
    if not side.containers:
        what = f"container {pod.container or pod.name}" if RUNTIMES[pod.runtime].makes_containers else "the ranks"
        yield f"{what} on node {pod.node.name}", pod.group
