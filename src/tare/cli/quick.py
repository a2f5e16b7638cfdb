"""Run `tare quick`: compare the user's program in several environments, without a study file."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import sys
import termios
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

from tare import study
from tare.cli import commands
from tare.cli.commands import Where
from tare.cli.launch_command import check_binds, variables
from tare.cli.options import QuickOptions
from tare.cli.output import say
from tare.cli.session import RESULTS_FOLDER, make_plan
from tare.clusters import CLUSTERS, usual_cluster
from tare.errors import RefusedError, ResultsError, UsageError
from tare.model import LabSpec, Placement, Plan, Study
from tare.model.text import counted, without_dashes
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.store.results import read_plan
from tare.study.plan import composition
from tare.study.plan.cells import expand
from tare.system.topology import read_topology
from tare.workloads import program_places

USUAL: Final = (
    "bare", "bare+image", "bare+bridge", "bare+dockerd",
    "docker+host", "docker+bridge", "docker+direct", "docker+macvlan",
)  # fmt: skip
OTHER_RUNTIMES: Final = ("podman", "apptainer", "charliecloud")
ROOTLESS: Final = {"podman": "podman-rootless"}
"""What an ordinary user has in the place of a runtime that needs root."""
LEAST: Final = 2
"""Fewest environments that can be compared."""
PARTS: Final = re.compile(r"[^A-Za-z0-9._-]+")


def where_of(wanted: QuickOptions) -> Where:
    """Return the cluster that is asked for, and its hosts."""
    return Where.of(wanted.cluster, wanted.hosts, wanted.ssh_config)


def placement_of(wanted: QuickOptions) -> Placement:
    """Return the placement of every launch."""
    return Placement(
        nodes=where_of(wanted).nodes(2) if wanted.nodes is None else wanted.nodes,
        ranks_per_node=_usual_ranks(wanted) if wanted.ranks is None else wanted.ranks,
        containers_per_node=wanted.containers_per_node,
        threads_per_rank=wanted.threads_per_rank,
    )


def _usual_ranks(wanted: QuickOptions) -> int:
    """Return one rank a core on this machine as it is, as an MPI's launcher does, and one a node elsewhere."""
    if wanted.nodes is not None or not where_of(wanted).is_this_machine:
        return 1
    cores = len({thread.core for thread in read_topology(os.sched_getaffinity(0))})
    return max(cores // wanted.threads_per_rank // wanted.containers_per_node, 1) * wanted.containers_per_node


def run_quick(wanted: QuickOptions) -> int:
    """Compare the user's program and return the exit code of the results."""
    command = without_dashes(wanted.command)
    program = _program(command[0], wanted.image)
    read = given_input()
    wanted = on_usual_cluster(replace(wanted, command=[program, *command[1:]]))
    wanted = replace(wanted, mpi=where_of(wanted).mpi(wanted.mpi))
    stated, plan = quick_study(wanted, read), None
    if wanted.environments is None:
        stated, plan = without_unavailable(wanted, stated)
    here = str(Path.cwd())
    shown = (here,) if here != "/" or wanted.writable else ()
    for folder in shown:
        program_places.check_can_be_shown(folder, "the current folder")
    results = wanted.results or results_of(stated.name)
    return commands.run_plan(
        stated, results, plan=plan, fresh=wanted.fresh, shown=shown, live=wanted.live, quiet=wanted.quiet
    )


def on_usual_cluster(wanted: QuickOptions) -> QuickOptions:
    """Return the options with the cluster that this user has, if none is named and it has what is asked for."""
    where, usual = where_of(wanted), usual_cluster()
    if where.cluster or not CLUSTERS[usual].is_real:
        return wanted
    here = replace(wanted, cluster=usual)
    placement = placement_of(here)
    spec = LabSpec(nodes=placement.nodes)
    asked = [study.environment(name) for name in environment_names(here)]
    if any(CLUSTERS[usual].refuse(spec, each, placement) for each in asked):
        return wanted
    say(
        f"tare: comparing on this machine as it is, with {counted(placement.ranks, 'rank')}; "
        "--cluster lab compares in a small cluster made inside it"
    )
    return here


def without_unavailable(wanted: QuickOptions, stated: Study) -> tuple[Study, Plan]:
    """Return the study with those of the usual environments that can run here, and its plan; say why others cannot."""
    plan = make_plan(stated, say)
    reasons = {c.environment.name: plan.unavailable[c.key] for c in plan.cells if c.key in plan.unavailable}
    kept = [each.name for each in stated.environments if each.name not in reasons]
    if stated.baseline in reasons or len(kept) < LEAST or not reasons:
        return stated, plan
    for reason in dict.fromkeys(reasons.values()):
        names = ", ".join(name for name, why in reasons.items() if why == reason)
        say(f"tare: left out: {names}: {reason}")
    fewer = quick_study(replace(wanted, environments=",".join(kept), every=False), stated.workloads[0].input)
    # What was found out about the cells that are kept holds for them without the others.
    return fewer, expand(fewer, lambda *_: None)


def results_of(name: str, below: Path = RESULTS_FOLDER) -> Path:
    """Return the folder of the results of a study: of a program's first command it has no digest at its end."""
    first = below / name.rpartition("-")[0]
    try:
        is_free = read_plan(first)["plan"]["study"]["name"] == name
    except ResultsError:  # there is none, or it is damaged
        is_free = not first.exists()
    except (KeyError, TypeError):
        is_free = False
    return first if is_free else below / name


def quick_study(wanted: QuickOptions, read: str = "") -> Study:
    """Return the study that `tare quick` runs; raise `StudyError` or `UsageError` for wrong options.

    Each launch reads the file `read` as its standard input.
    It is named after the program and a digest of all that is asked for except the rounds and what is shown: the same
    command with more rounds resumes its results, and any other command has results of its own.
    """
    title = PARTS.sub("-", Path(wanted.command[0]).name)[:60].strip("-._") or "program"
    names, placement = environment_names(wanted), placement_of(wanted)
    stated = study.build(
        {
            "name": f"quick-{title}",
            "cluster": {"lab": {"nodes": placement.nodes}},
            "environments": {name: _environment(name, wanted) for name in names},
            "placements": [
                {
                    "nodes": placement.nodes,
                    "ranks_per_node": placement.ranks_per_node,
                    "containers_per_node": placement.containers_per_node,
                    "threads_per_rank": placement.threads_per_rank,
                }
            ],
            "workloads": {"app": {"command": ["app"], "time_limit": wanted.time_limit}},
            "repetition": {"rounds": wanted.rounds, "max_rounds": wanted.rounds},
        },
        file="tare quick",
    )
    check_binds(wanted.bind or (), where_of(wanted))
    asked = replace(
        wanted, rounds=0, live=False, quiet=False, fresh=False, results=None, env=None,
        ranks=placement.ranks_per_node, environments=",".join(names),
    )  # fmt: skip
    identity = repr((asked, variables(wanted.env or ()), read))
    digest = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:8]
    # A study file has no empty arguments; a command line may.
    workloads = tuple(replace(each, command=tuple(wanted.command), input=read) for each in stated.workloads)
    return replace(
        where_of(wanted).moved(stated),
        workloads=workloads,
        name=f"{stated.name}-{digest}",
        writable=str(Path.cwd()) if wanted.writable else "",
    )


