"""Define what the clusters of remote machines have in common: a service on each machine, and the checks of machines."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tare.agent import site_folder
from tare.agent.geometry import on_daemon_nodes
from tare.agent.remote.machine import Machine, this_machine
from tare.clusters.base import Cluster
from tare.clusters.connections import Connections
from tare.clusters.needs import Needs
from tare.clusters.remote_files import check_seen, provide
from tare.clusters.remote_site import Opening, RemoteSite, places_of
from tare.errors import RefusedError
from tare.model import Environment, LabSpec, Launching
from tare.model.topology import Topology
from tare.networks import find as find_network
from tare.system.node import marked_processes


class RemoteCluster(Cluster):
    """Use machines through the services on them. A member opens the connections and says which machines there are."""

    is_real = True

    def __init__(self) -> None:
        self._opened: dict[LabSpec, Connections] = {}

    @abstractmethod
    def connect(self, spec: LabSpec) -> Connections:
        """Open the connections to a study's machines."""

    @abstractmethod
    def hosts(self, spec: LabSpec) -> tuple[str, ...]:
        """Return the names of the machines that ranks can run on, in order."""

    def connections(self, spec: LabSpec) -> Connections:
        """Return the connections to a study's machines, which are opened by the first question and kept for the run."""
        if spec not in self._opened:
            made = self.connect(spec)
            try:
                check_machines(made.hosts, made.machines, owned=bool(spec.nics))
            except BaseException:
                made.close()
                raise
            self._opened[spec] = made
        return self._opened[spec]

    def forget(self, spec: LabSpec) -> None:
        """Close the connections to a study's machines."""
        self._opened.pop(spec).close()

    def note(self, spec: LabSpec) -> Mapping[str, Any]:
        """Return what `tare clean` must know to ask the machines of a run whose head was killed."""
        return {}

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        connections = self.connections(spec)
        numbers = range(len(self.hosts(spec)))
        if spec.nics and on_daemon_nodes(environment):
            numbers = range(len(numbers), len(connections.hosts))
        for number in numbers:
            reason: str | None = connections.conversations[number].ask("probe", environment, bool(spec.nics))
            if reason:
                return f"{reason} (on {connections.hosts[number]})"
            if reason := connections.unfit(number, environment.mpi):
                return f"{reason} (on {connections.hosts[number]})"
        return None

    def topology(self, spec: LabSpec) -> Topology:
        machines = self.connections(spec).machines[: len(self.hosts(spec))]
        return Topology(nodes=tuple(places_of(f"n{number}", each, spec) for number, each in enumerate(machines)))

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[RemoteSite]:
        connections = self.connections(spec)
        name = site_folder.unique_name(study)
        folder = site_folder.folder_of(name)
        with ExitStack() as stack:
            stack.callback(self.forget, spec)
            stack.enter_context(site_folder.kept(f"{name}-{self.name}", name, folder, self.note(spec)))
            stack.enter_context(marked_processes.marked(name))
            opening = Opening(
                name=name, folder=folder, spec=spec, hosts=len(self.hosts(spec)), needs=needs, connections=connections
            )
            site = opening.site()
            nodes = (*site.nodes, *site.daemon_nodes)
            machines = [site.services[node.name].conversation for node in nodes]
            provide(machines, [site.reach(node) for node in nodes], needs.made, folder=folder)
            check_seen(machines, [*needs.programs, *(path for path in needs.shown if Path(path) not in needs.made)])
            yield site


def refuse_lab_only(cluster: str, spec: LabSpec, environment: Environment) -> str | None:
    """Return why an environment needs a lab's nodes, or None."""
    if spec.link_rate_bps or spec.segmented or spec.subnets > 1:
        return f"cluster {cluster} has no links to set: remove link_rate, wire and subnets, or use cluster: lab"
    if environment.launch is Launching.SSH:
        return "launch: ssh starts an sshd in every pod, which only a lab's nodes allow: use cluster: lab"
    return None


def refuse_as_it_is(cluster: str, environment: Environment, remedy: str) -> str | None:
    """Return why an environment cannot run on machines that are left as they are, or None."""
    if environment.link:
        return f"cluster {cluster} leaves the hosts' NICs as they are: remove link, {remedy}"
    if environment.daemon:
        return f"cluster {cluster} starts no {environment.daemon} on hosts that are left as they are: use cluster: lab"
    if find_network(environment.network).owns_nic:
        return f"{environment.network} needs a data NIC of its own: use host or pasta, {remedy}"
    return None


def check_machines(hosts: tuple[str, ...], machines: tuple[Machine, ...], *, owned: bool = False) -> None:
    """Raise `RefusedError` unless the hosts are machines that can run one job together, started from here."""
    head = this_machine()
    counted = Counter(machine.boot_id for machine in machines)
    for host, machine in zip(hosts, machines, strict=True):
        if machine.architecture != head.architecture:
            raise RefusedError(
                f"{host} is {machine.architecture} and this machine {head.architecture}: one job cannot run on both",
                remedy="run tare on a machine like the nodes",
            )
        if machine.boot_id and counted[machine.boot_id] > 1:
            raise RefusedError(f"{host} is the same machine as another of the hosts", remedy="list each machine once")
        if owned and not machine.is_root:
            raise RefusedError(
                f"nics are listed, but the user on {host} is not root", remedy="list hosts as root@HOST, or no nics"
            )
