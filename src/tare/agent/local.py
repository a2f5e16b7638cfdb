"""Serve a node that this process can reach itself: this machine, or a node of a lab on it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tare.agent import upkeep
from tare.agent.facts import facts_of
from tare.agent.geometry import environment_on
from tare.agent.left_by_launch import LeftByLaunches, keepers_of
from tare.agent.pod_cgroups import groups_of
from tare.agent.pods import Connect, PodBuilder, ssh_host
from tare.agent.protocol import DescribedPods, LeftBehind, Phase
from tare.daemons import docker, ssh
from tare.errors import TareError
from tare.networks import Network, find
from tare.runtimes.containers.deployment import Deployment
from tare.system.counters.raw_readings import RawReading
from tare.system.counters.reader import Reader
from tare.system.counters.sources import Sources
from tare.system.counters.state import read_state
from tare.system.counters.values import HostWatch
from tare.system.node import Node, Pod, Wired, limits, marked_processes
from tare.system.node.allowed import read_allowed
from tare.system.node.surroundings import NodeHas, read_node


@dataclass(slots=True, kw_only=True)
class _DeploymentOnNode:
    """What a node holds of a deployment, by phase."""

    order: Deployment
    node: Node
    network: Network
    stacks: dict[Phase, ExitStack] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    reader: Reader | None = None
    state: tuple[Mapping[str, str], ...] = ()

    def open_reader(self, shared: Sources, machine: Sources | None) -> Reader:
        """Return what reads the counters of its hosts; deployments of the node share `shared`, its nodes `machine`."""
        if self.reader is None:
            self.reader = Reader(tuple(map(watch_of, self.pods)), self.network.counted, shared, machine)
        return self.reader

    def close_reader(self) -> None:
        """Close the files that keep the pods' namespaces."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def stack(self, phase: Phase) -> ExitStack:
        """Return the stack of a phase that begins."""
        return self.stacks.setdefault(phase, ExitStack())


