"""Define nodes, their NICs and the pods on them, which clusters create and networks and runtimes work on.

A pod is the set of namespaces that the containers of one node share. It is created first and connected to its network
afterwards, as in CNI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tare.model.topology import HardwareThread, NodeCores
from tare.system.node.cgroups import NO_GROUP, Group

SILENT_ROLE: Final = "must stay silent"
NODE_NIC: Final = "node's NIC"
NODE_TUNNEL: Final = "node's tunnel"
NODE_BRIDGE: Final = "node's bridge"
SHARED_ROLES: Final = (NODE_NIC, NODE_TUNNEL, NODE_BRIDGE)
"""Roles of interfaces that other programs use too, so that no more than a lower bound of their traffic is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A data NIC of a node, with the address that it has while no environment owns it. `prefix` is the subnet's length.

    `gateway` is the router to other data subnets, all of which are in the network `beyond`; "" if there is none.
    """

    name: str
    address: str
    prefix: int
    mtu: int = 1500
    gateway: str = ""
    beyond: str = ""

    @property
    def cidr(self) -> str:
        """Return address and prefix, as in `10.214.1.1/24`."""
        return f"{self.address}/{self.prefix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host, or the namespaces that emulate one in the lab.

    `pid` is a process in the node's namespaces (0: this machine itself); `docker_socket` is "" without a daemon.
    `layout` is the topology of its cores, `machine` the machine whose numbering they use ("": this machine). Nodes of
    one machine can share a core. `head_ports` are the first and the last TCP port of the head's 127.0.0.1 that pods
    with a network of their own must reach, where there is no control network for them. `launches` is the cgroup by
    which launches on a machine are found; nothing is limited in it. `shares` are its cores by the number of nodes of a
    placement, where a lab divides the machine's for each placement.
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
    layout: tuple[HardwareThread, ...] = ()
    machine: str = ""
    head_ports: tuple[int, int] | None = None
    launches: Group = NO_GROUP
    shares: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def among(self, nodes: int) -> Node:
        """Return the node with the cores that it has in placements of so many nodes."""
        return replace(self, cores=dict(self.shares).get(nodes, self.cores))

    @property
    def is_machine(self) -> bool:
        """Return whether it is the machine itself, as it is, and not namespaces that stand for a node."""
        return self.pid == 0 and not self.group.path

    @property
    def places(self) -> NodeCores:
        """Return the node's cores in the form that rank placement uses."""
        return NodeCores(cores=self.cores, layout=self.layout, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An interface whose counters prove the treatment; its role describes its traffic, or is `SILENT_ROLE`.

    With `by_network` there is no such interface: the network counts the traffic itself (`Network.counted`). A name with
    a colon is the port of an adapter (`mlx5_0:1`), whose counters belong to the machine; `pid` is then irrelevant.
    """

    pid: int
    interface: str
    role: str
    by_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A pod's connection to a network: the address for the MPI, interface, MTU, and the proof.

    `daemons` are the processes, by name, that the network depends on. `port` is the adapter port that messages use
    instead (`mlx5_0:1`), and `roce` means that its link is Ethernet. `facts` are shown in reports.
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
class Container:
    """One of several containers in a pod, which ranks enter one by one.

    `enter` is the argv prefix from the pod's `outside` into the container; `carry` means that the container drops the
    caller's environment. `group` and `keepers` are as in a pod; `group` is None if the runtime makes none. `pid` is the
    first process, 0 if there is none before a rank enters. `joins` are the folders of the group as the node sees them,
    if the entering process has to join it itself.
    """

    name: str
    enter: tuple[str, ...]
    carry: bool = False
    group: Group | None = None
    keepers: frozenset[int] = frozenset()
    pid: int = 0
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How commands on a node call a runtime that holds a pod there.

    `programs` has the files of its programs by the names that commands use, `variables` what commands get in their
    environment, `words` the values of the words that they may name (`tare.workloads.answers`). `holds` is a command
    that succeeds only if the daemon that it reaches holds the pod; () if there is no daemon.
    """

    programs: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()


UNWIRED: Final = Endpoint(address="", prefix=0, interface="", mtu=0)
"""The endpoint of a pod that is not connected yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What was made for a deployment on a node: namespaces, and how the head starts a process in them.

    `pid` is a process in the pod, in this machine's numbering; `enter` is the argv prefix. `group` is the cgroup of the
    pod's processes, `keepers` those of them that keep the pod up. `outside` is the argv prefix to the node with the
    pod's network, from which the runtime enters the pod's containers. `number` counts the pods of a node, `host` is the
    pod's name as a host of the MPI. `setuid` is the setuid-root program through which an ordinary user enters, `by` the
    rights by which the pod was made.

    Once it is connected, `endpoint` is its connection to the network of messages and `control` its address on that of
    MPI's daemons. `prefix` is the path of tare's programs inside. `containers` are those that its ranks enter; if there
    are none, the MPI's daemon runs in the pod's own container. `session` is the folder that they share with the daemon,
    `variables` is the daemon's environment, as `NAME=value`. `client` is how commands on the node call the runtime.
    `ssh_port` is that of the pod's sshd, 0 if there is none.
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
    join_groups: bool = True
    outside: tuple[str, ...] = ()
    number: int = 0
    host: str = ""
    setuid: str = "none"
    by: str = ""
    endpoint: Endpoint = UNWIRED
    control: str = ""
    prefix: Path = Path("/")
    containers: tuple[Container, ...] = ()
    session: str = ""
    variables: tuple[str, ...] = ()
    client: Client = field(default_factory=Client)
    ssh_port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """A pod that is connected to its network: the node's NIC that it uses, and its endpoint."""

    pod: Pod
    nic: Nic
    endpoint: Endpoint