def given_input() -> str:
    """Return the file that is this command's standard input, from which each launch is to read; "" if there is none.

    Raises `RefusedError` for a pipe with something in it: it can be read only once. A file of which a part has been
    read already is that of another program, such as a loop of a shell.
    """
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            left = status.st_size if os.lseek(0, 0, os.SEEK_CUR) == 0 else 0
        else:
            waiting = fcntl.ioctl(0, termios.FIONREAD, bytes(4)) if stat.S_ISFIFO(status.st_mode) else bytes(4)
            left = int.from_bytes(waiting, sys.byteorder)
        path = Path("/proc/self/fd/0").readlink() if left else Path()
    except OSError:  # it is closed
        return ""
    if left and not path.is_file():  # a pipe, or a file without a name, as of a shell's `<<`
        raise RefusedError(
            "standard input is a pipe, which only one launch could read",
            remedy="write it to a file and add `< FILE`, or `< /dev/null` if the program reads nothing",
        )
    return str(path) if left else ""


def environment_names(wanted: QuickOptions) -> tuple[str, ...]:
    """Return the environments to compare, the baseline first."""
    if wanted.every and wanted.environments is not None:
        raise UsageError("--all and --environments cannot be combined", remedy="use one of them")
    if wanted.every:
        return ("bare", *every_environment(wanted))
    if wanted.environments is None:
        engine = "docker+overlay" if placement_of(wanted).nodes > 1 else "docker+docker-default"
        others = (ROOTLESS.get(name, name) if os.geteuid() else name for name in OTHER_RUNTIMES)
        return _supported((*USUAL, engine, *others), wanted)
    listed = [name.strip() for name in wanted.environments.split(",")]
    if not all(listed):
        raise UsageError(
            f"--environments {wanted.environments!r} has an empty name",
            remedy="put one comma between two names, as in bare,docker",
        )
    if twice := next((name for name in listed if listed.count(name) > 1), ""):
        raise UsageError(
            f"--environments names {twice} twice",
            remedy="name it once: the baseline, which is the first, is compared with itself anyway",
        )
    return tuple(listed)


