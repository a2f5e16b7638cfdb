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
from typing import Any, Final

from tare.cluster import lab
from tare.containers.held import enter
from tare.errors import InfrastructureError, UsageError
from tare.host.paths import RUN_FOLDER, made_run_folder, run_folder
from tare.host.process import replace
from tare.host.user_namespace import become_root, is_real_root
from tare.model import KubernetesSpec, LabSpec, SlurmSpec
from tare.model.quantities import parse_bit_rate
from tare.model.text import without_dashes
from tare.model.topology import HardwareThread
from tare.node import Nic, Node, bridges
from tare.node.cgroups import bases, group
from tare.node.owners import boot_id, start_time, this_boot
from tare.node_service import clean
from tare.services import docker

STATE: Final = "lab.json"
NOT_OF_A_LAB: Final = {
    "hosts": (), "nics": (), "daemon_hosts": (), "slurm": SlurmSpec(), "kubernetes": KubernetesSpec(),
}  # fmt: skip
"""What the settings of a lab that stays up never have: these are read as they are by default."""


def lab_up(
    name: str,
    *,
    nodes: int,
    nics: int,
    cores: int | None,
    link_rate: str,
    segmented: bool,
    docker: bool,
    subnets: int = 1,
) -> None:
    """Start a lab and leave it up."""
    check_name(name)
    if docker and not is_real_root():
        raise UsageError("a Docker daemon needs root", remedy="run as root, or leave --docker out")
    become_root()
    folder = made_run_folder() / f"{name}-stays"
    if (folder / STATE).exists():
        if _alive(_load(name)):
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
        rate = int(parse_bit_rate(link_rate)) if link_rate else 0
    except ValueError as error:
        raise UsageError(f"--link-rate: {error}", remedy="write it as --link-rate 10Gbit") from error
    spec = LabSpec(nodes=nodes, cores_per_node=cores, link_rate_bps=rate, segmented=segmented, subnets=subnets)
    folder.mkdir(mode=0o700, exist_ok=True)
    note = {"lab": name, "stays": True, "boot_id": boot_id(), "cgroups": bases()}
    (folder / "owner.json").write_text(json.dumps(note))
    try:
        made = lab.up(name, spec, nics=nics, keep=(str(Path.cwd()), *_data_folders(docker)))
        if docker:
            with bridges.as_they_were():
                made = _with_docker(made, folder)
    except BaseException:
        clean.remove_lab(name)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / STATE).write_text(json.dumps(_as_json(made)))
    _show(made)


def lab_status() -> None:
    """List the labs that are up."""
    files = sorted(run_folder().glob(f"*-stays/{STATE}"))
    if not files:
        print("no lab is up")
    for file in files:
        _show(_load(file.parent.name.removesuffix("-stays")))


def lab_exec(name: str, node: str, command: Sequence[str]) -> None:
    """Replace this process by a command on a node."""
    command = command_after_node(command, "tare lab exec")
    made = _load(name)
    names = [n.name for n in made.nodes]
    if node not in (*names, "head"):
        raise UsageError(f"the lab {name} has no node {node}", remedy=f"its nodes: {', '.join(names)}, head")
    if not _alive(made):
        raise _broken(name)
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
    made = _load(name)
    lab.down(made)
    for data in docker.staying_folders(name, [node for node in made.nodes if node.docker_socket]):
        shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(run_folder() / f"{name}-stays", ignore_errors=True)
    print(f"lab {name} is down")


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


def _data_folders(wanted: bool) -> tuple[str, ...]:
    return (str(docker.data_folder()),) if wanted else ()


def _with_docker(made: lab.Lab, folder: Path) -> lab.Lab:
    """Start daemons that stay up until the lab's cgroup is removed."""
    nodes = docker.start_staying(made.name, made.nodes, log_folder=folder)
    return dataclasses.replace(made, nodes=nodes)


