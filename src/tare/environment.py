"""Compose environments: runtime x network x image, deployed on the nodes of a site as pods.

Plug-ins know nothing of each other; what makes sense together is decided here, with the reason where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.cluster import Site
from tare.interrupts import uninterrupted
from tare.launch import Entry, Host
from tare.model import Environment, Placement, Share, Sides
from tare.mpi import MPIS
from tare.networks import NETWORKS, Wiring
from tare.node import Endpoint, Nic, Node, Pod
from tare.runtimes import RUNTIMES, PodRequest

IMAGE_PREFIX: Final = Path("/opt/tare")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What pods are made of: our programs on the host, the image (None: no environment needs one), shown folders."""

    host_prefix: Path
    rootfs: Path | None = None
    tar: Path | None = None
    image_tag: str = ""
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One node's part of a deployed environment: its pod, its endpoint, and where our programs are inside."""

    pod: Pod
    endpoint: Endpoint
    prefix: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """An environment that is up on its nodes, in order of nodes."""

    environment: Environment
    sides: tuple[Side, ...]

    @property
    def subnet(self) -> str:
        """Return the data subnet, as MPI is told it."""
        return subnet_of(self.sides[0].endpoint)

    def hosts(self, placement: Placement) -> tuple[Host, ...]:
        """Return the hosts as the MPI sees them."""
        return tuple(host_of(side.pod, placement.ranks_per_node) for side in self.sides)


def refuse(environment: Environment, placement: Placement) -> str | None:
    """Return why an environment cannot run in a placement, by what its parts are; nothing is looked at on disk."""
    network = NETWORKS[environment.network]
    fakes = {environment.runtime == "fake", environment.network.startswith("fake"), environment.mpi == "fake"}
    if len(fakes) > 1:
        return "the fake runtime, networks and MPI go with each other only"
    if reason := network.refuse(environment.runtime, placement.nodes):
        return reason
    if environment.sides is not Sides.BOTH and not network.reaches_outside:
        return f"{environment.network} cannot reach outside itself, so it cannot be on one side only"
    if placement.share is Share.NONE or placement.containers_per_node != 1:
        return "several containers on a node are not supported yet: use containers_per_node: 1 and share: pod"
    if environment.transport == "shm" and placement.nodes > 1:
        return "shared memory does not reach from one node to another: use transport: tcp"
    return None


def probe(environment: Environment) -> str | None:
    """Return what of an environment is missing on this machine, or None."""
    parts = (RUNTIMES[environment.runtime], NETWORKS[environment.network])
    reasons = (part.probe() for part in parts)
    missing = next((reason for reason in reasons if reason), None)
    return missing or (MPIS[environment.mpi].probe() if environment.runtime != "fake" else None)


def nic_slots(environments: Sequence[Environment]) -> dict[str, int]:
    """Return which data NIC each environment uses: the first is shared, those that own one follow."""
    slots: dict[str, int] = {}
    following = 1
    for environment in environments:
        if NETWORKS[environment.network].owns_nic or environment.sides is not Sides.BOTH:
            slots[environment.name] = following
            following += 1
        else:
            slots[environment.name] = 0
    return slots


def host_of(pod: Pod, ranks: int) -> Host:
    """Return a pod as a host of the MPI: its daemon is started inside, so ranks need no entering."""
    agent = Entry(
        argv=pod.enter,
        cgroups=tuple(str(f) for f in pod.group.folders) if pod.join_groups else (),
        cpus=pod.node.cores if pod.join_groups else (),
    )
    return Host(name=pod.node.name, ranks=ranks, agent=agent)


def subnet_of(endpoint: Endpoint) -> str:
    """Return the subnet of an endpoint's address."""
    import ipaddress

    return str(ipaddress.ip_interface(f"{endpoint.address}/{endpoint.prefix}").network)


@contextmanager
def deployed(
    site: Site, environment: Environment, placement: Placement, *, slot: int, nic: int, files: Files
) -> Iterator[Deployed]:
    """Keep the pods of an environment up on the first nodes of a site; `slot` is unique among environments."""
    daemon = RUNTIMES[environment.runtime].needs_daemon
    nodes = (site.daemon_nodes if daemon else site.nodes)[: placement.nodes]
    network = NETWORKS[environment.network]
    with ExitStack() as stack:
        stack.enter_context(network.prepare(nodes, f"{site.name}-{slot}"))
        stacks = [stack.enter_context(ExitStack()) for _ in nodes]

        def one(node: Node) -> Side:
            stack = stacks[node.index]
            if is_inside(environment.sides, node.index, len(nodes)):
                return _side(stack, site, environment, node, slot, nic, files)
            return _side(stack, site, bare_side(environment), site.nodes[node.index], slot, nic, files)

        with uninterrupted(), ThreadPoolExecutor(max_workers=min(4, len(nodes))) as pool:
            futures = [pool.submit(one, node) for node in nodes]
        yield Deployed(environment=environment, sides=tuple(future.result() for future in futures))


def is_inside(sides: Sides, node: int, nodes: int) -> bool:
    """Tell whether a node's ranks are put into the environment; the sender is the first node, the receiver the last."""
    return sides is Sides.BOTH or node == (0 if sides is Sides.SENDER else nodes - 1)


def bare_side(environment: Environment) -> Environment:
    """Return what runs on the other side of an environment that is on one side only."""
    return Environment(
        name=environment.name, runtime="bare", network="host", mpi=environment.mpi, transport=environment.transport
    )


def _side(
    stack: ExitStack, site: Site, environment: Environment, node: Node, slot: int, nic: int, files: Files
) -> Side:
    network = NETWORKS[environment.network]
    in_image = bool(environment.image)
    study = f"{site.name}-{slot}"
    request = PodRequest(
        name=f"tare-{study}-{node.name}",
        study=study,
        node=node,
        wiring=network.wiring,
        rootfs=files.rootfs if in_image else None,
        image_tag=files.image_tag,
        network_options=network.container_options(node, study) if environment.runtime == "docker" else (),
        shown=files.shown,
    )
    pod = stack.enter_context(RUNTIMES[environment.runtime].pod(request))
    stack.enter_context(site.connect(pod, slot))
    endpoint = stack.enter_context(network.attach(pod, nic_of(node, nic)))
    return Side(pod=pod, endpoint=endpoint, prefix=IMAGE_PREFIX if in_image else files.host_prefix)


def nic_of(node: Node, index: int) -> Nic:
    """Return a node's data NIC."""
    return node.nics[index]


def wiring_of(environment: Environment) -> Wiring:
    """Return whose network namespace an environment's pods have."""
    return NETWORKS[environment.network].wiring
