"""Provide `local`: this machine as one node, as it is; nothing of it is changed, and no root is needed.

An ordinary user has no cgroup, so its processes are found by their environment, and below this process
(`tare.system.node.marked_processes`). Root's launches are in a cgroup in which nothing is limited
(`tare.system.node.cgroups.of_launches`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tare.agent import site_folder
from tare.agent.local import LocalNode
from tare.agent.protocol import NodeService
from tare.clusters.base import Allocated, Cluster, SiteDefaults
from tare.clusters.needs import Needs
from tare.daemons import docker
from tare.model import Environment, LabSpec, Placement
from tare.model.topology import NodeCores, Topology
from tare.networks import find as find_network
from tare.system.node import Nic, Node, Pod, marked_processes
from tare.system.node.cgroups import NO_GROUP, made, of_launches
from tare.system.node.owners import boot_id, state_folder
from tare.system.topology import read_topology

NAME: Final = "n0"
"""The node's name, as MPIs see it: with this machine's own, their launchers would start ranks without the agent."""
ADDRESS: Final = "127.0.0.1"
PORTS: Final = 64
"""Number of TCP ports for the launchers that run at the same time, and for what their ranks connect to."""
LOOPBACK: Final = Nic(name="lo", address=ADDRESS, prefix=8, mtu=65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSite(SiteDefaults):
    """This machine as the only node; daemons are those of the system."""

    name: str
    nodes: tuple[Node, ...]
    folder: Path
    head: tuple[str, ...] = ()
    allocation: Allocated | None = None
    control_subnet: str = "127.0.0.0/8"
    control_interface: str = "lo"
    services: dict[str, NodeService] = field(default_factory=dict)

    @property
    def daemon_nodes(self) -> tuple[Node, ...]:
        return self.nodes if self.nodes[0].docker_socket else ()

    def service(self, node: Node) -> NodeService:
        return self.services.setdefault(node.name, LocalNode(node, self.folder, _connect))

    def listen(self) -> socket.socket | None:
        first, last = self.nodes[0].head_ports or (0, 0)
        for port in range(last, first, -1):
            made = socket.socket()
            try:
                made.bind((ADDRESS, port))
            except OSError:
                made.close()
                continue
            return made
        return None

    def adopt(self, pid: int) -> None:
        self.nodes[0].launches.add(pid)

    def pids(self) -> set[int]:
        return marked_processes.pids_of_run(self.name, self.folder)


def _free_ports() -> tuple[int, int]:
    """Return the first and last of a range of TCP ports of which most are free; the head's programs listen there."""
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        first = 20000 + one.getsockname()[1] % 150 * PORTS
    return first, first + PORTS - 1


@contextmanager
def _connect(pod: Pod, _slot: int) -> Iterator[str]:
    yield pod.node.control_address


class LocalCluster(Cluster):
    """Use this machine."""

    name = "local"
    location = "On this machine"
    is_real = True
    is_here = True
    account = "the user who runs tare"

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if placement.nodes > 1:
            return "cluster local is one node: use a placement with nodes: 1, or cluster: lab or ssh"
        if spec.link_rate_bps or spec.segmented or spec.subnets > 1:
            return "cluster local has no links to set: remove link_rate, wire and subnets, or use cluster: lab"
        if environment.link:
            return "cluster local leaves this machine's NICs as they are: remove link, or use cluster: lab"
        if environment.daemon:
            return f"cluster local starts no {environment.daemon} of its own: use cluster: lab"
        if find_network(environment.network).owns_nic:
            return f"{environment.network} needs a data NIC of its own: use host or pasta, or cluster: lab"
        return None

    def topology(self, spec: LabSpec) -> Topology:
        cores = tuple(sorted(os.sched_getaffinity(0)))[: spec.cores_per_node]
        return Topology(nodes=(NodeCores(cores=cores, layout=read_topology(cores), name=NAME),))

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[LocalSite]:
        (places,) = self.topology(spec).nodes
        node = Node(
            name=NAME,
            index=0,
            cores=places.cores,
            control_address=ADDRESS,
            nics=(LOOPBACK,) * needs.nics,
            pid=0,
            group=NO_GROUP,
            boot_id=boot_id(),
            layout=places.layout,
            head_ports=_free_ports(),
            docker_socket=docker.SYSTEM_SOCKET if needs.docker else "",
        )
        name = site_folder.unique_name(study)
        group = of_launches(name)
        with state_folder(study, name, cgroups=group.bases) as folder:
            try:
                with made(group) as launches, marked_processes.marked(name):
                    yield LocalSite(name=name, nodes=(replace(node, launches=launches),), folder=folder)
            finally:
                marked_processes.end_run(name, folder)
