"""Describe hosts as the nodes of a site, and open their services."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tare.agent.administered import Terms
from tare.agent.protocol import NodeService
from tare.agent.remote import answers
from tare.agent.remote.conversation import Unreachable
from tare.agent.remote.machine import Interface, Machine, this_machine
from tare.agent.remote.service import RemoteNode
from tare.clusters.base import Allocated, SiteDefaults
from tare.clusters.connections import Connections
from tare.clusters.needs import Needs
from tare.clusters.slurm_allocation import towards
from tare.errors import RefusedError
from tare.model import LabSpec
from tare.model.topology import NodeCores
from tare.system.node import Nic, Node, marked_processes
from tare.system.node.cgroups import NO_GROUP

if TYPE_CHECKING:
    from tare.agent.remote.conversation import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSite(SiteDefaults):
    """Hosts whose services are up; `numbers` are those of the nodes' connections, by name."""

    name: str
    nodes: tuple[Node, ...]
    daemon_nodes: tuple[Node, ...]
    folder: Path
    control_subnet: str
    control_interface: str
    address: str
    connections: Connections
    services: Mapping[str, RemoteNode]
    numbers: Mapping[str, int]
    head: tuple[str, ...] = ()
    allocation: Allocated | None = None

    def service(self, node: Node) -> NodeService:
        return self.services[node.name]

    def reach(self, node: Node) -> tuple[str, ...]:
        return self.connections.reach(self.numbers[node.name])

    def listen(self) -> socket.socket | None:
        if not self.address:
            return None
        made = socket.socket()
        made.bind((self.address, 0))
        return made

    def pids(self) -> set[int]:
        return marked_processes.pids_of_run(self.name, self.folder)

    def settle(self) -> None:
        for node in self.daemon_nodes:
            with suppress(Unreachable):  # its launches fail, with that reason
                self.services[node.name].conversation.ask("settle")

    def show(self, path: Path, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.services[node.name].conversation.ask("write", path, path.read_text())

    def drop_caches(self) -> None:
        for service in self.services.values():
            service.conversation.ask("drop_caches")

    def sweep(self) -> Sequence[str]:
        said: list[str] = []
        for name, service in self.services.items():
            with suppress(Unreachable):  # it sweeps all the same, when it finds that the head is gone
                said += [f"{name}: {sentence}" for sentence in service.conversation.ask("sweep")]
        return said


@dataclass(slots=True, kw_only=True)
class Opening:
    """The opening of a site on the first `hosts` machines whose connections are up; further ones run daemons."""

    name: str
    folder: Path
    spec: LabSpec
    hosts: int
    needs: Needs
    connections: Connections
    services: dict[str, RemoteNode] = field(default_factory=dict)

    def site(self) -> RemoteSite:
        """Open the services of all nodes, start daemons where the study needs them, and return the site."""
        machines, hosts = self.connections.machines, self.hosts
        with_daemons = len(machines) if self.needs.docker and self.spec.nics else hosts
        numbers = {(f"n{i}" if i < hosts else f"d{i - hosts}"): i for i in range(with_daemons)}
        names = tuple(numbers)
        on_each = self.connections.on_each
        nodes = [each.result() for each in on_each(lambda at: self._open(names[at], at), range(with_daemons))]
        starting = on_each(lambda at: self._start_docker(nodes[at]), range(hosts, with_daemons))
        daemon_nodes = [each.result() for each in starting]
        if self.needs.swarm and daemon_nodes:
            self._join_swarm(daemon_nodes)
        head = this_machine()
        address = own_address(head, machines[0])
        own = interface_of(head, address)
        control = [interface_of(machine, machine.reached[1]) for machine in machines]
        return RemoteSite(
            name=self.name,
            nodes=tuple(nodes[:hosts]),
            daemon_nodes=tuple(daemon_nodes),
            folder=self.folder,
            control_subnet=subnets_of([*control, own]),
            control_interface=own.name,
            address=address,
            connections=self.connections,
            services=dict(self.services),
            numbers=numbers,
            allocation=self.connections.allocated,
        )

    def _open(self, name: str, number: int) -> Node:
        machine, host = self.connections.machines[number], self.connections.hosts[number]
        control = interface_of(machine, machine.reached[1])
        data = _nic(data_interface(machine, control, self.spec.data_subnet))
        terms = Terms(nodes=2 * self.hosts, addresses=self.spec.pod_addresses) if self.spec.nics else None
        node = Node(
            name=name,
            index=number % self.hosts,
            cores=places_of(name, machine, self.spec).cores,
            layout=machine.layout,
            control_address=control.address,
            nics=(data, *self._taken(machine, host)) if terms else (data,) * self.needs.nics,
            pid=0,
            group=NO_GROUP,
            boot_id=machine.boot_id,
            machine=host,
        )

        def begin(conversation: Conversation) -> Node:
            opened = conversation.ask("open", self.name, node, self.folder, self.needs.writable, terms)
            return answers.opened_node(node, opened, owned=terms is not None)

        def again() -> Conversation:
            self.connections.conversations[number].close()
            made = self.connections.connect(number)[0]
            begin(made)
            return made

        conversation = self.connections.conversations[number]
        served = begin(conversation)
        self.services[name] = RemoteNode(served, conversation, again)
        return served

    def _taken(self, machine: Machine, host: str) -> tuple[Nic, ...]:
        """Return the NICs of a host that tare takes: one for each environment that owns one."""
        wanted = self.needs.nics - 1
        if wanted > len(self.spec.nics):
            raise RefusedError(
                f"the environments of this study take {wanted} data NICs of each host, and nics lists "
                f"{len(self.spec.nics)}",
                remedy="list more, or make several studies",
            )
        found = {each.name: each for each in machine.interfaces}
        for name in self.spec.nics[:wanted]:
            if name not in found:
                raise RefusedError(f"{host} has no NIC {name} that is up and has an IPv4 address")
        return tuple(_nic(found[name]) for name in self.spec.nics[:wanted])

    def _start_docker(self, node: Node) -> Node:
        service = self.services[node.name]
        service.node = answers.opened_node(node, service.conversation.ask("start_docker"), owned=True)
        return service.node

    def _join_swarm(self, nodes: list[Node]) -> None:
        first = self.services[nodes[0].name].conversation
        token = answers.swarm_token(first.name, first.ask("begin_swarm"))
        for node in nodes[1:]:
            self.services[node.name].conversation.ask("join_swarm", nodes[0].control_address, token)


def own_address(head: Machine, machine: Machine) -> str:
    """Return the head's address for a machine: the one that the machine says it is reached from, if it is the head's.

    Otherwise (the connection goes through a gateway, or the machine is wrong) it is that of the route there, or "".
    """
    own = {each.address for each in head.interfaces}
    return next((each for each in (machine.reached[0], towards(machine.reached[1])) if each in own), "")


def interface_of(machine: Machine, address: str) -> Interface:
    """Return the interface of a machine with an address; a machine behind a gateway has it under another one."""
    others = [each for each in machine.interfaces if each.name != "lo"] or list(machine.interfaces)
    found = next((each for each in machine.interfaces if each.address == address), None) or next(iter(others), None)
    if found is None:
        raise RefusedError(f"no IPv4 address of {machine.hostname} is known", remedy="install ip(8) there: iproute2")
    return found


def data_interface(machine: Machine, control: Interface, subnet: str) -> Interface:
    """Return the interface of a machine in the data subnet; "" is the one that it is reached by."""
    if not subnet:
        return control
    wanted = ipaddress.ip_network(subnet, strict=False)
    for each in machine.interfaces:
        if ipaddress.ip_address(each.address) in wanted:
            return each
    raise RefusedError(f"{machine.hostname} has no address in the data subnet {subnet}")


def subnets_of(interfaces: list[Interface]) -> str:
    """Return the subnets of interfaces for the MPI's options; adjacent ones are merged."""
    found = {ipaddress.IPv4Interface(f"{each.address}/{each.prefix}").network for each in interfaces}
    return ",".join(map(str, ipaddress.collapse_addresses(found)))


def places_of(name: str, machine: Machine, spec: LabSpec) -> NodeCores:
    """Return the cores of a host in the form that rank placement uses."""
    return NodeCores(cores=machine.cores[: spec.cores_per_node], layout=machine.layout, name=name)


def _nic(interface: Interface) -> Nic:
    return Nic(name=interface.name, address=interface.address, prefix=interface.prefix, mtu=interface.mtu)
