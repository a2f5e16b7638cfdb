"""Build a job's launch in a deployed environment, bind its ranks to cores, and end its remaining processes."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.cluster import Site
from tare.deploy.hosts import Deployed
from tare.errors import InfrastructureError
from tare.host.namespaces import processes_beside, runs
from tare.launch import Entry, Launch, bound
from tare.launch.job_networks import MpiWiring
from tare.model import Binding, Cell, Control, Environment, RankPlace
from tare.model.placement import Topology, place
from tare.mpi import MPIS
from tare.node import Pod, limits
from tare.node_service.geometry import as_launched
from tare.node_service.sides import Side, groups_of, held_to
from tare.run import proof
from tare.runtimes import RUNTIMES
from tare.services import ssh
from tare.summary import surroundings
from tare.summary.surroundings import USUAL_DEVICES, WITHOUT_DEVICES
from tare.wiring.plug import wait_until_running
from tare.workloads import plugin_of

IN_FOLDER: Final = 'cd "$0" && exec "$@"'
CONTROL_INTERFACE: Final = "ctl0"
BECOMES: Final = "prterun"
"""The process name of Open MPI 5's mpirun."""


def wait_for_carriers(environments: Iterable[Deployed]) -> None:
    """Wait until the data interfaces of all pods are running."""
    sides = (side for up in environments for side in up.sides)
    for pid, interface in {(side.pod.pid, side.endpoint.interface) for side in sides if side.pod.pid}:
        wait_until_running(pid, interface)


def make_launch(site: Site, cell: Cell, up: Deployed, *, preload: bool = True, asks: bool = False) -> Launch:
    """Return the launch of a cell in its deployed environment.

    Without `preload`, a command runs without tare's library. With `asks`, the MPI's library reports the transport that
    it selected.
    """
    plugin = plugin_of(cell.workload)
    launch = MPIS[cell.environment.mpi].launch(
        head=site.head if up.ssh is None else (),
        hosts=up.hosts(cell.placement),
        placement=cell.placement,
        wiring=replace(wiring_of(site, cell.environment, up), asks=asks),
        programs=tuple(
            in_folder(
                cell.environment.workdir,
                bind(
                    plugin.argv(cell.workload, side.prefix),
                    cell,
                    side.pod,
                    ranks=cell.placement.ranks // len(up.sides),
                ),
            )
            for side in up.sides
        ),
        environments=tuple(plugin.environment(cell.workload, side.prefix) if preload else {} for side in up.sides),
    )
    return launch if up.ssh is None else replace(launch, master=master_entry(up.sides[0]))


def wiring_of(site: Site, environment: Environment, up: Deployed) -> MpiWiring:
    """Return the description of the networks for the MPI, and the location of its launcher."""
    over_data = environment.control is Control.DATA
    return MpiWiring(
        control_subnet=up.subnet if over_data else site.control_subnet,
        data_subnet=up.subnet,
        transport=environment.transport,
        control_interface=up.sides[0].endpoint.interface if over_data else CONTROL_INTERFACE,
        interfaces=tuple(side.endpoint.interface for side in up.sides),
        ports=tuple(side.endpoint.port for side in up.sides) if any(side.endpoint.port for side in up.sides) else (),
        roce=any(side.endpoint.roce for side in up.sides),
        launcher=up.launcher,
    )


def master_entry(side: Side) -> Entry:
    """Return how a launcher for ssh enters the first pod, where it finds its hosts and keys."""
    pod = side.pod
    groups = tuple(str(folder) for folder in pod.group.folders) if pod.join_groups else ()
    return Entry(argv=pod.enter, cgroups=groups, cpus=pod.node.cores if pod.join_groups else (), carry=True)


def head_environment(site: Site, environment: Environment, up: Deployed, agent: Path) -> dict[str, str]:
    """Return the launcher's variables: how it starts its daemons, and its folder for temporary files.

    A launcher inside an image uses the image's own /tmp.
    """
    reach = agent if up.ssh is None else up.ssh / ssh.AGENT_NAME
    told = dict(MPIS[environment.mpi].head_environment(str(reach)))
    if up.ssh is not None:
        told["TMPDIR"] = "/tmp" if environment.image else str(site.folder)
    return told


def bind(program: tuple[str, ...], cell: Cell, pod: Pod, *, ranks: int) -> tuple[str, ...]:
    """Return the program with a pod's `ranks` bound to their own cores, unless each has exactly the node's cores."""
    placement, node = cell.placement, pod.node
    if placement.binding is Binding.MPI_DEFAULT or RUNTIMES[cell.environment.runtime].is_fake:
        return program
    one_node = replace(as_launched(cell.environment, placement), nodes=1)
    slots = place(one_node, Topology(nodes=(node.places,)))
    cores = [slot.cores for slot in slots[pod.number * ranks : (pod.number + 1) * ranks]]
    return program if all(own == node.cores for own in cores) else bound(program, cores)