class LocalNode:
    """A `NodeService` in this process. `folder` is the run's; `connect` connects a pod to the control network.

    `machine` reads what is counted for the whole machine. Its nodes may share it; its owner closes it.
    """

    give_up = None

    def __init__(self, node: Node, folder: Path, connect: Connect, machine: Sources | None = None) -> None:
        self.node = node
        self._folder = folder
        self._connect = connect
        self._deployments: dict[str, _DeploymentOnNode] = {}
        self._surroundings: NodeHas | None = None
        self._counted = Sources()
        self._left = LeftByLaunches(node=node, folder=folder)
        self._machine = machine

    def import_image(self, tag: str, archive: Path) -> None:
        docker.import_image(self.node, archive, tag)

    # --- phases ---------------------------------------------------------------------------------------------------

    def prepare(self, order: Deployment) -> None:
        self._surroundings = None
        node = next((each for each in order.nodes if each.name == self.node.name), self.node)
        order = replace(order, environment=environment_on(order, node))
        network = find(order.environment.network)
        deployment = self._deployments[order.study] = _DeploymentOnNode(order=order, node=node, network=network)
        stack = deployment.stack(Phase.PREPARED)
        stack.enter_context(network.prepare(node, order.nodes, order.study))

    def share(self, study: str) -> None:
        deployment = self._deployments[study]
        stack = deployment.stack(Phase.SHARED)
        stack.enter_context(deployment.network.share(deployment.order.nodes, study))

    def deploy(self, study: str) -> tuple[Pod, ...]:
        deployment = self._deployments[study]
        maker = PodBuilder(
            node=deployment.node,
            folder=self._folder,
            connect=self._connect,
            order=deployment.order,
            network=deployment.network,
        )
        deployment.pods = maker.make(deployment.stack(Phase.DEPLOYED))
        return deployment.pods

    def join(self, study: str, pods: Sequence[Wired]) -> tuple[Pod, ...]:
        deployment = self._deployments[study]
        stack = deployment.stack(Phase.JOINED)
        endpoints = stack.enter_context(deployment.network.join(deployment.node, pods))
        pairs = zip(deployment.pods, endpoints, strict=True)
        deployment.pods = tuple(replace(pod, endpoint=endpoint) for pod, endpoint in pairs)
        if deployment.order.files.sshd:
            deployment.pods = stack.enter_context(_listening(deployment.pods, deployment.order))
        self._left.keep(tuple(self._every_pod()))
        return deployment.pods

    def leave(self, study: str, phase: Phase) -> None:
        deployment = self._deployments.get(study)
        if deployment is None:
            return
        deployment.close_reader()
        stack = deployment.stacks.pop(phase, None)
        try:
            if stack is not None:
                stack.close()
        finally:
            if not deployment.stacks:
                del self._deployments[study]
            if not self._deployments:
                self._counted.close()

    def leave_all(self) -> None:
        """Undo every phase of every deployment, in reverse; an error in one does not keep the others."""
        for study in tuple(self._deployments):
            for phase in reversed(Phase):
                with suppress(TareError, OSError):
                    self.leave(study, phase)

    # --- while it is up -------------------------------------------------------------------------------------------

    def wait_until_ready(self, study: str) -> None:
        upkeep.wait_for_carriers(self._pods(study))
        self._left.keep(tuple(self._every_pod()))

    def prefer(self, weight: int) -> None:
        limits.prefer(self.node.group, weight)

    def counters(
        self, study: str, whole: bool = True, machine: bool = True, moment: int = 0, since: int = 0
    ) -> RawReading:
        deployment = self._deployments[study]
        job_s = upkeep.usage_s(deployment.pods, self._folder) if self.node.is_machine else None
        reader = deployment.reader or deployment.open_reader(self._counted, self._machine)
        return reader.take(job_s=job_s, whole=whole, machine=machine, moment=moment, since=since)

    def described(self, study: str) -> DescribedPods:
        deployment = self._deployments[study]
        if not deployment.state:
            deployment.state = tuple(map(state_of, deployment.pods))
        if self._surroundings is None:
            self._surroundings = read_node(os.getpid() if self.node.is_machine else self.node.pid)
        return DescribedPods(state=deployment.state, limits=upkeep.limits_of(deployment.pods), node=self._surroundings)

    def ended(self, study: str) -> str | None:
        return upkeep.ended(self._pods(study))

    def end_left(self, study: str) -> LeftBehind:
        pods = self._pods(study)
        return LeftBehind(
            processes=self._left.end(pods, keepers_of(tuple(self._every_pod()))),
            memory_hit=self._left.memory_hit(pods),
        )

    def signal(self, number: int, programs: Collection[str], key: str = "") -> int:
        pids = marked_processes.pids_of_launches(self._folder) if self.node.is_machine else self.node.group.pids()
        return upkeep.signal_programs(pids, number, programs, key)

    def facts(self) -> Mapping[str, Any]:
        return facts_of(self.node)

    def _pods(self, study: str) -> tuple[Pod, ...]:
        return self._deployments[study].pods

    def _every_pod(self) -> Iterator[Pod]:
        for deployment in tuple(self._deployments.values()):
            yield from deployment.pods


@contextmanager
def _listening(pods: Sequence[Pod], order: Deployment) -> Iterator[tuple[Pod, ...]]:
    """Keep an sshd in each pod; yield the pods with its port, and with its processes, which are not a job's."""
    keys = Path(order.files.sshd).parent
    hosts = [
        replace(host, port=ssh.port_of(host.pod, host.address, keys, order.environment.ssh_port))
        for host in (ssh_host(pod, order.environment) for pod in pods)
    ]
    with ssh.listening(hosts, keys) as daemons:
        yield tuple(
            replace(pod, ssh_port=host.port, keepers=pod.keepers | pids)
            for pod, host, pids in zip(pods, hosts, daemons, strict=True)
        )


def watch_of(pod: Pod) -> HostWatch:
    """Return what is watched of a host."""
    return HostWatch(
        node=pod.node,
        pid=pod.pid,
        watches=pod.endpoint.watches,
        host=pod.host,
        groups=tuple(dict.fromkeys(group for group, _ in groups_of(pod))),
    )


def state_of(pod: Pod) -> Mapping[str, str]:
    """Return the facts of a host's data interface and of its first container; its network states others itself."""
    endpoint = pod.endpoint
    if not pod.pid and not pod.node.is_machine:
        return {}
    pid = next((each.pid for each in pod.containers if each.pid), pod.pid)
    folders = (folder for group, _ in reversed(tuple(groups_of(pod))) for folder in group.folders)
    allowed = read_allowed(pid, folders, "" if pod.node.is_machine else os.getcwd()) if pid else {}
    return read_state(pod.pid, endpoint.interface, pod.node.pid) | allowed
