"""Build a job's launch in a deployed environment, bind its ranks to cores, and start it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.agent.geometry import as_launched
from tare.clusters import Site
from tare.daemons import ssh
from tare.errors import RefusedError
from tare.images.inside.inspect import LIBRARIES
from tare.model import Binding, Cell, Control, Environment, Launching, Placement, RankOrder
from tare.model.placement import place
from tare.model.topology import Topology
from tare.mpi import MPIS
from tare.mpi.launch import BIND, PADDING, Entry, Host, Launch, bound, bound_by_rank, core_lists, write_map
from tare.mpi.launch.job import Job, JobHost, MpiWiring
from tare.mpi.launch.srun import launch_by_srun
from tare.run.deploy.hosts import Deployed
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.deployment import is_inside
from tare.system import caller_variables
from tare.system.fault import reach
from tare.system.node import Pod
from tare.system.node.sightings import Sightings, watched
from tare.system.process import Result, run
from tare.workloads import plugin_of
from tare.workloads.parts import of_launch

ROOT: Final = Path("/")
RESERVED_PORTS: Final = 4
PRELOAD: Final = "LD_PRELOAD"
IN_FOLDER: Final = 'cd "$0" && exec "$@"'
BECOMES: Final = "prterun"
"""The process name of Open MPI 5's mpirun."""


def make_launch(site: Site, cell: Cell, up: Deployed, *, preload: bool = True, asks: bool = False) -> Launch:
    """Return the launch of a cell in its deployed environment.

    Without `preload`, a command runs without tare's library. With `asks`, the MPI's library reports the transport that
    it selected.
    """
    plugin, environment = plugin_of(cell.workload), cell.environment
    by_rank = cores_by_rank(cell, up.pods)
    members = tuple(
        JobHost(
            host=host if host.alias else reached(host, site.reach(pod.node), attached=site.allocation is not None),
            program=in_folder(
                environment.workdir,
                bound_by_rank(plugin.argv(cell.workload, pod.prefix), by_rank)
                if by_rank
                else bind(plugin.argv(cell.workload, pod.prefix), cell, pod, ranks=host.ranks),
            ),
            environment={
                **(preloading(plugin.environment(cell.workload, pod.prefix), environment.env) if preload else {}),
                **bind_variables(cell, pod, ranks=host.ranks),
            },
            interface=pod.endpoint.interface,
            port=pod.endpoint.port,
            inside=bool(environment.image) and is_inside(environment.sides, number, len(up.pods)),
        )
        for number, (host, pod) in enumerate(zip(up.hosts(cell.placement), up.pods, strict=True))
    )
    job = Job(
        head=site.head if up.ssh is None and up.inside is None else (),
        members=members,
        placement=as_bound(environment, cell.placement),
        wiring=replace(wiring_of(site, environment, up), asks=asks),
    )
    launch = launch_of(job, environment)
    if cell.placement.rank_order is not RankOrder.BLOCK and len(launch.contexts) > 1:
        raise RefusedError(
            f"rank_order: {cell.placement.rank_order} is impossible where ranks of hosts get different variables",
            remedy="leave rank_order out, or use launch: srun",
        )
    if up.inside is not None:
        each = launch.hosts[0].ranks // (len(up.pods[0].containers) or 1)
        return replace(launch, master=up.inside.entry, wrapper=(up.inside.rank, str(each)))
    return launch if up.ssh is None else replace(launch, master=master_entry(up.pods[0]))


def preloading(told: Mapping[str, str], own: Sequence[str]) -> dict[str, str]:
    """Return a workload's variables with the libraries that the environment's own variables preload after tare's.

    What a launch tells its ranks replaces the environment's variables, which have an allocator or a profiler there.
    """
    wanted = dict(text.partition("=")[::2] for text in own).get(PRELOAD, "")
    both = ":".join(filter(None, (told.get(PRELOAD, ""), wanted)))
    return {**told, PRELOAD: both} if PRELOAD in told else dict(told)


def launch_of(job: Job, environment: Environment) -> Launch:
    """Return the launch of a job by its MPI's launcher, or by srun."""
    mpi = MPIS[environment.mpi]
    if environment.launch is not Launching.SRUN:
        return mpi.launch(job)
    return launch_by_srun(job, mpi.for_srun(job), program="srun", pmi=environment.pmi or mpi.pmis[0])


