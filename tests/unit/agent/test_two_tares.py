"""Two tares of the same user on one machine, such as a host's and a container's, leave each other's labs alone.

They have the same paths, names of labs and numbers of processes. Only the state folder itself tells them apart.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import tare
from tare.agent import clean
from tare.cli import lab_commands, lab_state
from tare.cli.options import LabOptions
from tare.daemons import docker
from tare.errors import InfrastructureError
from tare.system import namespaces, paths
from tare.system.node import owners
from tare.system.node.cgroup_marks import is_ours, mark
from tare.system.node.cgroups import MARK, Group, Hierarchy
from tare.system.paths import state_identity
from unit.labs import kept, made

HOLDER_OF = clean._holder_of
FOREIGN = 4242
IN_A_CONTAINER = """
import sys
from pathlib import Path
from tare.system.node import owners
owners.pid_namespace = lambda: "pid:[1]"
owners.write_note(Path(sys.argv[1]), "s1")
print("up", flush=True)
input()
"""


@contextmanager
def in_a_container(run: Path) -> Iterator[None]:
    """Put another folder at the path of the states while the block runs, as a container has one."""
    aside = run.with_name("of-the-host")
    run.rename(aside)
    run.mkdir()
    paths._identity.cache_clear()
    try:
        yield
    finally:
        run.rename(run.with_name("of-the-container"))
        aside.rename(run)
        paths._identity.cache_clear()


def holder(proc: Path, pid: int, lab: str) -> Path:
    """Return the entry in /proc of a holder that this tare starts."""
    words = ("python3", "-IS", str(namespaces.HOLDER), f"tare:{lab}:n0", state_identity())
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    (entry / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in words))
    return entry


def test_a_holder_is_ours_by_the_state_folder_itself_and_not_by_its_path(run: Path, tmp_path: Path) -> None:
    ours = holder(tmp_path / "proc", 7, "s1")
    with in_a_container(run):
        theirs = holder(tmp_path / "proc", 8, "s1")
        assert (HOLDER_OF(ours), HOLDER_OF(theirs)) == (None, "s1")
    assert (HOLDER_OF(ours), HOLDER_OF(theirs)) == ("s1", None)
    (tmp_path / "link").symlink_to(tmp_path)
    assert paths._identity(tmp_path / "link" / "run") == state_identity(), "another path of the same folder"


def test_without_a_state_folder_nothing_is_ours(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUN_FOLDER, str(tmp_path / "none"))
    (tmp_path / "group").mkdir()
    assert (state_identity(), is_ours(tmp_path / "group"), HOLDER_OF(holder(tmp_path / "proc", 7, "s1"))) == (
        "", False, None,
    )  # fmt: skip


def test_a_run_whose_state_folder_was_removed_still_recognises_its_own(run: Path, tmp_path: Path) -> None:
    ours = holder(tmp_path / "proc", 7, "s1")
    run.rmdir()
    assert HOLDER_OF(ours) == "s1"


def test_a_cgroup_of_another_tare_is_neither_ended_nor_used(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Hierarchy(mountpoint=tmp_path / "cgroup", version=1, controllers=("pids",))
    monkeypatch.setattr(clean, "hierarchies", lambda: (tree,))
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a process of another tare was killed"))
    folder = tree.mountpoint / MARK / "s1"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text(f"{FOREIGN}\n")
    own = Group(path="s1", hierarchies=(tree,))
    with in_a_container(run):
        mark(folder)
        assert clean.groups().keys() == {"s1"}
    assert (clean.find(), clean.remove_lab("s1"), clean.unmarked()) == ((), "", (folder,))
    with pytest.raises(InfrastructureError, match="has no mark of tare's: nothing in it is ended"):
        own.kill()
    with pytest.raises(InfrastructureError, match=f"was not created by tare with the state folder {run}"):
        own.create()
    own.remove()
    assert folder.is_dir()


@contextmanager
def running_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Keep a lab `s1` up by a process that has other numbers than are seen here: it is in another PID namespace."""
    folder.mkdir()
    argv = (sys.executable, "-c", IN_A_CONTAINER, str(folder))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "up\n"
        yield started
        started.kill()


