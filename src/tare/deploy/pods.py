"""Deploy an environment on the nodes of a site: pods, their network, their containers, and the hosts that MPI sees.

MPI sees each pod as a host. A node usually has one pod; with `share: none` each of its containers has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.cluster import Site
from tare.containers.held import job_group
from tare.deploy.hosts import Deployed
from tare.errors import RefusedError
from tare.host.devices import given
from tare.host.signals import uninterrupted
from tare.images.inside.variables import merged
from tare.model import Control, Environment, Launching, Placement, Share
from tare.mpi import MPIS
from tare.networks import Joining, Network, find
from tare.node import Container, Endpoint, Nic, Node, Pod, Wired
from tare.node.limits import Limits, limited, limits_of
from tare.node_service.geometry import (
    as_launched,
    bare_side,
    container_cores,
    enters_containers,
    is_inside,
    nic_of_pod,
    on_daemon_nodes,
    pods_per_node,
)
from tare.node_service.order import Files
from tare.node_service.session_folder import session_folder
from tare.node_service.sides import Side
from tare.runtimes import RUNTIMES, PodRequest
from tare.services import ssh
from tare.wiring import infiniband, transports
from tare.wiring.link import link_set, nic_set

IMAGE_PREFIX: Final = Path("/opt/tare")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The parts of a deployment that are the same for every pod."""

    site: Site
    environment: Environment
    network: Network
    placement: Placement
    slot: int
    nic: int
    files: Files

    @property
    def study(self) -> str:
        return f"{self.site.name}-{self.slot}"


@contextmanager
def deployed(
    site: Site, environment: Environment, placement: Placement, *, slot: int, nic: int, files: Files
) -> Iterator[Deployed]:
    """Keep the pods of an environment up on the first nodes of a site; `slot` is unique among environments."""
    keys = site.folder / f"ssh-{slot}" if environment.launch is Launching.SSH else None
    if keys is not None:
        files = replace(files, shown=(*files.shown, str(keys)))
    if environment.launch is Launching.HOST_MPI:
        files = _with_host_mpi(files)
    order = _Order(
        site=site,
        environment=environment,
        network=find(environment.network),
        placement=placement,
        slot=slot,
        nic=nic,
        files=files,
    )
    nodes = (site.daemon_nodes if on_daemon_nodes(environment) else site.nodes)[: placement.nodes]
    with ExitStack() as stack:
        if keys is not None:
            stack.enter_context(ssh.prepared(keys))
        if environment.link.mtu:
            stack.enter_context(site.carries(nic, environment.link.mtu))
        stack.enter_context(order.network.prepare(nodes, order.study))
        stacks = stack.enter_context(closed_together(len(nodes)))

        def one(node: Node) -> tuple[Side, ...]:
            if is_inside(environment.sides, node.index, len(nodes)):
                return _on_node(stacks[node.index], order, node)
            bare = replace(order, environment=bare_side(environment), network=find("host"))
            return _on_node(stacks[node.index], bare, site.nodes[node.index])

        with uninterrupted(), ThreadPoolExecutor(max_workers=min(4, len(nodes))) as pool:
            futures = [pool.submit(one, node) for node in nodes]
        sides = tuple(side for future in futures for side in future.result())
        if isinstance(order.network, Joining):
            wired = [Wired(pod=side.pod, nic=side.pod.node.nics[nic], endpoint=side.endpoint) for side in sides]
            endpoints = order.network.joined(wired)
            sides = tuple(replace(side, endpoint=each) for side, each in zip(sides, endpoints, strict=True))
        if keys is not None:
            sides = stack.enter_context(_reached_by_ssh(sides, environment, keys))
        launcher = MPIS[environment.mpi].inside if keys is not None and environment.image else ""
        if environment.launch is Launching.HOST_MPI and files.host_mpi is not None:
            launcher = str(files.host_mpi.launcher)
        yield Deployed(environment=environment, sides=sides, ssh=keys, launcher=launcher)


@contextmanager
def closed_together(count: int) -> Iterator[tuple[ExitStack, ...]]:
    """Yield stacks that are closed in parallel, so that no node's removal waits for another's."""
    stacks = tuple(ExitStack() for _ in range(count))
    try:
        yield stacks
    finally:
        with uninterrupted(), ThreadPoolExecutor(max_workers=min(4, count)) as pool:
            futures = [pool.submit(each.close) for each in stacks]
        for future in futures:
            future.result()


