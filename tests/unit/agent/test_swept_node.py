"""A machine as a node sweeps the folders that containers may write to; a lab's node leaves that to the lab.

Root's daemon follows no link, and starts no program, that a rank has put into the session folder.
"""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node
from tare.agent.local import LocalNode
from tare.agent.order import Files, Order
from tare.agent.session_folder import session_folder
from tare.model import Environment, Placement
from tare.system.namespaces import hold
from tare.system.node import Node
from tare.system.node.cgroups import Group

pytestmark = [pytest.mark.root, pytest.mark.requires("root")]
DOCKER = Environment(name="e", runtime="docker", network="host", image="debian")
MACHINE = make_node(pid=0)
"""One that was given to tare: it has cgroups of its own."""


def prepared(node: Node, environment: Environment, tmp_path: Path, cwd: str = "") -> LocalNode:
    """Return the service of a node that was asked for a deployment."""
    files = Files(host_prefix=Path("/opt/kernels"), cwd=cwd)
    order = Order(
        study="s-0", slot=0, environment=environment, placement=Placement(nodes=1), nodes=(node,), nic=0, hosts=2,
        files=files,
    )  # fmt: skip
    service = LocalNode(node, tmp_path, nullcontext)  # type: ignore[arg-type]
    service.prepare(order)
    return service


def evil(folder: Path) -> Path:
    file = folder / "evil"
    file.touch()
    file.chmod(0o4755)
    return file


def test_a_machine_sweeps_binds_and_the_working_folder_and_says_it_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "work").mkdir()
    environment = replace(DOCKER, binds=(f"{tmp_path}/data:/data",))
    service = prepared(MACHINE, environment, tmp_path, cwd=f"{tmp_path}/work")
    files = [evil(tmp_path / "data"), evil(tmp_path / "work")]
    assert len(service.sweep()) == 2
    assert service.sweep() == ()
    assert [file.stat().st_mode & 0o7777 for file in files] == [0o755, 0o755]


def test_it_sweeps_too_when_its_head_is_gone(tmp_path: Path) -> None:
    service = prepared(MACHINE, DOCKER, tmp_path, cwd=str(tmp_path))
    file = evil(tmp_path)
    service.leave_all()
    assert file.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    ("node", "environment"),
    [
        (make_node(), DOCKER),
        (MACHINE, replace(DOCKER, runtime="bare", image="")),
        (replace(MACHINE, group=Group(path="", hierarchies=())), replace(DOCKER, binds=("/usr:/data:ro",))),
    ],
)
def test_a_lab_s_node_programs_of_the_machine_and_read_only_binds_are_left_alone(
    node: Node, environment: Environment, tmp_path: Path
) -> None:
    cwd = "" if environment.binds else str(tmp_path)
    service = prepared(node, environment, tmp_path, cwd=cwd)
    file = evil(tmp_path)
    assert service.sweep() == ()
    assert file.stat().st_mode & 0o7777 == 0o4755
    assert os.geteuid() == 0


def test_a_session_folder_is_private_and_mounted_without_links_rights_and_devices(tmp_path: Path) -> None:
    pid = hold(f"tare:utest{os.getpid()}:n0", {"new": ["mnt"]})
    try:
        with session_folder(tmp_path, 3, make_node(pid=pid), "n0") as folder:
            assert os.stat(folder).st_mode & 0o777 == 0o700
            assert os.listdir(folder) == []
            lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
            (options,) = (words[5].split(",") for line in lines if (words := line.split())[4] == folder)
            assert {"nosuid", "nodev", "nosymfollow"} <= set(options)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.kill(pid, signal.SIGKILL)