def test_a_note_of_another_pid_namespace_lives_as_long_as_its_process(run: Path) -> None:
    """Its number is another process's here, or nobody's; so the kernel's lock says it."""
    with running_elsewhere(run / "s1-abc") as other:
        note = json.loads((run / "s1-abc" / "owner.json").read_text())
        assert (note["pid"], owners.lives(note)) == (other.pid, False)
        assert (clean.living_labs(), clean.leftovers_of_the_dead()) == ({"s1"}, ())
        os.kill(other.pid, signal.SIGSTOP)  # it is not dead
        assert clean.living_labs() == {"s1"}
    assert clean.living_labs() == set()
    assert [item.lab for item in clean.leftovers_of_the_dead()] == ["s1"]
    assert list(run.iterdir()) == []


def test_a_note_whose_lock_cannot_be_judged_is_left_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "s1-abc").mkdir()
    (run / "s1-abc" / "owner.json").write_text(json.dumps({"lab": "s1", **owners.owner(), "pid_namespace": "pid:[1]"}))
    assert clean.living_labs() == set()

    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(owners.fcntl, "flock", no_locks)
    assert clean.living_labs() == {"s1"}
    owners.write_note(run / "s1-abc", "s2", cgroups={})
    assert clean.living_labs() == {"s2"}


def test_a_note_of_an_earlier_boot_is_dead_in_every_namespace(run: Path) -> None:
    note = {**owners.owner(), "pid_namespace": "pid:[1]", "boot_id": "an earlier one", "held": True}
    assert not owners.lives(note)


def test_a_lab_of_another_pid_namespace_is_named_and_neither_entered_nor_removed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kept(run, made()) / lab_state.STATE
    file.write_text(json.dumps({**json.loads(file.read_text()), "pid_namespace": "pid:[1]"}))
    monkeypatch.setattr(lab_commands, "become_root", lambda: None)
    for command in (
        lab_commands.lab_status,
        lambda: lab_commands.lab_exec("lab", "n0", ["true"]),
        lambda: lab_commands.lab_down("lab"),
        lambda: lab_commands.lab_up(LabOptions(nodes=1)),
    ):
        with pytest.raises(InfrastructureError, match="the lab lab was started in another PID namespace"):
            command()
    assert file.exists()


def test_data_of_the_docker_daemons_of_another_tare_is_neither_removed_nor_used(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container and its host may share the cache, and `lab` is the usual name of a lab."""
    monkeypatch.setattr(docker, "probe", lambda: None)
    monkeypatch.setattr(docker, "start", lambda *_, **__: None)
    monkeypatch.setattr(docker, "_command", lambda *_: ())
    monkeypatch.setattr(docker, "_wait_until_ready", lambda node, *_: node)
    monkeypatch.setattr(docker, "_join_swarm", lambda nodes: None)
    nodes = (SimpleNamespace(name="n0"),)
    with in_a_container(run):
        docker.start_staying("lab", nodes, log_folder=run)  # type: ignore[arg-type]
    (root,) = docker.data_folder().iterdir()
    clean.remove_lab("lab")
    with pytest.raises(InfrastructureError, match=f"{root} belongs to a lab lab of another tare"):
        docker.start_staying("lab", nodes, log_folder=run)  # type: ignore[arg-type]
    assert (root / "owner.json").exists()
    (root / "owner.json").write_text(json.dumps({"boot_id": "an earlier one", "state": "1-1"}))
    docker.start_staying("lab", nodes, log_folder=run)  # type: ignore[arg-type]
    docker.remove_staying("lab")
    assert not root.exists()


KNOWN = {
    'cmdline"': {
        "system/holder.py", "system/namespaces.py",  # the mark of a holder, with the identity of its state folder
        "runtimes/kubernetes.py",  # a word that only a pod's own container has
        "system/node/stragglers.py", "run/facts.py",  # to describe
    },
    "command_line(": {"system/namespaces.py", "agent/upkeep.py", "run/in_turns.py"},  # among those known as ours
    'environ"': {"system/node/marked_processes.py", "system/node/sightings.py"},  # the latter to describe ranks
    "owner.json": {"system/node/owners.py"},
    "uname().nodename": {
        "system/node/owners.py",  # together with the boot
        "mpi/launch/agent.py", "agent/site_folder.py", "store/results_folder.py",  # to describe
    },
}  # fmt: skip
"""What may be read only in one place, because it must not decide alone whether something is ours."""


def test_no_other_module_decides_by_a_name_or_a_command_line_whether_something_is_ours() -> None:
    root = Path(tare.__file__).parent
    found = {word: set[str]() for word in KNOWN}
    for file in root.rglob("*.py"):
        for word in KNOWN:
            if word in file.read_text():
                found[word].add(str(file.relative_to(root)))
    assert found == KNOWN