def reached(host: Host, via: tuple[str, ...], *, attached: bool = False) -> Host:
    """Return a host whose daemon is started through another machine's shell; without `via` it is unchanged.

    `attached`: what the shell starts ends with it, as in a step of a batch system.
    """
    return replace(host, agent=replace(host.agent or Entry(), via=via, attached=attached)) if via else host


def wiring_of(site: Site, environment: Environment, up: Deployed) -> MpiWiring:
    """Return the description of the networks for the MPI, and the location of its launcher."""
    over_data = environment.control is Control.DATA or up.inside is not None
    return MpiWiring(
        control_subnet=up.subnet if over_data else site.control_subnet,
        data_subnet=up.subnet,
        transport=environment.transport,
        control_interface=up.pods[0].endpoint.interface if over_data else site.control_interface,
        roce=any(pod.endpoint.roce for pod in up.pods),
        launcher=up.launcher,
    )


def master_entry(pod: Pod) -> Entry:
    """Return how a launcher for ssh enters the first pod, where it finds its hosts and keys."""
    groups = tuple(str(folder) for folder in pod.group.folders) if pod.join_groups else ()
    return Entry(argv=pod.enter, cgroups=groups, cpus=pod.node.cores if pod.join_groups else (), carry=True)


def port_of(name: str, first: int, last: int) -> int:
    """Return the port on which a launch's launcher listens: its own, because launches of a block run side by side.

    The last ports are those of `Site.listen`.
    """
    number = name.rpartition("-")[2]
    return first + (int(number) if number.isdigit() else 0) % (last - first - RESERVED_PORTS)


def head_environment(site: Site, environment: Environment, up: Deployed, agent: Path, name: str) -> dict[str, str]:
    """Return the launcher's variables: how it starts its daemons, and its folder for temporary files.

    A launcher inside an image uses the image's own /tmp.
    """
    if up.inside is not None:
        return {**MPIS[environment.mpi].head_environment(up.inside.agent), "TMPDIR": up.inside.folder}
    reach = agent if up.ssh is None else up.ssh / ssh.AGENT_NAME
    told = dict(MPIS[environment.mpi].head_environment(str(reach)))
    pod = up.pods[0]
    if pod.own_network and pod.node.head_ports:
        told |= MPIS[environment.mpi].listen_on(port_of(name, *pod.node.head_ports))
    if up.ssh is not None:
        told["TMPDIR"] = "/tmp" if environment.image else str(site.folder)
    return told


def bind(program: tuple[str, ...], cell: Cell, pod: Pod, *, ranks: int) -> tuple[str, ...]:
    """Return the program with a pod's `ranks` bound to their own cores, unless each has exactly the node's cores.

    srun starts one command on all hosts, where a variable says which cores.
    """
    if cell.environment.launch is Launching.SRUN:
        placement = as_bound(cell.environment, cell.placement)
        return bound(program, ()) if placement.binding is not Binding.MPI_DEFAULT else program
    cores = cores_of_ranks(cell, pod, ranks=ranks)
    return bound(program, cores) if cores else program


def cores_by_rank(cell: Cell, pods: Sequence[Pod]) -> tuple[tuple[int, ...], ...]:
    """Return the cores of each rank of a job whose ranks go to its hosts in turn, in order of ranks; else none.

    With them the command is the same on all hosts, which launchers need for that order. None if no rank is to be bound,
    or srun starts them: its ranks learn the cores of their host from a variable.
    """
    if cell.placement.rank_order is RankOrder.BLOCK or cell.environment.launch is Launching.SRUN:
        return ()
    ranks = cell.placement.ranks // len(pods)
    found = [cores_of_ranks(cell, pod, ranks=ranks) for pod in pods]
    if not any(found):
        return ()
    of_hosts = [own or (pod.node.cores,) * ranks for own, pod in zip(found, pods, strict=True)]
    return tuple(own[local] for local in range(ranks) for own in of_hosts)


def bind_variables(cell: Cell, pod: Pod, *, ranks: int) -> dict[str, str]:
    """Return the variable that binds a pod's ranks where one command starts the ranks of all hosts."""
    cores = cores_of_ranks(cell, pod, ranks=ranks) if cell.environment.launch is Launching.SRUN else ()
    return {BIND: core_lists(cores)} if cores else {}


