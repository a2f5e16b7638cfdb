"""Provide `ssh`: hosts that the user reaches by ssh, as they are. Nothing on them is changed but by containers.

A service on each host (`tare.agent.remote`) does what is done there. The launcher of a job runs here, and starts its
daemons over the same connections. Where an administrator lists NICs, the services are root and wire networks as in a
lab.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tare.agent import site_folder
from tare.agent.geometry import on_daemon_nodes
from tare.clusters.remote_cluster import RemoteCluster, refuse_as_it_is, refuse_lab_only
from tare.clusters.ssh_connections import SshConnections
from tare.errors import RefusedError
from tare.model import Environment, LabSpec, Placement
from tare.model.text import counted
from tare.networks import Wiring
from tare.networks import find as find_network
from tare.system.packages import install
from tare.system.process import find


class SshCluster(RemoteCluster):
    """Use hosts. Its connections are opened by the first question about them, and kept for the run."""

    name = "ssh"
    location = "On these nodes"
    account = "the user of ssh on its node"
    takes_hosts = True

    def probe(self) -> str | None:
        return None if find("ssh") else f"ssh is not installed: {install('openssh-client')}"

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        if placement.nodes > len(spec.hosts):
            return f"cluster ssh has {counted(len(spec.hosts), 'machine')}: list more, or use fewer nodes"
        if reason := refuse_lab_only(self.name, spec, environment):
            return reason
        if spec.nics:
            return refuse_owned(spec, environment)
        return refuse_as_it_is(self.name, environment, "list nics, or use cluster: lab")

    def hosts(self, spec: LabSpec) -> tuple[str, ...]:
        return spec.hosts

    def note(self, spec: LabSpec) -> Mapping[str, Any]:
        return {
            site_folder.HOSTS: [*spec.hosts, *spec.daemon_hosts],
            site_folder.CONFIG: os.path.abspath(spec.ssh_config) if spec.ssh_config else "",
        }

    def connect(self, spec: LabSpec) -> SshConnections:
        if not spec.hosts:
            raise RefusedError(
                "cluster ssh has no hosts", remedy="list them: cluster: {ssh: {hosts: [a, b]}}, or --hosts a,b"
            )
        if spec.daemon_hosts and len(spec.daemon_hosts) != len(spec.hosts):
            raise RefusedError(f"daemon_hosts lists {len(spec.daemon_hosts)} hosts, and hosts {len(spec.hosts)}")
        return SshConnections((*spec.hosts, *spec.daemon_hosts), spec.ssh_config, netlink=bool(spec.nics))


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
