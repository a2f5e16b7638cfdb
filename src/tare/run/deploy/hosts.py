"""Describe an environment that is up: its pods as hosts of the MPI, and what can be asked of its nodes."""

from __future__ import annotations

import ipaddress
import signal
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.agent.local import watch_of
from tare.agent.protocol import DescribedPods, LeftBehind, NodeService
from tare.model import Environment, Launching, Placement, RankOrder
from tare.model.placement import host_and_local_rank
from tare.model.text import MOST_NAMES, printable
from tare.mpi.launch import Entry, Host
from tare.mpi.launch.job import Inside
from tare.mpi.launch.srun import entered_by_ranks
from tare.runtimes.containers.held_namespaces import job_group
from tare.system.counters.raw_readings import CounterReading, NodeReading
from tare.system.counters.values import CounterValues, HostWatch, Moment
from tare.system.node import Endpoint, Pod

LONGEST_NAME: Final = 60
"""Characters of a process's name: the kernel has 15 bytes, a remote node may say anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """An environment that is up, its hosts in order of ranks; `ssh` is the folder with its keys, if it uses ssh.

    `nodes` serve it under its `name`. `launcher` is the program that starts jobs, "" if it is this machine's own.
    `inside` is how it starts in the first pod, None if it starts on the head or over ssh.
    """

    environment: Environment
    pods: tuple[Pod, ...]
    name: str = ""
    nodes: tuple[NodeService, ...] = ()
    ssh: Path | None = None
    launcher: str = ""
    inside: Inside | None = None
    rank_order: RankOrder = RankOrder.BLOCK

    @property
    def subnet(self) -> str:
        """Return the data subnets of the hosts for the MPI's options; adjacent subnets are merged.

        Each MPIJob has pods of its own, in which only the interface has the same name: MPIs take that, too.
        """
        if self.environment.launch is Launching.MPIJOB and all(pod.own_network for pod in self.pods):
            return ",".join(dict.fromkeys(pod.endpoint.interface for pod in self.pods))
        found = {ipaddress.IPv4Network(subnet_of(pod.endpoint)) for pod in self.pods}
        return ",".join(map(str, ipaddress.collapse_addresses(found)))

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts to record about its network: the MTU and the endpoints' facts, per host if they differ."""
        told = {pod.host or pod.node.name: {"mtu": str(pod.endpoint.mtu), **pod.endpoint.facts} for pod in self.pods}
        return _by_host(told)

    @property
    def watches(self) -> tuple[HostWatch, ...]:
        """Return what is watched of its hosts."""
        return tuple(map(watch_of, self.pods))

    @property
    def shares_nics(self) -> bool:
        """Return whether other programs may use the interfaces of its hosts: those of a machine as it is."""
        return any(pod.node.is_machine and not pod.own_network for pod in self.pods)

    def hosts(self, placement: Placement) -> tuple[Host, ...]:
        """Return the hosts as the MPI sees them."""
        ranks = placement.ranks // len(self.pods)
        if self.environment.launch is Launching.SRUN:
            return tuple(started_by_scheduler(pod, ranks) for pod in self.pods)
        return tuple(host_of(pod, ranks) for pod in self.pods)

    def place_of(self, rank: int, ranks: int) -> tuple[Pod, int]:
        """Return a rank's host, and its number there, in a job with so many ranks, the same number on each host."""
        host, local = host_and_local_rank(rank, ranks=ranks, hosts=len(self.pods), order=self.rank_order)
        return self.pods[host], local

    def wait_until_ready(self) -> None:
        """Wait until the data interfaces of all pods are running; what runs in the pods now is no launch's."""
        for node in self.nodes:
            node.wait_until_ready(self.name)

    @contextmanager
    def preferred(self, weight: int) -> Iterator[None]:
        """Give the job a weight against other programs of its nodes until the context ends; 0 changes nothing."""
        if not weight:
            yield
            return
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.prefer, 0)
                node.prefer(weight)
            yield

    def counters(self, moment: Moment | None = None, *, whole: bool = True) -> CounterValues:
        """Return the counters of all nodes at a moment, by default now (see `take`)."""
        return self.take(moment or Moment(), whole=whole).values()

    def take(self, moment: Moment, *, whole: bool = True, begins: bool = False) -> CounterReading:
        """Read the counters of all nodes at a moment.

        Unless `whole`, only those that other launches change, too. A machine's are read by the first of its nodes. If a
        launch `begins`, the network of a lab's node is not read again after the end of the launch that used it before.
        """
        since = moment.since if begins else 0
        machines: set[str] = set()
        taken: list[NodeReading] = []
        for node in self.nodes:
            machine = node.node.machine
            taken.append(node.counters(self.name, whole, machine not in machines, moment.number, since))
            machines.add(machine)
        return CounterReading(moment=moment, nodes=tuple(taken))

    def described(self) -> tuple[DescribedPods, ...]:
        """Return what a launch that has ended has run in, on each of the nodes."""
        return tuple(node.described(self.name) for node in self.nodes)

    def state(self, described: Iterable[DescribedPods]) -> dict[str, str]:
        """Return the settings of its hosts' data interfaces and paths, per host if they differ, and `facts`."""
        read = [dict(state) for of_node in described for state in of_node.state]
        names = [pod.host or pod.node.name for pod in self.pods]
        return _by_host(dict(zip(names, read, strict=False))) | self.facts

    def ended(self) -> str | None:
        """Return which container or daemon has ended although it should be running, or None."""
        return next((reason for node in self.nodes if (reason := node.ended(self.name))), None)

    def end_left(self) -> LeftBehind:
        """Kill what launches left behind in the pods, when none runs; return that, and the limit that they have hit."""
        left, hits = Counter[str](), list[str]()
        for node in self.nodes:
            of_node = node.end_left(self.name)
            hits.append(of_node.memory_hit)
            for name, count in of_node.processes.items():
                left[printable(name)[:LONGEST_NAME]] += int(count)
        others = left.total() - sum(count for _, count in left.most_common(MOST_NAMES))
        named = dict(left.most_common(MOST_NAMES)) | ({"others": others} if others else {})
        return LeftBehind(processes=named, memory_hit=next(filter(None, hits), ""))

    def end_named(self, key: str) -> int:
        """Kill the processes of launches whose command line contains a key; return how many there were."""
        return sum(node.signal(int(signal.SIGKILL), (), key) for node in self.nodes)

    def signal_first(self, programs: Collection[str], number: int) -> bool:
        """Send a signal to programs on the first node; return whether any was running."""
        return bool(self.nodes[0].signal(int(number), tuple(programs)))


