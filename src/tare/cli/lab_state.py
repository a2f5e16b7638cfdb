"""The state file of a lab that stays up, and the processes that keep something on it up after a command."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tare.clusters import lab
from tare.errors import InfrastructureError, UsageError
from tare.model import KubernetesSpec, LabSpec, SlurmSpec
from tare.model.topology import HardwareThread
from tare.system import process
from tare.system.node import Nic, Node
from tare.system.node.cgroups import group
from tare.system.node.owners import NAMESPACE, boot_id, is_visible, lives, pid_namespace, this_boot
from tare.system.node.process_stat import start_time
from tare.system.paths import run_folder

STATE: Final = "lab.json"
OF_A_STUDY: Final = ("launches", "shares")
"""What a node of a lab has only while a study runs."""
NOT_OF_A_LAB: Final = {
    "hosts": (), "nics": (), "daemon_hosts": (), "slurm": SlurmSpec(), "kubernetes": KubernetesSpec(),
}  # fmt: skip
"""What the settings of a lab that stays up never have: these are read as they are by default."""


UP_LIMIT_S: Final = 300.0
DOWN_LIMIT_S: Final = 30.0
PAUSE_S: Final = 0.02


def noted(file: Path) -> dict[str, Any] | None:
    """Return the note of a process that keeps something up, or None if there is none or that process has ended."""
    try:
        note: dict[str, Any] = json.loads(file.read_text())
        return note if lives(note) else None
    except (AttributeError, OSError, TypeError, ValueError):
        return None


def start_keeper(arguments: Sequence[str], log: Path, note: Path) -> str | None:
    """Start a command of tare that keeps something up, and wait until its note says that it is.

    Returns the end of its log if it does not come up.
    """
    keeper = process.start((sys.executable, "-P", "-m", "tare.cli.app", *arguments), log=log)
    try:
        until = time.monotonic() + UP_LIMIT_S
        while noted(note) is None:
            if keeper.poll() is not None or time.monotonic() > until:
                said = process.end_of(log)
                process.end(keeper, grace_s=DOWN_LIMIT_S)
                return said
            time.sleep(PAUSE_S)
    except BaseException:
        process.end(keeper, grace_s=DOWN_LIMIT_S)
        raise
    return None


def end_keeper(note: Mapping[str, Any], limit_s: float = DOWN_LIMIT_S) -> bool:
    """End the process that keeps something up; return whether it ended in time."""
    with suppress(ProcessLookupError):
        os.kill(note["pid"], signal.SIGTERM)
    until = time.monotonic() + limit_s
    while lives(note) and time.monotonic() < until:
        time.sleep(PAUSE_S)
    return not lives(note)


def check_name(name: str) -> None:
    """Raise `UsageError` for a name that a lab cannot have: its interfaces and cgroups are named after it."""
    if not (name.isalnum() and name.isascii()) or len(name) > 10:
        raise UsageError(f"{name!r} is not a valid name of a lab", remedy="use up to ten letters and digits")


def broken(name: str) -> InfrastructureError:
    """Return the error for a lab whose holder processes do not all run."""
    return InfrastructureError(
        f"the lab {name} is broken: one of its processes has ended",
        remedy=f"remove the rest with `tare lab down --name {name}`",
    )


def lab_that_is_up(name: str) -> lab.Lab | None:
    """Return the lab of a name, or None if there is none; raise `InfrastructureError` for a broken one."""
    if not (run_folder() / f"{name}-stays" / STATE).exists():
        return None
    made = load(name)
    if not is_alive(made):
        raise broken(name)
    return made


def load(name: str) -> lab.Lab:
    """Return the lab of a name; raise `UsageError` if there is none."""
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


def is_alive(made: lab.Lab) -> bool:
    """Return whether the holder processes that a lab was started with still run, not later ones with their PIDs."""
    try:
        state = json.loads((run_folder() / f"{made.name}-stays" / STATE).read_text())
        started = {int(pid): started for pid, started in state["started"].items()}
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return False
    return this_boot(state) and all(start_time(pid) == started.get(pid) != 0 for pid in made.holders)


def as_json(made: lab.Lab) -> dict[str, Any]:
    """Return what the state file has of a lab."""
    return {
        "name": made.name,
        "spec": dataclasses.asdict(made.spec),
        "head_pid": made.head_pid,
        "switch_pid": made.switch_pid,
        "nodes": [_node_as_json(node) for node in made.nodes],
        "group": made.group.path,
        "shares_cores": made.shares_cores,
        "router_pid": made.router_pid,
        "cgroups": made.group.bases,
        "started": {pid: start_time(pid) for pid in made.holders},
        "boot_id": boot_id(),
        NAMESPACE: pid_namespace(),
    }


def _node_as_json(node: Node) -> dict[str, Any]:
    plain = {f.name: getattr(node, f.name) for f in dataclasses.fields(node) if f.name not in OF_A_STUDY}
    parts = {name: [dataclasses.asdict(each) for each in getattr(node, name)] for name in ("nics", "layout")}
    return {**plain, **parts, "group": node.group.path}


def _from_json(state: dict[str, Any]) -> lab.Lab:
    if not isinstance(state, dict):
        raise TypeError("not a JSON object")
    if not is_visible(state):
        raise InfrastructureError(
            f"the lab {state['name']} was started in another PID namespace, where its processes have other numbers",
            remedy="run the command there: in that container, or outside of this one",
        )
    data = {name: value for name, value in state.items() if name not in ("cgroups", "started", "boot_id", NAMESPACE)}
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