def _with_host_mpi(files: Files) -> Files:
    """Return the files with this machine's MPI made visible; the caller has checked that the image can run it."""
    if files.host_mpi is None or files.rootfs is None:
        raise RefusedError("launch: host-mpi needs an image and this machine's MPI")
    return replace(files, shown=(*files.shown, *files.host_mpi.shown))


@contextmanager
def _reached_by_ssh(sides: tuple[Side, ...], environment: Environment, keys: Path) -> Iterator[tuple[Side, ...]]:
    """Run an sshd in every pod; its processes belong to the pod and are not ended with a job."""
    over_data = environment.control is Control.DATA
    hosts = []
    for side in sides:
        address = side.endpoint.address if over_data else side.control
        port = ssh.port_of(side.pod, address, keys, environment.ssh_port)
        name = side.pod.host or side.pod.node.name
        hosts.append(ssh.SshHost(name=name, address=address, port=port, pod=side.pod))
    with ssh.listening(hosts, keys) as daemons:
        yield tuple(
            replace(side, pod=replace(side.pod, keepers=side.pod.keepers | pids))
            for side, pids in zip(sides, daemons, strict=True)
        )


def _on_node(stack: ExitStack, order: _Order, node: Node) -> tuple[Side, ...]:
    """Make the pods of one node, one after the other."""
    nic = stack.enter_context(nic_set(node, node.nics[order.nic], order.environment.link))
    stack.enter_context(order.network.on_node(node, nic))
    return tuple(
        _side(stack, order, node, nic, number) for number in range(pods_per_node(order.environment, order.placement))
    )


def _side(stack: ExitStack, order: _Order, node: Node, nic: Nic, number: int) -> Side:
    environment, placement, files = order.environment, order.placement, order.files
    network, runtime = order.network, RUNTIMES[environment.runtime]
    request = _request(order, node, number)
    if runtime.makes_containers and enters_containers(environment, placement):
        session = session_folder(order.site.folder, order.slot, node, request.host)
        request = replace(request, session=stack.enter_context(session))
    pod = replace(stack.enter_context(runtime.pod(request)), number=number, host=request.host)
    control = stack.enter_context(order.site.connect(pod, order.slot))
    own = nic_of_pod(nic, number, hosts=2 * len(order.site.nodes))
    endpoint = stack.enter_context(network.attach(pod, own))
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
    endpoint = _over_fabric(endpoint, environment, pod)
    host_mpi = files.host_mpi if environment.launch is Launching.HOST_MPI else None
    return Side(
        pod=pod,
        endpoint=endpoint,
        prefix=files.host_prefix if host_mpi or files.shows_kernels or not environment.image else IMAGE_PREFIX,
        containers=containers,
        session=request.session,
        control=control,
        variables=host_mpi.environment if host_mpi else (),
    )


def _over_fabric(endpoint: Endpoint, environment: Environment, pod: Pod) -> Endpoint:
    """Return the endpoint that the environment's transport uses: the data network's, or InfiniBand's."""
    if environment.transport == "ipoib":
        return infiniband.over_ipoib(endpoint, pod)
    if transports.needs_port(environment.transport, environment.devices):
        return infiniband.over_port(endpoint, environment.transport, pod)
    return endpoint


def _request(order: _Order, node: Node, number: int) -> PodRequest:
    environment, placement, files = order.environment, order.placement, order.files
    network = order.network
    several = pods_per_node(environment, placement) > 1
    limits, cores = _pod_has(environment, placement, node, number)
    host = f"{node.name}c{number}" if several else node.name
    return PodRequest(
        name=f"tare-{order.study}-{host}",
        study=order.study,
        node=node,
        wiring=network.wiring,
        rootfs=files.rootfs if environment.image else None,
        image_tag=files.image_tag,
        sif=files.sif if environment.image else None,
        network_options=network.container_options(node, order.study, number),
        shown=files.shown,
        cwd=files.cwd,
        host=host,
        cores=cores,
        devices=given(environment.devices),
        limits=limits,
        binds=environment.binds,
        variables=merged(files.variables if environment.image else (), environment.env),
        foreign=files.foreign,
    )


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