def cores_of_ranks(cell: Cell, pod: Pod, *, ranks: int) -> tuple[tuple[int, ...], ...]:
    """Return the cores of each of a pod's ranks; none if they are not to be bound, or each has the node's cores."""
    placement, node = as_bound(cell.environment, cell.placement), pod.node
    if placement.binding is Binding.MPI_DEFAULT or RUNTIMES[cell.environment.runtime].is_fake:
        return ()
    one_node = replace(as_launched(cell.environment, placement), nodes=1)
    slots = place(one_node, Topology(nodes=(node.places,)))
    cores = tuple(slot.cores for slot in slots[pod.number * ranks : (pod.number + 1) * ranks])
    return () if all(own == node.cores for own in cores) else cores


def as_bound(environment: Environment, placement: Placement) -> Placement:
    """Return the placement with the binding that its ranks get: an MPI that is left as it is binds them itself."""
    return placement if MPIS[environment.mpi].pins else replace(placement, binding=Binding.MPI_DEFAULT)


def in_folder(folder: str, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return a program that starts in `folder` ("": any); no MPI has such an option for its first context alone."""
    return ("/bin/sh", "-c", IN_FOLDER, folder, *program) if folder else program


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """A launch that can be started: its argv, and the variables of the launcher."""

    launch: Launch
    argv: tuple[str, ...]
    environment: Mapping[str, str]


def command_of(site: Site, up: Deployed, launch: Launch, agent: Path, *, name: str) -> LaunchCommand:
    """Write the launch map of a launch and return its command; `name` distinguishes the maps of a site."""
    path = site.folder / f"{name}.json"
    write_map(launch, path)
    if launch.wraps_ranks:
        site.show(path, [node.node for node in up.nodes])
    variables = head_environment(site, up.environment, up, agent, name)
    return LaunchCommand(
        launch=launch,
        argv=launch.argv(str(agent)),
        environment={**variables, "TARE_LAUNCH_MAP": str(path)},
    )


def started(
    site: Site,
    command: LaunchCommand,
    *,
    timeout_s: float | None,
    padding: int = 0,
    key: str = "",
    cwd: Path | None = ROOT,
    stdin: Path | None = None,
    at_limit: Callable[[], str] | None = None,
    stop: socket.socket | None = None,
) -> Result:
    """Run a launch to its end or its time limit; `padding` is the length of a variable without meaning.

    The MPI's launcher passes the file `stdin` on to its first rank. In the returned stdout only the records of this
    launch are marked as such: those that a program prints of an earlier one lack its `key`, by default a new one. MPI
    starts ranks in its own working folder if the node has it; tare's programs need none, so it is /. At the limit,
    `at_limit` describes what still runs. `stop` ends the launch at any time.
    """

    def adopt(pid: int) -> None:
        site.adopt(pid)
        reach("launch:started")

    key = key or secrets.token_hex(8)
    others = {
        name: value
        for name, value in {**caller_variables.environment(), **command.environment}.items()
        if name != PADDING
    }
    result = run(
        command.argv,
        env={PADDING: f"{key}:{'x' * padding}", **others},  # MPICH 4.0 passes the last to no rank
        timeout_s=timeout_s,
        cwd=cwd,
        stdin=stdin,
        check=False,
        started=adopt,
        at_limit=at_limit,
        stop=stop,
    )
    return replace(result, stdout=of_launch(result.stdout, key))


@contextmanager
def looked_at(cell: Cell, pids: Callable[[], Collection[int]]) -> Iterator[Sightings]:
    """Look at the ranks of a launch while the block runs, unless srun starts them, or nothing does."""
    mpi, environment = MPIS[cell.environment.mpi], cell.environment
    titles = {each.family: each.title for each in reversed(tuple(MPIS.values())) if each.pins and not each.is_fake}
    sightings = Sightings(family=mpi.family, ranks=cell.placement.ranks, libraries=LIBRARIES, titles=titles)
    is_seen = not mpi.is_fake and not RUNTIMES[environment.runtime].is_fake
    with watched(sightings, pids) if is_seen and environment.launch is not Launching.SRUN else nullcontext():
        yield sightings


def signal_launcher(up: Deployed, launch: Launch, number: int) -> bool:
    """Send a signal to a launcher in the first pod, because the command that entered it (docker exec) forwards none.

    Return whether the launcher was running.
    """
    return launch.master is not None and up.signal_first({Path(launch.launcher[0]).name, BECOMES}, number)