def _supported(names: Iterable[str], wanted: QuickOptions) -> tuple[str, ...]:
    """Return the environments that a cluster of machines can have; all of them if it refuses even the first."""
    names, where, placement = tuple(names), where_of(wanted), placement_of(wanted)
    cluster = CLUSTERS.get(where.cluster or "")
    if cluster is None:  # a lab, or a mistake, which is reported
        return names
    spec = LabSpec(nodes=placement.nodes, hosts=where.hosts)
    kept = tuple(n for n in names if cluster.refuse(spec, study.environment(n), placement) is None)
    return kept if names[0] in kept else names


def every_environment(wanted: QuickOptions) -> list[str]:
    """Return each runtime in each network, except bare itself and combinations that cannot work in the placement."""
    runtimes = [name for name, runtime in RUNTIMES.items() if not runtime.is_fake]
    networks = [name for name, network in NETWORKS.items() if not network.is_fake]
    pairs = [f"{runtime}+{network}" for runtime, network in product(runtimes, networks)]
    names = ["bare+image" if name == "bare+host" else name for name in pairs]
    placement = placement_of(wanted)
    possible = (name for name in names if composition.refuse(study.environment(name), placement) is None)
    return list(_supported(("bare", *possible), wanted)[1:])


def _environment(name: str, wanted: QuickOptions) -> dict[str, object]:
    """Return the keys of an environment; keys about images are left out if it has none."""
    keys: dict[str, object] = {"mpi": wanted.mpi, "env": variables(wanted.env or ())}
    if wanted.transport:
        keys["transport"] = wanted.transport
    runtime, *rest = name.split("+")
    if runtime in study.KNOWN.imageless and "image" not in rest[:1]:
        return keys
    if wanted.image:
        keys["image"] = wanted.image
    return {**keys, "binds": tuple(wanted.bind or ())}


def _program(name: str, image: str) -> str:
    """Return the program as ranks start it: its path, or its name if every system has its own copy of it."""
    file = program_places.command_file(name)
    if file is None and "/" in name and not (image and name.startswith("/")):
        raise program_places.no_such_program(name)
    return name if file is None or program_places.is_of_system(file) else str(file)
