"""Run `tare lab`: a lab that stays up between commands, described by a state file.

The lab of an ordinary user lives in a user namespace that its holder processes keep alive. `lab up` starts itself again
inside a new one and `lab exec` enters that of the node. The other commands need no rights beyond the user's own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tare.agent import clean
from tare.cli import lab_kubernetes, lab_state
from tare.cli.options import LabOptions
from tare.cli.output import print_json, say
from tare.clusters import lab
from tare.daemons import docker
from tare.errors import InfrastructureError, UsageError
from tare.model import LabSpec
from tare.model.quantities import parse_bit_rate
from tare.model.text import without_dashes
from tare.runtimes.containers.held_namespaces import enter
from tare.system.node import bridges
from tare.system.node.cgroups import bases
from tare.system.node.owners import NOTE, boot_id
from tare.system.paths import RUN_FOLDER, made_run_folder, run_folder
from tare.system.process import replace
from tare.system.user_namespace import become_root, is_real_root


def lab_up(asked: LabOptions) -> None:
    """Start a lab and leave it up."""
    name = asked.name
    lab_state.check_name(name)
    if asked.kubernetes:
        lab_kubernetes.refuse(asked.subnets)
        lab_kubernetes.images(say)
    if asked.docker and not is_real_root():
        raise UsageError("a Docker daemon needs root", remedy="run as root, or leave --docker out")
    become_root()
    folder = made_run_folder() / f"{name}-stays"
    if (folder / lab_state.STATE).exists():
        if lab_state.is_alive(lab_state.load(name)):
            raise UsageError(
                f"the lab {name} is already up",
                remedy=f"remove it with `tare lab down --name {name}`, or choose another name with --name",
            )
        if reason := clean.remove_lab(name):
            raise InfrastructureError(
                f"an earlier lab {name} cannot be removed: {reason}",
                remedy="choose another name with --name",
            )
    try:
        rate = int(parse_bit_rate(asked.link_rate)) if asked.link_rate else 0
    except ValueError as error:
        raise UsageError(f"--link-rate: {error}", remedy="write it as --link-rate 10Gbit") from error
    spec = LabSpec(
        nodes=asked.nodes,
        cores_per_node=asked.cores,
        link_rate_bps=rate,
        segmented=asked.segmented,
        subnets=asked.subnets,
    )
    folder.mkdir(mode=0o700, exist_ok=True)
    note = {"lab": name, "stays": True, "boot_id": boot_id(), "cgroups": bases()}
    (folder / NOTE).write_text(json.dumps(note))
    try:
        made = lab.up(name, spec, nics=asked.nics, keep=(str(Path.cwd()),))
        if asked.docker:
            with bridges.as_they_were():
                made = _with_docker(made, folder)
    except BaseException:
        clean.remove_lab(name)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / lab_state.STATE).write_text(json.dumps(lab_state.as_json(made)))
    if asked.kubernetes:
        try:
            lab_kubernetes.start(name, folder)
        except BaseException:
            _removed(made)
            raise
    _show(made)


def lab_status(*, as_json: bool = False) -> None:
    """List the labs that are up."""
    files = sorted(run_folder().glob(f"*-stays/{lab_state.STATE}"))
    labs = [lab_state.load(file.parent.name.removesuffix("-stays")) for file in files]
    if as_json:
        print_json([{**lab_state.as_json(made), "up": lab_state.is_alive(made)} for made in labs])
        return
    if not labs:
        print("no lab is up")
    for made in labs:
        _show(made)


def lab_exec(name: str, node: str, command: Sequence[str]) -> None:
    """Replace this process by a command on a node."""
    command = command_after_node(command, "tare lab exec")
    made = lab_state.load(name)
    names = [n.name for n in made.nodes]
    if node not in (*names, "head"):
        raise UsageError(f"the lab {name} has no node {node}", remedy=f"its nodes: {', '.join(names)}, head")
    if not lab_state.is_alive(made):
        raise lab_state.broken(name)
    if node == "head":
        user = () if os.geteuid() == 0 else ("-t", str(made.head_pid), "--user", "--preserve-credentials")
        replace(("nsenter", *user, f"--net=/proc/{made.head_pid}/ns/net", "--", *command))
        return
    place = next(n for n in made.nodes if n.name == node)
    for folder in place.group.leaf.folders:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    os.sched_setaffinity(0, place.cores)
    environment = dict(os.environ)
    if place.docker_socket:
        environment["DOCKER_HOST"] = "unix:///run/docker.sock"
    environment.pop(RUN_FOLDER, None)
    replace((*enter(place.pid), *_here(command)), environment)


def lab_down(name: str) -> None:
    """Remove a lab."""
    _removed(lab_state.load(name))
    print(f"lab {name} is down")


def _removed(made: lab.Lab) -> None:
    lab_kubernetes.end(made.name)
    lab.down(made)
    docker.remove_staying(made.name)
    shutil.rmtree(run_folder() / f"{made.name}-stays", ignore_errors=True)


def _here(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that runs in this folder if the node has it: entering the node leads to its root folder."""
    return ("/bin/sh", "-c", 'cd "$0" 2>/dev/null; exec "$@"', str(Path.cwd()), *command)


def command_after_node(words: Sequence[str], tare_command: str) -> list[str]:
    """Return the command that follows a node on the command line of `tare_command`.

    Raises `UsageError` where there is none, or an option of tare, which would be run as the command.
    """
    usage = f"{tare_command} [--name NAME] NODE -- COMMAND"
    if words and words[0].startswith("-") and words[0] != "--":
        raise UsageError(f"the option {words[0]} comes after the node", remedy=f"write it before the node: {usage}")
    command = without_dashes(words)
    if not command:
        raise UsageError("no command follows the node", remedy=f"write one: {usage}")
    return command


def _with_docker(made: lab.Lab, folder: Path) -> lab.Lab:
    """Start daemons that stay up until the lab's cgroup is removed."""
    nodes = docker.start_staying(made.name, made.nodes, log_folder=folder)
    return dataclasses.replace(made, nodes=nodes)


def _show(made: lab.Lab) -> None:
    broken = "broken: one of its processes has ended; remove the rest with `tare lab down`"
    state = "up" if lab_state.is_alive(made) else broken
    shared = ", nodes share cores" if made.shares_cores else ""
    print(f"lab {made.name}: {len(made.nodes)} nodes, {state}{shared}")
    for node in made.nodes:
        cores = ",".join(map(str, node.cores))
        nics = "  ".join(f"{nic.name} {nic.cidr}" for nic in node.nics)
        docker_text = "  docker" if node.docker_socket else ""
        print(f"  {node.name}  cores {cores}  control {node.control_address}  {nics}{docker_text}")
    for line in lab_kubernetes.lines(made.name):
        print(line)
