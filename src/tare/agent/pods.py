"""Make the pods of a deployment on one node: namespaces or containers, their control network, their data network."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tare.agent.geometry import (
    as_launched,
    container_cores,
    enters_containers,
    host_name,
    nic_of_pod,
    pods_per_node,
)
from tare.agent.session_folder import session_folder, state_folder
from tare.daemons.ssh import SshHost
from tare.model import Control, Environment, Placement, Share
from tare.networks import Network
from tare.networks.wiring import infiniband, transports
from tare.networks.wiring.link import link_set, nic_set
from tare.networks.wiring.plug import Wiring
from tare.runtimes import RUNTIMES, PodRequest
from tare.runtimes.containers.deployment import Deployment
from tare.runtimes.containers.held_namespaces import job_group
from tare.runtimes.containers.request import SHARED_MEMORY
from tare.system.devices import given
from tare.system.node import Client, Container, Endpoint, Nic, Node, Pod
from tare.system.node.kernel_files import read_text
from tare.system.node.limits import Limits, limited, limits_of

Connect = Callable[[Pod, int], AbstractContextManager[str]]
"""Connects a pod to the control network; the number is the deployment's slot. Yields the pod's address there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBuilder:
    """Makes pods on a node. `folder` is the run's folder there."""

    node: Node
    folder: Path
    connect: Connect
    order: Deployment
    network: Network

    def make(self, stack: ExitStack) -> tuple[Pod, ...]:
        """Make the node's pods, one after the other; `stack` removes them."""
        order = self.order
        nic = stack.enter_context(nic_set(self.node, self.node.nics[order.nic], order.environment.link))
        stack.enter_context(self.network.on_node(self.node, nic))
        count = pods_per_node(order.environment, order.placement)
        return tuple(self._pod(stack, nic, number) for number in range(count))

    def _pod(self, stack: ExitStack, nic: Nic, number: int) -> Pod:
        order, node = self.order, self.node
        environment, placement, files = order.environment, order.placement, order.files
        runtime = RUNTIMES[environment.runtime]
        request = self._request(number)
        request = replace(request, state=stack.enter_context(state_folder(self.folder, order.slot, node, number)))
        if runtime.makes_containers and not runtime.by_cluster and enters_containers(environment, placement):
            session = session_folder(self.folder, order.slot, node, request.host)
            request = replace(request, session=stack.enter_context(session))
        pod = replace(stack.enter_context(runtime.pod(request)), number=number, host=request.host)
        pod = replace(pod, by=runtime.rights(pod))
        control = stack.enter_context(self.connect(pod, order.slot))
        own = nic_of_pod(nic, number, hosts=order.hosts)
        endpoint = stack.enter_context(self.network.attach(pod, own))
        endpoint = stack.enter_context(link_set(node, own, pod, endpoint, environment.link))
        containers: tuple[Container, ...] = ()
        if placement.share is Share.NONE and pods_per_node(environment, placement) > 1:
            # A node's NIC carries only traffic to other nodes; each pod's own interface proves the rest.
            endpoint = replace(endpoint, watches=tuple(watch for watch in endpoint.watches if watch.pid == pod.pid))
        elif enters_containers(environment, placement):
            several = as_launched(environment, placement)
            inner = replace(request, limits=limits_of(several))
            containers = stack.enter_context(runtime.containers(pod, inner, container_cores(several, node.places)))
            if containers:
                job_group(node).create()
        host_mpi = files.host_mpi_of(environment)
        return replace(
            pod,
            endpoint=_over_fabric(endpoint, environment, pod),
            prefix=files.prefix_in(environment),
            containers=containers,
            session=request.session,
            control=control,
            variables=host_mpi.environment if host_mpi else (),
            client=self._client(request),
        )

    def _client(self, request: PodRequest) -> Client:
        """Return how commands on the node call the runtime, with all words that they may name."""
        made = RUNTIMES[self.order.environment.runtime].client(request)
        network = self.network.name_in_docker(self.order.study)
        words = {"name": f"tare-{self.order.study}-own", **({"network": network} if network else {}), **made.words}
        return replace(made, words=words)

    def _request(self, number: int) -> PodRequest:
        order, node, network = self.order, self.node, self.network
        environment, placement = order.environment, order.placement
        limits, cores = _pod_has(environment, placement, node, number)
        host = host_name(node, number, pods_per_node(environment, placement))
        return PodRequest(
            deployment=order,
            node=node,
            host=host,
            wiring=network.wiring,
            network_options=network.container_options(node, order.study, number),
            cores=cores,
            devices=given(environment.devices),
            limits=limits,
            shared_memory=_shared_memory(node),
            names=() if network.wiring is Wiring.DOCKER else _names(node, host),
        )


def ssh_host(pod: Pod, environment: Environment) -> SshHost:
    """Return how a deployed host is reached by ssh."""
    address = pod.endpoint.address if environment.control is Control.DATA else pod.control
    return SshHost(name=pod.host or pod.node.name, address=address, port=pod.ssh_port, pod=pod)


def _shared_memory(node: Node) -> str:
    """Return the size of a node's /dev/shm, which containers get as well, as it is where no container is."""
    try:
        there = os.statvfs(f"/proc/{node.pid}/root/dev/shm")
    except OSError:
        return SHARED_MEMORY
    return f"{there.f_blocks * there.f_frsize >> 20}m"


def _names(node: Node, host: str) -> tuple[str, ...]:
    """Return the hosts that a lab's node knows, and the pod's own name; () on a machine, which tells its containers."""
    if node.is_machine:
        return ()
    lines = (line.split() for line in read_text(f"/proc/{node.pid}/root/etc/hosts").splitlines())
    named = {name: words[0] for words in lines for name in words[1:] if "localhost" not in words}
    return tuple(f"{name}:{address}" for name, address in {**named, host: node.control_address}.items())


def _over_fabric(endpoint: Endpoint, environment: Environment, pod: Pod) -> Endpoint:
    """Return the endpoint that the environment's transport uses: the data network's, or InfiniBand's."""
    if environment.transport == "ipoib":
        return infiniband.over_ipoib(endpoint, pod)
    if transports.needs_port(environment.transport, environment.devices):
        return infiniband.over_port(endpoint, environment.transport, pod)
    return endpoint


def _pod_has(
    environment: Environment, placement: Placement, node: Node, number: int
) -> tuple[Limits | None, tuple[int, ...]]:
    """Return the limits and the cores of a pod's own container.

    If containers in the pod have their own, the pod has no limits and the node's cores. A runtime that makes no
    containers gets the limits and cores of all containers of a node together.
    """
    makes_containers = RUNTIMES[environment.runtime].makes_containers
    if pods_per_node(environment, placement) > 1:
        return limits_of(placement), container_cores(placement, node.places)[number]
    if not limited(placement) or (makes_containers and enters_containers(environment, placement)):
        return None, node.cores
    every = container_cores(placement, node.places)
    together = limits_of(placement, containers=placement.containers_per_node)
    return together, tuple(sorted({core for own in every for core in own}))
