"""Provide `fake`: nodes that do not exist, for the `fake` runtime."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tare.agent.local import LocalNode
from tare.agent.protocol import NodeService
from tare.clusters.base import Allocated, Cluster, SiteDefaults
from tare.clusters.needs import Needs
from tare.model import LabSpec
from tare.model.topology import NodeCores, Topology
from tare.system.node import Nic, Node, Pod
from tare.system.node.cgroups import Group

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

CONTROL: Final = IPv4Network("100.64.0.0/16")
DATA: Final = IPv4Network("198.18.0.0/16")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSite(SiteDefaults):
    """Nodes that are only names."""

    name: str
    nodes: tuple[Node, ...]
    folder: Path
    head: tuple[str, ...] = ()
    allocation: Allocated | None = None
    control_subnet: str = str(CONTROL)
    control_interface: str = "ctl0"
    daemon_nodes: tuple[Node, ...] = ()
    services: dict[str, NodeService] = field(default_factory=dict)

    def service(self, node: Node) -> NodeService:
        return self.services.setdefault(node.name, LocalNode(node, self.folder, _connect))

    def listen(self) -> socket.socket | None:
        return None

    def pids(self) -> set[int]:
        return set()


def _connect(pod: Pod, _slot: int) -> AbstractContextManager[str]:
    return nullcontext(pod.node.control_address)


class FakeCluster(Cluster):
    """Create a `FakeSite`."""

    name = "fake"
    is_fake = True

    def topology(self, spec: LabSpec) -> Topology:
        each = spec.cores_per_node or 1
        nodes = (NodeCores(cores=tuple(range(i * each, (i + 1) * each)), name=f"n{i}") for i in range(spec.nodes))
        return Topology(nodes=tuple(nodes))

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[FakeSite]:
        nodes = tuple(
            Node(
                name=f"n{i}",
                index=i,
                cores=own.cores,
                control_address=str(CONTROL[i + 1]),
                nics=tuple(
                    Nic(name=f"data{k}", address=str(DATA[i + 1]), prefix=DATA.prefixlen) for k in range(needs.nics)
                ),
                pid=0,
                group=Group(path=f"fake/n{i}", hierarchies=()),
                boot_id=f"fake-{i}",
            )
            for i, own in enumerate(self.topology(spec).nodes)
        )
        with tempfile.TemporaryDirectory(prefix="tare-fake-") as folder:
            yield FakeSite(name=study, nodes=nodes, folder=Path(folder))
