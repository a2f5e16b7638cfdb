"""`tare launch`: run an application in an environment and a placement, in the foreground, as its user would.

Exit codes are those of `docker run`: the application's own, 125 where tare failed, 126 where the program cannot be
executed, 127 where there is none.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare import study
from tare.agent import clean
from tare.cli import session
from tare.cli.commands import Where
from tare.cli.options import LaunchOptions
from tare.cli.output import say
from tare.cli.usage import worded
from tare.clusters import CLUSTERS, Site
from tare.daemons import ssh
from tare.errors import InfrastructureError, RefusedError, TareError, UsageError
from tare.model import Cell, Plan
from tare.model.text import processes_text, without_dashes
from tare.mpi import MPIS
from tare.mpi.launch import PADDING, Launch, write_agent
from tare.networks.wiring.conflist import is_conflist
from tare.run import job, ping_pong
from tare.run.deploy.hosts import Deployed
from tare.study.feasibility import preflight, program_libraries
from tare.study.plan.cells import available
from tare.system import binds, caller_variables, process
from tare.system.namespaces import plain_python
from tare.workloads import program_places

FAILED: Final = 125
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
SIGNALLED: Final = 128
"""What is added to the number of the signal that ended the application."""
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_launch(wanted: LaunchOptions) -> int:
    """Run the application and return the exit code of the command."""
    wanted = replace(wanted, mpi=_where(wanted).mpi(wanted.mpi))
    try:
        wanted = replace(wanted, command=without_dashes(wanted.command))
        program_places.check_no_launcher(wanted.command[0])
        if not in_image_only(wanted) and (status := _unusable(wanted)) is not None:
            return status
        return _run(wanted)
    except TareError as error:
        print(f"tare: {worded(str(error), 'launch')}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt as interrupt:
        name = str(interrupt) or signal.SIGINT.name
        say(f"tare: ended by {name} before the application started: cleaned up")
        return SIGNALLED + signal.Signals[name]


def _where(wanted: LaunchOptions) -> Where:
    return Where.of(wanted.cluster, wanted.hosts, wanted.ssh_config)


def in_image_only(wanted: LaunchOptions) -> bool:
    """Tell whether the program is named by its path in an image, which this machine does not have."""
    program = wanted.command[0]
    return bool(wanted.image) and program.startswith("/") and not Path(program).exists()


def _unusable(wanted: LaunchOptions) -> int | None:
    """Say what is wrong with a program that is named by its path, and return the status for it."""
    program = wanted.command[0]
    if "/" not in program:
        return None
    path = Path(program)
    if not path.is_file():
        print(f"tare: there is no program {program}\n  check its path, or name a program in the image", file=sys.stderr)
        return NOT_FOUND
    try:
        program_places.check_executable(path, program, in_images=bool(wanted.image))
    except RefusedError as error:
        print(f"tare: {error}", file=sys.stderr)
        return NOT_EXECUTABLE
    return None


def make_plan(wanted: LaunchOptions) -> Plan:
    """Return the plan of the one cell that is asked for; a combination that cannot work is reported as in a study."""
    if wanted.ranks % wanted.nodes:
        raise UsageError(
            f"{wanted.ranks} ranks cannot be divided equally among {wanted.nodes} nodes",
            remedy=f"use a multiple of {wanted.nodes} for -n",
        )
    name, _, network = f"{wanted.runtime}+{wanted.network}".partition("+")
    where, bound = _where(wanted), tuple(wanted.bind or ())
    environment: dict[str, object] = {
        "mpi": wanted.mpi,
        **({"transport": wanted.transport} if wanted.transport else {}),
        "launch": wanted.way,
        "control": wanted.control,
        "devices": tuple(wanted.device or ()),
        "binds": bound,
        "workdir": wanted.workdir,
        "env": variables(wanted.env or ()),
    }
    if wanted.image:
        environment["image"] = wanted.image
    if is_conflist(network):  # a path is no part of a name
        environment |= {"runtime": name, "network": network}
        network = "cni"
    stated = study.build(
        {
            "name": "launch",
            "cluster": {"lab": {"nodes": wanted.nodes, "oversubscribe": wanted.oversubscribe}},
            "environments": {f"{name}+{network}" if network else name: environment},
            "placements": [_placement(wanted)],
            "workloads": {"app": {"command": ["app"]}},
        },
        file="tare launch",
    )
    check_binds(bound, where)
    # A study has no empty arguments and compares at least two rows; a launch may have the former and is one.
    workloads = tuple(replace(workload, command=_absolute(wanted.command)) for workload in stated.workloads)
    stated = where.moved(replace(stated, workloads=workloads, self_comparison=False))
    return session.make_plan(stated, say)


def _placement(wanted: LaunchOptions) -> dict[str, object]:
    return {
        "nodes": wanted.nodes,
        "ranks_per_node": wanted.ranks // wanted.nodes,
        "oversubscribe": wanted.oversubscribe,
        "containers_per_node": wanted.containers_per_node,
        "threads_per_rank": wanted.threads_per_rank,
        "share": wanted.share,
        "binding": wanted.binding,
        "map_by": wanted.map_by,
        "memory_per_container": wanted.memory,
        "cpus_per_container": wanted.cpus,
    }


def check_binds(given: Iterable[str], where: Where) -> None:
    """Raise `UsageError` for a bind whose source this machine lacks, if its nodes are here; others look themselves."""
    cluster = CLUSTERS.get(where.cluster or "lab")
    if cluster is not None and cluster.is_here and (reason := binds.probe(given)):
        raise UsageError(reason, remedy="check the path in --bind, or make the folder")


def variables(given: Sequence[str]) -> dict[str, str]:
    """Return `NAME=VALUE` as a mapping; a NAME alone has the value that it has here, as with mpirun and docker run.

    Raises `UsageError` for a NAME that has no value here.
    """
    values = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign and name not in os.environ:
            raise UsageError(f"the variable {name} is not set here", remedy=f"set it, or write {name}=VALUE")
        values[name] = value if sign else os.environ[name]
    return values


def _absolute(command: Sequence[str]) -> tuple[str, ...]:
    program = str(Path(command[0]).absolute()) if "/" in command[0] else command[0]
    return (program, *command[1:])


def _run(wanted: LaunchOptions) -> int:
    started = time.monotonic()
    plan = make_plan(wanted)
    session.check_available(plan)
    (cell,) = available(plan)
    program = cell.workload.command[0]
    if not cell.environment.image and program_places.command_file(program) is None:
        say(f"tare: {program_places.no_such_program(program)}")
        return NOT_FOUND
    on_host = "/" in program and not in_image_only(wanted)
    here = str(Path.cwd())
    own = {program: Path(program)} if on_host and not program_places.is_of_system(Path(program)) else {}
    shown = (*(program_places.folders_of(Path(program)) if own else ()), *program_libraries.folders_of([cell], own))
    for place in shown:
        program_places.check_can_be_shown(place, "the program's folder")
    if here != "/":  # which is everywhere
        program_places.check_can_be_shown(here, "the current folder")
    cwd = here if here != "/" else ""
    plan, made = session.make_ready(plan, say, shown=shown, cwd=cwd, measured=wanted.prove)
    files = made.of(cell.environment)
    if not on_host and cell.environment.image and (reason := preflight.program_missing(cell, files)):
        say(f"tare: {reason}")
        return NOT_FOUND
    session.check_available(plan)
    with (
        session.one_up(plan, files, name=clean.free_name(f"l{os.getpid()}"), say=_told) as (site, _, up),
        ExitStack() as stack,
    ):
        stack.callback(_end_left, up)
        launch = _launch(wanted, site, cell, up)
        agent = write_agent(site.folder, plain_python())
        if wanted.dry_run:
            print(described(launch, str(agent), up, ping_pong.expected(cell.environment, cell.placement)))
            return 0
        if wanted.verbose:
            say(f"tare: pods up in {time.monotonic() - started:.2f} s")
        if wanted.verbose or wanted.prove:
            say(f"tare: {ping_pong.expected(cell.environment, cell.placement)}")
        if wanted.prove and cell.placement.ranks_per_node > 1:
            for sentence in ping_pong.described(ping_pong.ping_pong(site, cell, up, agent)):
                say(f"tare: {sentence}")
        return _attended(wanted, cell, launch, agent, site, up)


def _end_left(up: Deployed) -> None:
    left = up.end_left()
    if left.memory_hit:
        say(f"tare: {left.memory_hit}")
    if left.processes:
        say(f"tare: the launch left {processes_text(left.processes)} behind: ended")


def _launch(wanted: LaunchOptions, site: Site, cell: Cell, up: Deployed) -> Launch:
    launch = job.make_launch(site, cell, up, preload=False)
    options = MPIS[cell.environment.mpi].foreground(str(Path.cwd()), by_rank=wanted.by_rank)
    master = launch.master
    if master is not None:  # an MPI's own option is for its first context alone, the others start where the launcher is
        master = replace(master, argv=(*master.argv, "/bin/sh", "-c", job.IN_FOLDER, str(Path.cwd())))
    return replace(launch, launcher=(*launch.launcher, *options), master=master)


def _attended(wanted: LaunchOptions, cell: Cell, launch: Launch, agent: Path, site: Site, up: Deployed) -> int:
    command = job.command_of(site, up, launch, agent, name="launch")
    variables = {**caller_variables.environment(), **command.environment, PADDING: ""}
    signals: list[int] = []

    def passed_on(number: int) -> bool:
        signals.append(number)
        return job.signal_launcher(up, launch, number)

    started = time.monotonic()
    with job.looked_at(cell, site.pids) as seen:
        status = process.attend(command.argv, env=variables, started=site.adopt, passed_on=passed_on)
    for sentence in filter(None, (seen.alone(), seen.more_threads())):
        say(f"tare: {sentence}")
    if status and (ended_by := next((number for number in signals if number in ENDING), 0)):
        say(f"tare: the application was ended by {signal.Signals(ended_by).name}")
        return SIGNALLED + ended_by
    if status and (missing := up.ended()):
        raise InfrastructureError(f"{missing} while the application ran, which ended with status {status}")
    if wanted.verbose:
        say(f"tare: the job took {time.monotonic() - started:.2f} s, including its start")
    return status


def described(launch: Launch, agent: str, up: Deployed, expectation: str) -> str:
    """Return every command of a launch, one a line, as a shell would take it; `expectation` is about neighbours."""
    lines = [f"# {expectation}", "# on the head", shlex.join(launch.argv(agent))]
    for host in launch.hosts:
        if up.ssh is not None:
            reach = (str(up.ssh / ssh.AGENT_NAME), host.name)
            lines += [f"# the daemon of {host.name}, followed by its command, from the first host", shlex.join(reach)]
        elif host.agent is not None:
            lines += [f"# the daemon of {host.name}, followed by its command", shlex.join(host.agent.argv)]
        for local, entry in enumerate(host.enter):
            lines += [f"# rank {local} of {host.name}, followed by the program", shlex.join(entry.argv)]
    return "\n".join(lines)


def _told(sentence: str) -> None:
    say(f"tare: {sentence}")
