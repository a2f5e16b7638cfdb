"""Nodes, their NICs and the pods on them: what clusters make and networks and runtimes work on.

A pod is the set of namespaces that the containers of one node share. It is made first and wired after, as in CNI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.model.placement import HardwareThread, NodeCores
from tare.node.cgroups import Group

SILENT_ROLE: Final = "must stay silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A data NIC of a node with the address that it has when nobody owns it. `prefix` is the subnet's length.

    `gateway` is the router to other data subnets, all of which are in the network `beyond`; "" where there is none.
    """

    name: str
    address: str
    prefix: int
    mtu: int = 1500
    gateway: str = ""
    beyond: str = ""

    @property
    def cidr(self) -> str:
        """Return address and prefix, as `10.214.1.1/24`."""
        return f"{self.address}/{self.prefix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host, or the namespaces that stand for one in the lab.

    `pid` is a process in the node's namespaces (0: this machine itself); `docker_socket` is "" without a daemon.
    `layout` says where its cores are, `machine` on which machine they are counted: nodes of one can share a core ("":
    this machine).
    """

    name: str
    index: int
    cores: tuple[int, ...]
    control_address: str
    nics: tuple[Nic, ...]
    pid: int
    group: Group
    boot_id: str
    docker_socket: str = ""
    docker_pid: int = 0
    layout: tuple[HardwareThread, ...] = ()
    machine: str = ""

    @property
    def places(self) -> NodeCores:
        """Return the node's cores as ranks are placed on them."""
        return NodeCores(cores=self.cores, layout=self.layout, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An interface whose counters prove the treatment; its role is what it carries, or `SILENT_ROLE`.

    `read` tells bytes and packets received, and sent, where the counters are not those of an interface.
    With a colon it is the port of an adapter (`mlx5_0:1`), whose counters are this machine's and `pid` is of no matter.
    """

    pid: int
    interface: str
    role: str
    read: Callable[[], tuple[int, int, int, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What a network gave a pod: the address that MPI is told, its interface and MTU, and the proof.

    `daemons` are the processes, by name, without which the network is not what it claims to be.
    `port` is the port of an adapter that messages take instead (`mlx5_0:1`), `roce` tells that its link is Ethernet.
    `facts` are what a report shows of it.
    """

    address: str
    prefix: int
    interface: str
    mtu: int
    watches: tuple[Watch, ...] = ()
    port: str = ""
    roce: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
    daemons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Namespaces held on a node, and how the head starts a process in them.

    `pid` is a process in the pod as this machine numbers it, `enter` the argv prefix, `group` the cgroup whose
    processes are the pod's, `keepers` those of them that hold it. `outside` is the argv prefix to the node with the
    pod's network, from which the runtime enters the pod's containers. `number` counts the pods of a node, `host` is the
    pod's name as a host of the MPI. `setuid` says which program with the rights of root helps an ordinary user in.
    """

    name: str
    node: Node
    runtime: str
    pid: int
    enter: tuple[str, ...]
    group: Group
    keepers: frozenset[int] = frozenset()
    container: str = ""
    own_network: bool = False
    prefix: Path = Path("/")
    join_groups: bool = True
    outside: tuple[str, ...] = ()
    number: int = 0
    host: str = ""
    setuid: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """A pod that has its network: the NIC of its node that it is over, and what it was given."""

    pod: Pod
    nic: Nic
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One of several containers in a pod, which ranks enter one by one.

    `enter` is the argv prefix from the pod's `outside` into the container, `carry` tells that it forgets the
    environment of who enters; `group` and `keepers` are as a pod's, and there is no group where the runtime makes none.
    `pid` is the first process, 0 where there is none before a rank enters. `joins` are the folders of the group as the
    node sees them, where who enters has to join it.
    """

    name: str
    enter: tuple[str, ...]
    carry: bool = False
    group: Group | None = None
    keepers: frozenset[int] = frozenset()
    pid: int = 0
    joins: tuple[str, ...] = ()