def check_name(name: str) -> None:
    """Raise `UsageError` for a name that a lab cannot have: its interfaces and cgroups are named after it."""
    if not (name.isalnum() and name.isascii()) or len(name) > 10:
        raise UsageError(f"{name!r} is not a valid name of a lab", remedy="use up to ten letters and digits")


def _broken(name: str) -> InfrastructureError:
    """Return the error for a lab whose holder processes do not all run."""
    return InfrastructureError(
        f"the lab {name} is broken: one of its processes has ended",
        remedy=f"remove the rest with `tare lab down --name {name}`",
    )


def lab_that_is_up(name: str) -> lab.Lab | None:
    """Return the lab of a name, or None if there is none; raise `InfrastructureError` for a broken one."""
    if not (run_folder() / f"{name}-stays" / STATE).exists():
        return None
    made = _load(name)
    if not _alive(made):
        raise _broken(name)
    return made


def _load(name: str) -> lab.Lab:
    check_name(name)
    file = run_folder() / f"{name}-stays" / STATE
    try:
        return _from_json(json.loads(file.read_text()))
    except FileNotFoundError:
        raise UsageError(
            f"there is no lab {name}",
            remedy="start one with `tare lab up`, or name one that `tare lab status` lists with --name",
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(
            f"the lab's file {file} is damaged: {error}", remedy="remove the lab with `tare clean`"
        ) from error


def _alive(made: lab.Lab) -> bool:
    """Return whether the holder processes that a lab was started with still run, not later ones with their PIDs."""
    try:
        state = json.loads((run_folder() / f"{made.name}-stays" / STATE).read_text())
        started = {int(pid): started for pid, started in state["started"].items()}
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return False
    return this_boot(state) and all(start_time(pid) == started.get(pid) != 0 for pid in made.holders)


def _show(made: lab.Lab) -> None:
    state = "up" if _alive(made) else "broken: one of its processes has ended; remove the rest with `tare lab down`"
    shared = ", nodes share cores" if made.shares_cores else ""
    print(f"lab {made.name}: {len(made.nodes)} nodes, {state}{shared}")
    for node in made.nodes:
        cores = ",".join(map(str, node.cores))
        nics = "  ".join(f"{nic.name} {nic.cidr}" for nic in node.nics)
        docker_text = "  docker" if node.docker_socket else ""
        print(f"  {node.name}  cores {cores}  control {node.control_address}  {nics}{docker_text}")


def _as_json(made: lab.Lab) -> dict[str, Any]:
    return {
        "name": made.name,
        "spec": dataclasses.asdict(made.spec),
        "head_pid": made.head_pid,
        "switch_pid": made.switch_pid,
        "nodes": [_node_as_json(node) for node in made.nodes],
        "group": made.group.path,
        "shares_cores": made.shares_cores,
        "router_pid": made.router_pid,
        "cgroups": {str(each.mountpoint): each.base for each in made.group.hierarchies},
        "started": {pid: start_time(pid) for pid in made.holders},
        "boot_id": boot_id(),
    }


def _node_as_json(node: Node) -> dict[str, Any]:
    plain = {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
    parts = {name: [dataclasses.asdict(each) for each in getattr(node, name)] for name in ("nics", "layout")}
    return {**plain, **parts, "group": node.group.path}


def _from_json(state: dict[str, Any]) -> lab.Lab:
    if not isinstance(state, dict):
        raise TypeError("not a JSON object")
    data = {name: value for name, value in state.items() if name not in ("cgroups", "started", "boot_id")}
    noted = state.get("cgroups")
    nodes = tuple(
        Node(
            **{
                **node,
                "cores": tuple(node["cores"]),
                "nics": tuple(Nic(**nic) for nic in node["nics"]),
                "layout": tuple(HardwareThread(**thread) for thread in node["layout"]),
                "group": group(node["group"], noted),
            }
        )
        for node in data["nodes"]
    )
    return lab.Lab(
        **{
            **data,
            "spec": LabSpec(**{**data["spec"], **NOT_OF_A_LAB}),
            "nodes": nodes,
            "group": group(data["group"], noted),
        }
    )
