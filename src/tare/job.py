"""A job in an environment that is up: its launch, the cores of its ranks, and the end of what it leaves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from tare.cluster import Site
from tare.deploy import Deployed, groups_of
from tare.errors import InfrastructureError
from tare.launch import Launch, bound
from tare.model import Binding, Cell, RankPlace
from tare.mpi import MPIS
from tare.mpi.wiring import MpiWiring
from tare.namespaces import processes_beside
from tare.networks.plug import wait_until_running
from tare.node import Pod
from tare.placement import NodeCores, Topology, place
from tare.workloads import plugin_of


def wait_for_carriers(environments: Iterable[Deployed]) -> None:
    """Wait until the data interfaces of all pods are running."""
    sides = (side for up in environments for side in up.sides)
    for pid, interface in {(side.pod.pid, side.endpoint.interface) for side in sides if side.pod.pid}:
        wait_until_running(pid, interface)


def make_launch(site: Site, cell: Cell, up: Deployed, *, preload: bool = True) -> Launch:
    """Return the launch of a cell in its deployed environment; without `preload` a command runs without our library."""
    plugin = plugin_of(cell.workload)
    wiring = MpiWiring(
        control_subnet=site.control_subnet,
        data_subnet=up.subnet,
        transport=cell.environment.transport,
        interfaces=tuple(side.endpoint.interface for side in up.sides),
    )
    return MPIS[cell.environment.mpi].launch(
        head=site.head,
        hosts=up.hosts(cell.placement),
        placement=cell.placement,
        wiring=wiring,
        programs=tuple(
            bind(plugin.argv(cell.workload, side.prefix), cell, side.pod, ranks=cell.placement.ranks // len(up.sides))
            for side in up.sides
        ),
        environments=tuple(plugin.environment(cell.workload, side.prefix) if preload else {} for side in up.sides),
    )


def bind(program: tuple[str, ...], cell: Cell, pod: Pod, *, ranks: int) -> tuple[str, ...]:
    """Return the program with the `ranks` of a pod bound to cores of their own, where it has more than a rank's."""
    placement, node = cell.placement, pod.node
    if placement.binding is Binding.MPI_DEFAULT or cell.environment.runtime == "fake":
        return program
    slots = place(replace(placement, nodes=1), Topology(nodes=(NodeCores(cores=node.cores),)))
    cores = [slot.cores for slot in slots[pod.number * ranks : (pod.number + 1) * ranks]]
    return program if all(own == node.cores for own in cores) else bound(program, cores)


def end_strays(up: Deployed) -> None:
    """End what a broken launch left in the pods: killing docker exec, for one, leaves the process running."""
    for side in up.sides:
        if not side.pod.group.hierarchies:
            for pid in processes_beside(side.pod.pid) if side.pod.pid else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            continue
        for group, keepers in groups_of(side):
            with suppress(InfrastructureError):
                group.kill(spare=keepers)


def with_node_namespaces(ranks: Sequence[RankPlace], up: Deployed) -> tuple[RankPlace, ...]:
    """Return the ranks with the names of those namespaces that are their node's own."""
    hosts = [_namespaces_of(side.pod.node.pid) for side in up.sides]
    told = []
    for rank in ranks:
        node = hosts[min(rank.rank * len(hosts) // max(1, len(ranks)), len(hosts) - 1)]
        shared = tuple(name for name, inode in rank.namespaces.items() if node.get(name) == inode)
        told.append(replace(rank, node_namespaces=shared))
    return tuple(told)


def _namespaces_of(pid: int) -> dict[str, int]:
    found = {}
    for name in ("net", "ipc", "uts", "pid", "mnt", "user", "cgroup"):
        with suppress(OSError):
            found[name] = os.stat(f"/proc/{pid}/ns/{name}").st_ino
    return found