def in_folder(folder: str, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return a program that starts in `folder` ("": any); no MPI has such an option for its first context alone."""
    return ("/bin/sh", "-c", IN_FOLDER, folder, *program) if folder else program


def signal_launcher(up: Deployed, launch: Launch, number: int) -> bool:
    """Send a signal to a launcher in the first pod, because the command that entered it (docker exec) forwards none.

    Return whether the launcher was running.
    """
    if launch.master is None:
        return False
    names = {Path(launch.launcher[0]).name, BECOMES}
    found = [pid for pid in up.sides[0].pod.group.pids() if _argv0(pid) in names]
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(found)


def _argv0(pid: int) -> str:
    with suppress(OSError):
        return Path(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])).name
    return ""


def gone(up: Deployed) -> str | None:
    """Return which container or daemon of an environment has ended although it should be running, or None.

    Runtimes whose containers live only as long as a rank hold namespaces instead, or use the node itself if they need
    none.
    """
    for side in up.sides:
        pod = side.pod
        held = [(f"the container {pod.container}" if pod.container else f"what holds the pod {pod.name}", pod.pid)]
        held += [(f"the container {each.name}", each.pid) for each in side.containers]
        held += list(side.endpoint.daemons.items())
        for what, pid in held:
            if pid and not runs(pid):
                return f"{what} on {pod.node.name} has ended"
    return None


def keepers_of(up: Deployed) -> frozenset[int]:
    """Return the processes that keep an environment up, including its sshd."""
    return frozenset(pid for side in up.sides for _, keepers in groups_of(side) for pid in keepers)


def end_strays(up: Deployed, spare: Collection[int] = ()) -> None:
    """Kill what remains of a failed launch in the pods: killing docker exec, for one, leaves its process running.

    `spare` are the processes that keep other environments up: several environments on a node share a cgroup.
    """
    for side in up.sides:
        if not side.pod.group.hierarchies:
            for pid in processes_beside(side.pod.pid) if side.pod.pid else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            continue
        for group, keepers in groups_of(side):
            with suppress(InfrastructureError):
                group.kill(spare=keepers.union(spare))


def with_node_namespaces(ranks: Sequence[RankPlace], up: Deployed) -> tuple[RankPlace, ...]:
    """Return the ranks with the names of those namespaces that they share with their node."""
    hosts = [_namespaces_of(side.pod.node.pid) for side in up.sides]
    told = []
    for rank in ranks:
        node = hosts[min(rank.rank * len(hosts) // max(1, len(ranks)), len(hosts) - 1)]
        shared = tuple(name for name, inode in rank.namespaces.items() if node.get(name) == inode)
        told.append(replace(rank, node_namespaces=shared))
    return tuple(told)


def with_core_sharers(ranks: Sequence[RankPlace], up: Deployed) -> tuple[RankPlace, ...]:
    """Return the ranks with the ranks that are on other hardware threads of their cores."""
    nodes = [side.pod.node for side in up.sides]
    placed = [(rank, nodes[min(rank.rank * len(nodes) // max(1, len(ranks)), len(nodes) - 1)]) for rank in ranks]
    sharers = proof.core_sharers(placed)
    return tuple(replace(rank, core_sharers=sharers[rank.rank]) for rank in ranks)


def with_surroundings(
    ranks: Sequence[RankPlace], up: Deployed, known: dict[int, surroundings.NodeHas]
) -> tuple[RankPlace, ...]:
    """Return the ranks with a description of what they can access on their nodes, and of how they entered their pods.

    `known` holds the devices and file systems of nodes by process; nodes that are missing are inspected and added.
    """
    for pid in {side.pod.node.pid for side in up.sides} - known.keys():
        known[pid] = node_has(pid)
    hosts = [(known[side.pod.node.pid], side.pod.setuid) for side in up.sides]
    told = []
    for rank in ranks:
        node, setuid = hosts[min(rank.rank * len(hosts) // max(1, len(ranks)), len(hosts) - 1)]
        told.append(replace(rank, rights={**surroundings.in_words(rank.rights, node), "setuid": setuid}))
    return tuple(told)


def with_limits(ranks: Sequence[RankPlace], up: Deployed) -> tuple[RankPlace, ...]:
    """Return the ranks with their containers' limits, as the kernel reports them outside of the containers."""
    hosts = [[limits.in_words(group) for _, group in held_to(side)] for side in up.sides]
    each = max(1, len(ranks) // len(hosts))
    told = []
    for rank in ranks:
        words = hosts[min(rank.rank // each, len(hosts) - 1)]
        own = words[min(rank.rank % each * len(words) // each, len(words) - 1)]
        told.append(replace(rank, rights={**rank.rights, "limits": own}))
    return tuple(told)


def memory_kills(up: Deployed) -> dict[str, int]:
    """Return for each container how many processes the kernel has killed for exceeding its memory limit."""
    return {what: limits.memory_kills(group) for side in up.sides for what, group in held_to(side)}


def memory_hit(up: Deployed, before: Mapping[str, int]) -> str | None:
    """Return a sentence that names the container that has hit its memory limit since `before`, or None."""
    for side in up.sides:
        for what, group in held_to(side):
            if limits.memory_kills(group) > before.get(what, 0):
                return limits.memory_hit(what, group)
    return None


def node_has(pid: int) -> surroundings.NodeHas:
    """Return a node's devices and file systems; empty if the node is not on this machine. Takes milliseconds."""
    top = f"/proc/{pid}/root/dev"
    devices = set()
    for folder, below, names in os.walk(top):
        if folder == top:
            below[:] = [name for name in below if name not in WITHOUT_DEVICES]
        paths = (os.path.join(folder, name) for name in names)
        devices |= {os.path.relpath(path, top) for path in paths if _is_device(path)}
    try:
        numbers = surroundings.mounted_numbers(Path(f"/proc/{pid}/mountinfo").read_text())
    except OSError:
        numbers = frozenset()
    return surroundings.NodeHas(devices=frozenset(devices - USUAL_DEVICES), file_systems=numbers)


def _is_device(path: str) -> bool:
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    return False


def _namespaces_of(pid: int) -> dict[str, int]:
    found = {}
    for name in ("net", "ipc", "uts", "pid", "mnt", "user", "cgroup"):
        with suppress(OSError):
            found[name] = os.stat(f"/proc/{pid}/ns/{name}").st_ino
    return found
