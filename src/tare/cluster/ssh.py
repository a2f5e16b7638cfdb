"""Provide `ssh`: hosts that the user reaches by ssh, as they are. Nothing on them is changed but by containers.

A service on each host (`tare.remote`) does what is done there. The launcher of a job runs here, and starts its daemons
over the same connections. Where an administrator lists NICs, the services are root and wire networks as in a lab.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tare.cluster.base import Cluster
from tare.cluster.needs import Needs
from tare.cluster.ssh_connections import SshConnections
from tare.cluster.remote_files import check_seen, provide
from tare.cluster.remote_site import Opening, RemoteSite, places_of
from tare.errors import RefusedError
from tare.host.packages import install
from tare.host.paths import made_run_folder
from tare.host.process import find
from tare.model import Environment, LabSpec, Launching, Placement
from tare.model.topology import Topology
from tare.networks import Wiring
from tare.networks import find as find_network
from tare.node import marked
from tare.node.owners import owner
from tare.node_service import site_folder
from tare.node_service.geometry import on_daemon_nodes
from tare.remote.machine import Machine, this_machine


class SshCluster(Cluster):
    """Use hosts. Its connections are opened by the first question about them, and kept for the run."""

    name = "ssh"
    location = "On these nodes"
    is_real = True
    account = "the user of ssh on its node"
    takes_hosts = True

    def __init__(self) -> None:
        self._opened: dict[LabSpec, SshConnections] = {}

    def probe(self) -> str | None:
        return None if find("ssh") else f"ssh is not installed: {install('openssh-client')}"

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if placement.nodes > len(spec.hosts):
            return f"cluster ssh has {len(spec.hosts)} host(s): list more, or use a placement with fewer nodes"
        if spec.link_rate_bps or spec.segmented or spec.subnets > 1:
            return "cluster ssh has no links to set: remove link_rate, wire and subnets, or use cluster: lab"
        if environment.launch is Launching.SSH:
            return "launch: ssh starts an sshd in every pod, which only a lab's nodes allow: use cluster: lab"
        return refuse_owned(spec, environment) if spec.nics else refuse_as_it_is(environment)

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        connections = self._connections(spec)
        numbers = range(len(spec.hosts))
        if spec.nics and on_daemon_nodes(environment):
            numbers = range(len(spec.hosts), len(connections.hosts))
        for number in numbers:
            reason: str | None = connections.conversations[number].ask("probe", environment, bool(spec.nics))
            if reason:
                return f"{reason} (on {connections.hosts[number]})"
            if reason := connections.unfit(number, environment.mpi):
                return f"{reason} (on {connections.hosts[number]})"
        return None

    def topology(self, spec: LabSpec) -> Topology:
        machines = self._connections(spec).machines[: len(spec.hosts)]
        return Topology(nodes=tuple(places_of(f"n{number}", each, spec) for number, each in enumerate(machines)))

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[RemoteSite]:
        connections = self._connections(spec)
        name = site_folder.unique_name(study)
        folder = site_folder.folder_of(name)
        with ExitStack() as stack:
            stack.callback(self._close, spec)
            stack.enter_context(_own_folder(name, folder, spec))
            stack.enter_context(marked.marked(name))
            site = Opening(name=name, folder=folder, spec=spec, needs=needs, connections=connections).site()
            nodes = (*site.nodes, *site.daemon_nodes)
            services = [site.service(node) for node in nodes]
            provide(services, [site.reach(node) for node in nodes], needs.made, folder=folder)
            check_seen(services, [*needs.programs, *(path for path in needs.shown if Path(path) not in needs.made)])
            yield site

    def _connections(self, spec: LabSpec) -> SshConnections:
        if spec not in self._opened:
            if not spec.hosts:
                raise RefusedError(
                    "cluster ssh has no hosts", remedy="list them: cluster: {ssh: {hosts: [a, b]}}, or --hosts a,b"
                )
            if spec.daemon_hosts and len(spec.daemon_hosts) != len(spec.hosts):
                raise RefusedError(f"daemon_hosts lists {len(spec.daemon_hosts)} hosts, and hosts {len(spec.hosts)}")
            made = SshConnections((*spec.hosts, *spec.daemon_hosts), spec.ssh_config, netlink=bool(spec.nics))
            try:
                check_machines(made.hosts, made.machines, owned=bool(spec.nics))
            except BaseException:
                made.close()
                raise
            self._opened[spec] = made
        return self._opened[spec]

    def _close(self, spec: LabSpec) -> None:
        self._opened.pop(spec).close()


def refuse_as_it_is(environment: Environment) -> str | None:
    """Return why an environment cannot run on hosts that are left as they are, or None."""
    if environment.link:
        return "cluster ssh leaves the hosts' NICs as they are: remove link, list nics, or use cluster: lab"
    if environment.daemon:
        return f"cluster ssh starts no {environment.daemon} on hosts that are left as they are: use cluster: lab"
    if find_network(environment.network).owns_nic:
        return f"{environment.network} needs a data NIC of its own: use host or pasta, list nics, or use cluster: lab"
    return None


def refuse_owned(spec: LabSpec, environment: Environment) -> str | None:
    """Return why an environment cannot run on hosts whose NICs tare may take, or None."""
    network = find_network(environment.network)
    if on_daemon_nodes(environment) and not spec.daemon_hosts:
        return "cluster ssh has no hosts on which tare may start Docker: list daemon_hosts"
    if network.needs_store:
        return f"{environment.network} needs daemons with a store, which cluster ssh does not start: use cluster: lab"
    if network.wiring is not Wiring.NODE and not spec.pod_addresses:
        return f"pods with {environment.network} need addresses in the hosts' own subnet: set pod_addresses"
    return None


def check_machines(hosts: tuple[str, ...], machines: tuple[Machine, ...], *, owned: bool) -> None:
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
        site_folder.HOSTS: [*spec.hosts, *spec.daemon_hosts],
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
