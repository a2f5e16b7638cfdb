"""Labs that stay, of which nothing is there but the notes that commands keep."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nodes import make_node
from tare.cli import lab_state
from tare.clusters import lab
from tare.model import LabSpec
from tare.system.node.cgroups import Group


def made(name: str = "lab", pid: int | None = None, docker: bool = False) -> lab.Lab:
    pid = os.getpid() if pid is None else pid
    top = Group(path=name, hierarchies=())
    nodes = tuple(
        make_node(i, pid=pid, group=top.below(f"n{i}"), docker_socket="/proc/1/root/run/docker.sock" if docker else "")
        for i in range(2)
    )
    spec = LabSpec(nodes=2, cores_per_node=1, link_rate_bps=10**9)
    return lab.Lab(name=name, spec=spec, head_pid=pid, switch_pid=pid, nodes=nodes, group=top, shares_cores=False)


def kept(run: Path, value: lab.Lab) -> Path:
    folder = run / f"{value.name}-stays"
    folder.mkdir()
    (folder / lab_state.STATE).write_text(json.dumps(lab_state.as_json(value)))
    return folder


def state(run: Path, lab: str, **note: object) -> Path:
    """Make the state folder of a run or a lab, with what its owner has noted of itself."""
    folder = run / f"{lab}-abc"
    folder.mkdir()
    (folder / "owner.json").write_text(json.dumps({"lab": lab, **note}))
    (folder / "launch-0.json").write_text("{}")
    return folder
