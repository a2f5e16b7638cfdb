"""Bring up a `lab` for a study, with daemons if it needs them, and remove everything afterwards."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tare.agent.local import LocalNode
from tare.agent.protocol import NodeService
from tare.clusters import lab, lab_cores, lab_kubernetes
from tare.clusters.base import Allocated, Cluster, Site, SiteDefaults
from tare.clusters.needs import Needs
from tare.daemons import docker
from tare.errors import LabEnded, MissingTool, TareError
from tare.model import Environment, LabSpec, Placement
from tare.model.topology import Topology
from tare.runtimes.containers.folder_owners import act_as_owners
from tare.system import caller_variables
from tare.system.counters.reader import GroupUsage
from tare.system.counters.sources import Sources
from tare.system.fault import reach
from tare.system.namespaces import AGAIN, ENDED, inside_network
from tare.system.node import Node, Pod, bridges
from tare.system.node.cgroups import bases
from tare.system.node.owners import state_folder
from tare.system.packages import install
from tare.system.process import find
from tare.system.signals import uninterrupted
from tare.system.user_namespace import is_real_root


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSite(SiteDefaults):
    """A lab that is up; `daemon_nodes` are the nodes' twins, which run Docker.

    `usage` reads the lab's CPU time where that is done often; `counted` reads what is counted for the machine.
    """

    name: str
    lab: lab.Lab
    nodes: tuple[Node, ...]
    daemon_nodes: tuple[Node, ...]
    folder: Path
    control_interface: str = "ctl0"
    allocation: Allocated | None = None
    services: dict[str, NodeService] = field(default_factory=dict)
    usage: GroupUsage | None = None
    counted: Sources = field(default_factory=Sources)

    def service(self, node: Node) -> NodeService:
        return self.services.setdefault(node.name, LocalNode(node, self.folder, self._connect, self.counted))

    @property
    def head(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/proc/{self.lab.head_pid}/ns/net", "--")

    @property
    def control_subnet(self) -> str:
        return self.lab.control_subnet

    def listen(self) -> socket.socket | None:
        with inside_network(self.lab.head_pid):
            made = socket.socket()
        made.bind((lab.HEAD_ADDRESS, 0))
        return made

    def adopt(self, pid: int) -> None:
        self.lab.launchers.add(pid)

    def pids(self) -> set[int]:
        return self.lab.group.pids()

    def usage_s(self) -> float:
        return self.usage.seconds() if self.usage else self.lab.group.usage_s()

    def settle(self) -> None:
        # Docker loads br_netfilter, which then applies to every network namespace of the machine, and enables it in its
        # own namespace when it makes a network.
        nodes = (*self.nodes, *self.daemon_nodes)
        lab.plain_bridges([self.lab.head_pid, self.lab.switch_pid, *(node.pid for node in nodes)])

    def check_held(self) -> None:
        if ended := self.lab.ended:
            raise LabEnded(f"{ended} {ENDED}", remedy=AGAIN)

    @contextmanager
    def carries(self, nic: int, mtu: int) -> Iterator[None]:
        before = lab.segment_mtu(self.lab, nic, mtu)
        try:
            yield
        finally:
            lab.restore_mtu(self.lab, before)

    @contextmanager
    def _connect(self, pod: Pod, slot: int) -> Iterator[str]:
        if not pod.own_network:
            yield pod.node.control_address
            return
        name = f"{pod.host or pod.node.name}s{slot}"
        address = f"{lab.CONTROL}.{slot + 1}.{pod.number * len(self.nodes) + pod.node.index + 1}"
        lab.attach_control(self.lab, pod.pid, name=name, address=address)
        try:
            yield address
        finally:
            lab.detach_control(self.lab, name)


class LabCluster(Cluster):
    """Create a lab and remove it."""

    name = "lab"
    emulated = True
    is_here = True
    location = "In this emulated lab"
    needs_root = True

    def probe(self) -> str | None:
        for program, package in (("nsenter", "util-linux"), ("ip", "iproute2")):
            if find(program) is None:
                return f"{program} is not installed: {install(package)}"
        return None

    def makes_pods(self, spec: LabSpec) -> bool:
        return spec.kubernetes.in_lab

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        return lab_kubernetes.refuse(spec, environment, placement) if self.makes_pods(spec) else None

    def apart(self, spec: LabSpec, environments: Sequence[Environment]) -> Mapping[str, str]:
        return lab_kubernetes.apart(environments) if self.makes_pods(spec) else {}

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        return lab_kubernetes.lacks(environment) if self.makes_pods(spec) else super().lacks(spec, environment)

    def topology(self, spec: LabSpec) -> Topology:
        return lab_cores.topology(spec)[0]

    def topology_of(self, spec: LabSpec, nodes: int) -> Topology:
        divides = nodes <= spec.nodes and not self.makes_pods(spec)
        return self.topology(replace(spec, nodes=nodes) if divides else spec)

    @contextmanager
    def open(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[Site]:
        with self._opened(study, spec, needs) as site:
            if not self.makes_pods(spec):
                yield site
                return
            with lab_kubernetes.opened(site, spec, needs) as pods:
                yield pods

    @contextmanager
    def _opened(self, study: str, spec: LabSpec, needs: Needs) -> Iterator[LabSite]:
        if reason := self.probe():
            raise MissingTool(f"the lab cannot be made: {reason}")
        ended = ""
        try:
            with ExitStack() as stack:
                stack.enter_context(caller_variables.in_lab())
                folder = stack.enter_context(state_folder(study, study, cgroups=bases()))
                keep = (*needs.shown, *_current_folder(), str(folder))
                with uninterrupted():
                    counts = frozenset() if self.makes_pods(spec) else needs.node_counts
                    made = lab.up(study, spec, nics=needs.nics, keep=keep, twins=needs.docker, counts=counts)
                    stack.callback(lambda: reach("lab:after-down"))
                    stack.callback(lab.down, made)
                    stack.callback(lambda: reach("lab:before-down"))
                    made.launchers.create()
                    if is_real_root():
                        for node in (*made.nodes, *made.twins):
                            act_as_owners(node.pid, needs.writable)
                reach("lab:up")
                twins = made.twins
                if needs.docker:
                    stack.enter_context(bridges.as_they_were())
                    twins = stack.enter_context(
                        docker.daemons(twins, log_folder=folder, swarm=needs.swarm, store=needs.store)
                    )
                usage = GroupUsage(made.group)
                stack.callback(usage.close)
                site = LabSite(name=study, lab=made, nodes=made.nodes, daemon_nodes=twins, folder=folder, usage=usage)
                stack.callback(site.counted.close)
                try:
                    yield site
                except (OSError, TareError):
                    ended = made.ended
                    raise
        except (OSError, TareError) as error:  # whatever failed because of it, and undoing it
            if ended:
                raise LabEnded(f"{ended} {ENDED}", remedy=AGAIN) from error
            raise


def _current_folder() -> tuple[str, ...]:
    """Return the current folder if nodes would hide it: launchers change to it on every node."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed, or is not readable
        return ()
    return (str(here),) if any(Path(own) in here.parents for own in lab.OWN_FOLDERS) else ()
