"""Run `tare quick`: compare the user's program in several environments, without a study file."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from tare import study
from tare.cli import commands
from tare.cli.launch_command import variables
from tare.errors import UsageError
from tare.live import Door
from tare.model import Placement, Study
from tare.model.text import without_dashes
from tare.networks import NETWORKS
from tare.plan import composition
from tare.runtimes import RUNTIMES
from tare.workloads import located

USUAL: Final = (
    "bare", "bare+image", "bare+bridge", "bare+dockerd",
    "docker+host", "docker+bridge", "docker+direct", "docker+macvlan",
)  # fmt: skip
OTHER_RUNTIMES: Final = ("podman", "apptainer", "charliecloud")
PARTS: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of `tare quick`; `ranks` is the number on each node.

    The usual environments are compared unless `environments` names others, or `every` asks for each runtime in each
    network that it supports. `binds` are shown in images, and `writable` lets the program write to the current folder.
    With `live`, browsers can follow the run.
    """

    command: tuple[str, ...]
    rounds: int = 10
    ranks: int = 1
    nodes: int = 2
    containers_per_node: int = 1
    time_limit_s: float = 600.0
    environments: str = ""
    every: bool = False
    mpi: str = "openmpi"
    transport: str = ""
    image: str = ""
    binds: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    writable: bool = False
    live: bool = False


def run_quick(wanted: Wanted, results: Path | None, *, fresh: bool = False) -> int:
    """Compare the user's program and return the exit code of the results."""
    command = tuple(without_dashes(wanted.command))
    stated = quick_study(replace(wanted, command=(_program(command[0], wanted.image), *command[1:])))
    here = str(Path.cwd())
    shown = (here,) if here != "/" or wanted.writable else ()
    for folder in shown:
        located.check_can_be_shown(folder, "the current folder")
    with Door.open() if wanted.live else nullcontext() as door:
        return commands.run_plan(
            stated, results, fresh=fresh, shown=shown, writable=here if wanted.writable else "", door=door
        )


def quick_study(wanted: Wanted) -> Study:
    """Return the study that `tare quick` runs; raise `StudyError` or `UsageError` for wrong options."""
    title = PARTS.sub("-", Path(wanted.command[0]).name)[:60].strip("-._") or "program"
    names = environment_names(wanted)
    stated = study.build(
        {
            "name": f"quick-{title}",
            "cluster": {"lab": {"nodes": wanted.nodes}},
            "environments": {name: _environment(name, wanted) for name in names},
            "placements": [
                {
                    "nodes": wanted.nodes,
                    "ranks_per_node": wanted.ranks,
                    "containers_per_node": wanted.containers_per_node,
                }
            ],
            "workloads": {"app": {"command": ["app"], "time_limit": wanted.time_limit_s}},
            "repetition": {"rounds": wanted.rounds, "max_rounds": wanted.rounds},
        },
        file="tare quick",
    )
    # A study file has no empty arguments; a command line may.
    workloads = tuple(replace(workload, command=wanted.command) for workload in stated.workloads)
    return replace(stated, workloads=workloads)


def environment_names(wanted: Wanted) -> tuple[str, ...]:
    """Return the environments to compare, the baseline first."""
    if wanted.every and wanted.environments:
        raise UsageError("--all and --environments cannot be combined", remedy="use one of them")
    if wanted.every:
        return ("bare", *every_environment(wanted))
    if wanted.environments:
        listed = tuple(dict.fromkeys(name.strip() for name in wanted.environments.split(",")))
        if not all(listed):
            raise UsageError(
                f"--environments {wanted.environments!r} has an empty name",
                remedy="put one comma between two names, as in bare,docker",
            )
        return listed
    engine = "docker+overlay" if wanted.nodes > 1 else "docker+docker-default"
    return (*USUAL, engine, *OTHER_RUNTIMES)


def every_environment(wanted: Wanted) -> list[str]:
    """Return each runtime in each network, except bare itself and combinations that cannot work in the placement."""
    placement = Placement(
        nodes=wanted.nodes, ranks_per_node=wanted.ranks, containers_per_node=wanted.containers_per_node
    )
    runtimes = [name for name, runtime in RUNTIMES.items() if not runtime.is_fake]
    networks = [name for name, network in NETWORKS.items() if not network.is_fake]
    pairs = [f"{runtime}+{network}" for runtime, network in product(runtimes, networks)]
    names = ["bare+image" if name == "bare+host" else name for name in pairs]
    return [name for name in names if composition.refuse(study.environment(name), placement) is None]


def _environment(name: str, wanted: Wanted) -> dict[str, object]:
    """Return the keys of an environment; keys about images are left out if it has none."""
    keys: dict[str, object] = {"mpi": wanted.mpi, "env": variables(wanted.env)}
    if wanted.transport:
        keys["transport"] = wanted.transport
    runtime, *rest = name.split("+")
    if runtime in study.KNOWN.imageless and "image" not in rest[:1]:
        return keys
    if wanted.image:
        keys["image"] = wanted.image
    return {**keys, "binds": wanted.binds}


def _program(name: str, image: str) -> str:
    """Return the program as ranks start it: its path, or its name if every system has its own copy of it."""
    file = located.command_file(name)
    if file is None and "/" in name and not (image and name.startswith("/")):
        raise located.no_such_program(name)
    return name if file is None or located.is_of_system(file) else str(file)
