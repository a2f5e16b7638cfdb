"""Be a node of a Kubernetes on the head: make its pods, and pass what is asked to the services in them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tare.agent.protocol import DescribedPods, LeftBehind, Phase
from tare.agent.remote import answers
from tare.agent.remote.conversation import Unreachable
from tare.agent.remote.timing import AGAIN_S, PAUSE_S
from tare.clusters.pods import manifests
from tare.clusters.pods.cluster_description import TUNNELS, ServiceView
from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.mpi_jobs.counts import JobCounts
from tare.clusters.pods.mpi_jobs.script import WorkerCounts
from tare.clusters.pods.pod_networks import on_node
from tare.clusters.pods.pod_service import PodService, key_of
from tare.clusters.pods.pod_specs import PodDefaults, common_network
from tare.clusters.pods.pods import Pods
from tare.clusters.pods.session import ExecPool, PodContainer
from tare.errors import InfrastructureError, RefusedError, TareError
from tare.model import Launching, Placement
from tare.runtimes.containers.deployment import Deployment
from tare.system.counters.interfaces import Counts, interface_counters
from tare.system.counters.raw_readings import ParsedReading
from tare.system.counters.values import Moment, merged
from tare.system.node import Node, Pod, Watch, Wired
from tare.system.node.surroundings import NodeHas

GONE: Final = (
    "its pods and its namespace are left there (not verified), for the next run or `tare clean`; "
    "when the server answers again, run the same command to resume"
)
MOST_AT_ONCE: Final = 16
SHELLS: Final = 2
"""How many shells wait in a pod's first container: that of a job's first pod starts its launcher and a daemon."""


@dataclass(slots=True, kw_only=True)
class _DeploymentInPods:
    """What a node has of a deployment: what was ordered, its pods, and the services in those that are up.

    `passes` are the node's own interfaces that the messages of its pod pass.
    """

    order: Deployment
    specs: tuple[PodSpec, ...]
    changed: tuple[str, ...] = ()
    services: list[PodService] = field(default_factory=list)
    passes: tuple[Watch, ...] = ()
    jobs: JobCounts = field(default_factory=JobCounts)

    @property
    def names(self) -> list[str]:
        return [spec.name for spec in self.specs]


class KubernetesNode:
    """A `NodeService` for a node of a Kubernetes, `node.machine` there; in a lab that is its `lab_node`."""

    give_up = None

    def __init__(
        self,
        node: Node,
        making: PodDefaults,
        pods: Pods,
        gate: ExecServer,
        data_address: str,
        lab_node: Node | None = None,
    ) -> None:
        self.node = node
        self._making = making
        self._pods = pods
        self._gate = gate
        self._data_address = data_address
        self._lab_node = lab_node
        self._deployments: dict[str, _DeploymentInPods] = {}

    def renew(self) -> None:
        """Tell all services that the head is there."""
        for deployment in tuple(self._deployments.values()):
            for service in tuple(deployment.services):
                service.renew()

    def seen(self) -> tuple[ServiceView, ...]:
        """Return what the services on this node see of the interfaces of pods and node."""
        return tuple(each.seen for every in self._deployments.values() for each in every.services)

    # --- phases ---------------------------------------------------------------------------------------------------

    def prepare(self, order: Deployment) -> None:
        specs = self._making.pods(order, self.node.name, self.node.machine)
        self._be_reachable()
        deployment = self._deployments[order.study] = _DeploymentInPods(order=order, specs=specs)
        changed = [difference for spec in specs for difference in self._pods.create(spec)]
        deployment.changed = tuple(dict.fromkeys(changed))

    def _be_reachable(self) -> None:
        """Wait for the API server; raise `Unreachable` if it does not answer for `AGAIN_S`."""
        until = time.monotonic() + AGAIN_S
        while True:
            try:
                self._pods.listed()
                return
            except Unreachable as lost:
                if time.monotonic() > until:
                    raise Unreachable(lost.message, remedy=GONE) from lost
                time.sleep(PAUSE_S)

    def share(self, study: str) -> None:
        pass  # the cluster has made what nodes share

    def deploy(self, study: str) -> tuple[Pod, ...]:
        deployment = self._deployments[study]
        objects = self._pods.wait(deployment.names)
        for number, spec in enumerate(deployment.specs):
            for container in (*spec.of_ranks, manifests.NODE):
                place = PodContainer(namespace=spec.namespace, pod=spec.name, name=container)
                self._gate.add(key_of(spec.name, container), ExecPool(self._pods.api, place))
            self._gate.prepare(shells(spec, deployment.order.placement))
            deployment.services.append(
                PodService(
                    node=self.node, number=number, spec=spec, gate=self._gate, pods=self._pods,
                    folder=self._making.folder,
                )
            )  # fmt: skip

        def begin(service: PodService) -> None:
            pod = objects[service.spec.name]
            service.begin(self._making.site, deployment.order, pod, self._data_address)

        with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
            list(pool.map(begin, deployment.services))
        if deployment.services and deployment.services[0].takes_cluster_network:
            deployment.passes = self._passes(deployment)
            deployment.services[0].watch(deployment.passes)
        if deployment.order.environment.launch is Launching.MPIJOB:
            deployment.jobs = JobCounts.of([service.pod for service in deployment.services])
        facts = {"changed by the cluster": "; ".join(deployment.changed)} if deployment.changed else {}
        if not deployment.services[0].spec.host_network:
            facts |= on_node.named(deployment.order.environment.runtime_class, self._making.titles)
        return tuple(service.with_facts(facts | service.facts) for service in deployment.services)

    def join(self, study: str, pods: Sequence[Wired]) -> tuple[Pod, ...]:
        prefix = common_network([each.endpoint.address for each in pods])
        own = self._deployments[study].services
        for service in own:
            if service.spec.host_network is False and service.is_alone_in(prefix):
                service.pod = replace(service.pod, endpoint=replace(service.pod.endpoint, prefix=prefix.prefixlen))
        return tuple(service.pod for service in own)

    def leave(self, study: str, phase: Phase) -> None:
        deployment = self._deployments.get(study)
        if deployment is None:
            return
        if phase is Phase.DEPLOYED:
            for service in deployment.services:
                service.close()
            deployment.services.clear()
            for spec in deployment.specs:
                for container in (*spec.of_ranks, manifests.NODE):
                    self._gate.remove(key_of(spec.name, container))
        if phase is Phase.PREPARED:
            del self._deployments[study]
            with suppress(Unreachable):  # they end with their namespace
                self._pods.remove(deployment.names)

    # --- its jobs, where each launch is one -----------------------------------------------------------------------

    def order(self, study: str) -> Deployment:
        """Return what was ordered of a deployment."""
        return self._deployments[study].order

    def specs(self, study: str) -> tuple[PodSpec, ...]:
        """Return the pods of a deployment."""
        return self._deployments[study].specs

    def count(self, study: str, counted: Mapping[str, WorkerCounts]) -> None:
        """Add what the workers of a job have counted to what the deployment's pods count, by the names of hosts."""
        deployment = self._deployments[study]
        deployment.jobs = deployment.jobs.plus([service.pod for service in deployment.services], counted)

    # --- while it is up -------------------------------------------------------------------------------------------

    def wait_until_ready(self, study: str) -> None:
        for each in self._services(study):
            each.ask("wait_until_ready", study)

    def prefer(self, weight: int) -> None:
        if weight:
            raise RefusedError("no weight can be set for pods of a Kubernetes: leave cpu_weight out")

    def counters(
        self, study: str, whole: bool = True, machine: bool = True, moment: int = 0, since: int = 0
    ) -> ParsedReading:
        """Return the counters of the node's pods; commands that wait for the next launch are opened meanwhile."""
        self._gate.settle()
        read = [
            service.counters(study, whole, machine and number == 0, moment, since)
            for number, service in enumerate(self._deployments[study].services)
        ]
        deployment = self._deployments[study]
        # the nodes of a lab are one machine, whose CPU times count once
        timed = self.node.machine if self._lab_node is None else ""
        values = replace(merged(read, Moment(tare_s=0.0)), machine=timed)
        if deployment.passes:
            counted = on_node.counted(deployment.passes, self._interfaces())
            found = {(self.node.machine, on_node.OF_NODE, name): counts for name, counts in counted.items()}
            values = replace(values, interfaces={**values.interfaces, **found})
        for spec in deployment.specs:
            self._gate.prepare(shells(spec, deployment.order.placement))
        values, deployment.jobs = deployment.jobs.added_to(values), deployment.jobs.settled()
        return ParsedReading(values)

    def described(self, study: str) -> DescribedPods:
        """Describe the pods, and of the node its network, which a pod on the node's network tells."""
        pods = [service.described() for service in self._services(study)]
        there = self._on_node()
        return DescribedPods(
            state=tuple(own for each in pods for own in each.state),
            limits=tuple(own for each in pods for own in each.limits),
            node=NodeHas() if there is None else there.network,
        )

    def ended(self, study: str) -> str | None:
        return next((reason for service in self._services(study) if (reason := service.ended(study))), None)

    def end_left(self, study: str) -> LeftBehind:
        of_pods: list[LeftBehind] = [each.ask("end_left", study) for each in self._services(study)]
        return LeftBehind(
            processes=sum((Counter(each.processes) for each in of_pods), Counter[str]()),
            memory_hit=next((each.memory_hit for each in of_pods if each.memory_hit), ""),
        )

    def signal(self, number: int, programs: Collection[str], key: str = "") -> int:
        found = 0
        for each in (each for study in self._deployments for each in self._services(study)):
            with suppress(Unreachable):  # nothing runs in a pod that is gone, and the others are signalled all the same
                found += each.ask("signal", int(number), frozenset(programs), key)
        return found

    def _passes(self, deployment: _DeploymentInPods) -> tuple[Watch, ...]:
        """Return the watches on the node's own interfaces, where they can be seen."""
        there = self._on_node()
        if self._lab_node is not None:
            nic, tunnels = self._lab_node.nics[0].name, []
        elif there is not None:
            nic, tunnels = there.seen.interface, [each.name for each in there.seen.others if each.kind in TUNNELS]
        else:
            return ()
        runtime_class, alone = deployment.order.environment.runtime_class, len(deployment.services) == 1
        return on_node.watched(nic, tunnels, runtime_class, self._making.devices, alone=alone)

    def _interfaces(self) -> Mapping[str, Counts]:
        """Return the counters of the node's own interfaces, where they can be seen."""
        if self._lab_node is not None:
            return interface_counters(self._lab_node.pid)
        there = self._on_node()
        told = {} if there is None else there.ask("interfaces")
        return {name: (got, packets, sent, others) for name, (got, packets, sent, others) in told.items()}

    def _on_node(self) -> PodService | None:
        """Return the service in a pod that is on the node's own network, which sees the node's interfaces; or None."""
        every = (service for each in self._deployments.values() for service in each.services)
        return next((service for service in every if service.spec.host_network), None)

    def facts(self) -> Mapping[str, Any]:
        for deployment in self._deployments.values():
            for service in deployment.services:
                return answers.with_gpus(self.node, service.ask("facts"))
        return {"GPUs": ()}

    def import_image(self, tag: str, archive: Path) -> None:
        raise InfrastructureError("nodes of a Kubernetes pull their images")

    def close(self) -> None:
        """End all services; pods end with their namespace."""
        for deployment in self._deployments.values():
            for service in deployment.services:
                with suppress(TareError, OSError):
                    service.close()

    def _services(self, study: str) -> Iterator[PodService]:
        yield from self._deployments[study].services


def shells(spec: PodSpec, placement: Placement) -> dict[str, int]:
    """Return how many shells wait in each container of ranks: each rank of a further container is started in one."""
    first, *further = spec.of_ranks
    ranks = placement.ranks_per_node // placement.containers_per_node
    return {key_of(spec.name, first): SHELLS, **{key_of(spec.name, each): ranks for each in further}}
