"""A machine sweeps the folders that containers may write to, and only those.

Root's daemon follows no link, and starts no program, that a rank has put into the session folder.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node
from tare.agent.remote import machine_answers
from tare.agent.session_folder import session_folder
from tare.model import Environment
from tare.run import site
from tare.runtimes.containers.deployment import Files
from tare.system.namespaces import hold

pytestmark = [pytest.mark.root, pytest.mark.requires("root")]
DOCKER = Environment(name="e", runtime="docker", network="host", image="debian")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def service(stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> machine_answers.Service:
    """Return the service of a machine on which nothing is made, open with the folders `data` and `work`."""
    served = SimpleNamespace(node=make_node(pid=0))
    monkeypatch.setattr(machine_answers, "state_folder", lambda *_, **__: nullcontext())
    monkeypatch.setattr(machine_answers.machine_service, "serving", lambda *_: nullcontext(served))
    monkeypatch.setattr(machine_answers.Service, "clean", lambda self, name: ())
    folders = [tmp_path / "data", tmp_path / "work"]
    for folder in folders:
        folder.mkdir()
    made = machine_answers.Service(stack)
    made.open("s", served.node, tmp_path / "site", tuple(map(str, folders)))
    return made


def evil(folder: Path) -> Path:
    file = folder / "evil"
    file.touch()
    file.chmod(0o4755)
    return file


def test_a_machine_sweeps_the_folders_that_programs_may_write_to_and_says_it_once(
    service: machine_answers.Service, tmp_path: Path
) -> None:
    files = [evil(tmp_path / "data"), evil(tmp_path / "work")]
    other = evil(tmp_path)
    assert len(service.sweep()) == 2
    assert service.sweep() == ()
    assert [file.stat().st_mode & 0o7777 for file in (*files, other)] == [0o755, 0o755, 0o4755]


@pytest.mark.usefixtures("service")
def test_it_sweeps_too_when_its_head_is_gone(stack: ExitStack, tmp_path: Path) -> None:
    file = evil(tmp_path / "work")
    stack.close()
    assert file.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (replace(DOCKER, binds=("/usr:/data",)), ("/work", "/usr")),
        (replace(DOCKER, binds=("/usr:/data:ro",)), ("/work",)),
        (replace(DOCKER, runtime="bare", image="", binds=("/usr:/data",)), ()),
    ],
)
def test_programs_of_the_machine_and_read_only_binds_are_left_alone(
    environment: Environment, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "available", lambda _: [SimpleNamespace(environment=environment)])
    files = Files(host_prefix=Path("/k"), cwd="/work", rootfs=Path("/rootfs") if environment.image else None)
    plan: Any = None
    assert site._writable(plan, [files]) == expected


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
