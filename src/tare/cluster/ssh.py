"""Provide `ssh`: hosts that the user reaches by ssh, as they are. Nothing on them is changed but by containers.

A service on each host (`tare.remote`) does what is done there. The launcher of a job runs here, and starts its daemons
over the same connections.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tare.cluster.base import Cluster
from tare.cluster.needs import Needs
from tare.cluster.ssh_connections import Connections
from tare.cluster.ssh_files import check_seen, provide
from tare.errors import RefusedError
from tare.host.paths import made_run_folder
from tare.host.process import find
from tare.model import Environment, LabSpec, Launching, Placement
from tare.model.placement import NodeCores, Topology
from tare.networks import find as find_network
from tare.node import Nic, Node, marked
from tare.node.cgroups import Group
from tare.node.owners import owner
from tare.node_service import NodeService, site_folder
from tare.remote.machine import Interface, Machine, this_machine
from tare.remote.service import RemoteNode

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tare.remote.conversation import Conversation

NOT_YET: Final = "use cluster: lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSite:
    """Hosts whose services are up."""

    name: str
    nodes: tuple[Node, ...]
    folder: Path
    control_subnet: str
    control_interface: str
    address: str
    connections: Connections
    head: tuple[str, ...] = ()
    daemon_nodes: tuple[Node, ...] = ()
    services: dict[str, NodeService] = field(default_factory=dict)

    def service(self, node: Node) -> NodeService:
        return self.services[node.name]

    def reach(self, node: Node) -> tuple[str, ...]:
        return self.connections.reach(node.index)

    def listen(self) -> socket.socket | None:
        made = socket.socket()
        made.bind((self.address, 0))
        return made

    def adopt(self, pid: int) -> None:
        pass

    def pids(self) -> set[int]:
        return marked.pids_of_run(self.name, self.folder)

    def usage_s(self) -> float:
        return 0.0

    def settle(self) -> None:
        pass

    def carries(self, nic: int, mtu: int) -> AbstractContextManager[None]:
        return nullcontext()


class SshCluster(Cluster):
    """Use hosts. Its connections are opened by the first question about them, and kept for the run."""

    name = "ssh"
    location = "On these nodes"
    is_real = True
    takes_hosts = True

    def __init__(self) -> None:
        self._opened: dict[tuple[tuple[str, ...], str], Connections] = {}

    def probe(self) -> str | None:
        return None if find("ssh") else "ssh is not installed: apt-get install openssh-client"

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if placement.nodes > len(spec.hosts):
            return f"cluster ssh has {len(spec.hosts)} host(s): list more, or use a placement with fewer nodes"
        if spec.link_rate_bps or spec.segmented or spec.subnets > 1:
            return "cluster ssh has no links to set: remove link_rate, wire and subnets, or use cluster: lab"
        if environment.link:
            return "cluster ssh leaves the hosts' NICs as they are: remove link, or use cluster: lab"
        if environment.daemon:
            return f"cluster ssh starts no {environment.daemon} of its own: use cluster: lab"
        if environment.launch is Launching.SSH:
            return "launch: ssh starts an sshd in pods, which needs root and addresses of their own: use cluster: lab"
        if find_network(environment.network).owns_nic:
            return f"{environment.network} needs a data NIC of its own: use host or pasta, or cluster: lab"
        return None

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        connections = self._connections(spec)
        for number, host in enumerate(connections.hosts):
            reason: str | None = connections.conversations[number].ask("probe", environment)
            if reason:
                return f"{reason} (on {host})"
            if reason := connections.unfit(number, environment.mpi):
                return f"{reason} (on {host})"
        return None

    def topology(self, spec: LabSpec) -> Topology:
        machines = self._connections(spec).machines
        return Topology(nodes=tuple(_places(number, machine, spec) for number, machine in enumerate(machines)))

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[SshSite]:
        connections = self._connections(spec)
        name = site_folder.unique_name(study)
        folder = site_folder.folder_of(name)
        with ExitStack() as stack:
            stack.callback(self._close, spec)
            stack.enter_context(_own_folder(name, folder, spec))
            stack.enter_context(marked.marked(name))
            site = _site(name, spec, needs, connections, folder)
            for node in site.nodes:
                site.services[node.name] = _served(site, node)
            services = [site.service(node) for node in site.nodes]
            provide(services, [site.reach(node) for node in site.nodes], needs.made, folder=folder)
            check_seen(services, [path for path in needs.shown if Path(path) not in needs.made])
            yield site

    def _connections(self, spec: LabSpec) -> Connections:
        key = (spec.hosts, spec.ssh_config)
        if key not in self._opened:
            if not spec.hosts:
                raise RefusedError(
                    "cluster ssh has no hosts", remedy="list them: cluster: {ssh: {hosts: [a, b]}}, or --hosts a,b"
                )
            made = Connections(*key)
            try:
                _check(spec.hosts, made.machines)
            except BaseException:
                made.close()
                raise
            self._opened[key] = made
        return self._opened[key]

    def _close(self, spec: LabSpec) -> None:
        self._opened.pop((spec.hosts, spec.ssh_config)).close()


def _served(site: SshSite, node: Node) -> RemoteNode:
    def begin(conversation: Conversation) -> Conversation:
        conversation.ask("open", site.name, node, site.folder)
        return conversation

    def again() -> Conversation:
        site.connections.conversations[node.index].close()
        return begin(site.connections.connect(node.index)[0])

    return RemoteNode(node, begin(site.connections.conversations[node.index]), again)


def _site(study: str, spec: LabSpec, needs: Needs, connections: Connections, folder: Path) -> SshSite:
    machines = connections.machines
    control = [interface_of(machine, machine.reached[1]) for machine in machines]
    address = machines[0].reached[0]
    own = interface_of(this_machine(), address)
    nodes = tuple(
        Node(
            name=f"n{number}",
            index=number,
            cores=_places(number, machine, spec).cores,
            layout=machine.layout,
            control_address=control[number].address,
            nics=(_nic(data_interface(machine, control[number], spec.data_subnet)),) * needs.nics,
            pid=0,
            group=Group(path="", hierarchies=()),
            boot_id=machine.boot_id,
            machine=connections.hosts[number],
        )
        for number, machine in enumerate(machines)
    )
    return SshSite(
        name=study,
        nodes=nodes,
        folder=folder,
        control_subnet=subnets_of([*control, own]),
        control_interface=own.name,
        address=address,
        connections=connections,
    )


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


def _nic(interface: Interface) -> Nic:
    return Nic(name=interface.name, address=interface.address, prefix=interface.prefix, mtu=interface.mtu)


def _places(number: int, machine: Machine, spec: LabSpec) -> NodeCores:
    cores = machine.cores[: spec.cores_per_node]
    return NodeCores(cores=cores, layout=machine.layout, name=f"n{number}")


def _check(hosts: tuple[str, ...], machines: tuple[Machine, ...]) -> None:
    """Raise `RefusedError` unless the hosts are machines that can run one job together, started from here."""
    head = this_machine()
    for host, machine in zip(hosts, machines, strict=True):
        if machine.architecture != head.architecture:
            raise RefusedError(
                f"{host} is {machine.architecture} and this machine {head.architecture}: one job cannot run on both",
                remedy="run tare on a machine like the nodes",
            )
    counted = Counter(machine.boot_id for machine in machines)
    for host, machine in zip(hosts, machines, strict=True):
        if machine.boot_id and counted[machine.boot_id] > 1:
            raise RefusedError(f"{host} is the same machine as another of the hosts", remedy="list each machine once")


@contextmanager
def _own_folder(name: str, folder: Path, spec: LabSpec) -> Iterator[None]:
    """Keep the site's folder on this machine, with a note of its owner where others look for it."""
    note = made_run_folder() / f"{name}-ssh"
    note.mkdir(mode=0o700)
    told = {
        "lab": name,
        **owner(),
        site_folder.KEY: str(folder),
        site_folder.HEAD: True,
        site_folder.HOSTS: list(spec.hosts),
        site_folder.CONFIG: os.path.abspath(spec.ssh_config) if spec.ssh_config else "",
    }
    try:
        (note / "owner.json").write_text(json.dumps(told))
        site_folder.make(folder, of_head=True)
        yield
    finally:
        marked.end_run(name, folder)
        site_folder.remove(folder, of_head=True)
        shutil.rmtree(note, ignore_errors=True)