def host_of(pod: Pod, ranks: int) -> Host:
    """Return a pod as a host of the MPI.

    The MPI's daemon is started in the pod's container, so that ranks need not enter it. If the pod has several
    containers, the daemon is started outside of them, in their network, and each rank enters its own container. All
    ranks of a host are thus children of one daemon and share memory (METHOD.md section 2).
    """
    name = pod.host or pod.node.name
    if pod.containers:
        agent = Entry(
            argv=(*pod.outside, "env", f"TMPDIR={pod.session}"),
            cgroups=(*job_group(pod.node).names, *pod.node.launches.names),
            cpus=pod.node.cores,
        )
        own = (pod.containers[local * len(pod.containers) // ranks] for local in range(ranks))
        enter = tuple(Entry(argv=each.enter, carry=each.carry, cgroups=each.joins) for each in own)
        return Host(name=name, ranks=ranks, agent=agent, enter=enter)
    agent = Entry(
        argv=(*pod.enter, *(("env", *pod.variables) if pod.variables else ())),
        cgroups=(*pod.group.names, *pod.node.launches.names) if pod.join_groups else (),
        cpus=pod.node.cores if pod.join_groups else (),
    )
    return Host(name=name, ranks=ranks, agent=agent)


def started_by_scheduler(pod: Pod, ranks: int) -> Host:
    """Return a pod as a host whose ranks a scheduler starts on the node: each enters the pod or its container."""
    host = host_of(pod, ranks)
    if pod.containers:
        return entered_by_ranks(host, pod.outside, pod.node.machine)
    return entered_by_ranks(host, host.agent.argv if host.agent else (), pod.node.machine)


def _by_host(facts: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """Return facts by name if all hosts have the same, else by name and host."""
    first = next(iter(facts.values()), {})
    if all(own == first for own in facts.values()):
        return first
    return {f"{name} of {host}": text for host, own in facts.items() for name, text in own.items()}


def subnet_of(endpoint: Endpoint) -> str:
    """Return the subnet of an endpoint's address."""
    return str(ipaddress.ip_interface(f"{endpoint.address}/{endpoint.prefix}").network)
