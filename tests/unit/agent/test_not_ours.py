"""What tare did not make, or what another user or an earlier boot made, is neither ended nor believed."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tare.agent import clean, site_folder
from tare.cli import lab_commands, lab_state
from tare.cli.commands import show_clean
from tare.cli.options import LabOptions
from tare.errors import InfrastructureError, TareError, UsageError
from tare.runtimes import docker
from tare.system import paths
from tare.system.node import cgroup_marks, owners
from tare.system.node.cgroup_marks import is_ours, mark
from tare.system.node.cgroups import MARK, Group, Hierarchy
from tare.system.node.owners import lives, owner
from tare.system.node.process_stat import start_time
from unit.labs import kept, made, state

FOREIGN = 4242


@pytest.fixture
def tree(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Hierarchy:
    """Return a cgroup tree with a service that is not ours, and record whom a signal is sent to."""
    top = tmp_path / "cgroup"
    put(top / "sshd.service", FOREIGN)
    (top / MARK).mkdir()
    found = Hierarchy(mountpoint=top, version=1, controllers=("pids",))
    monkeypatch.setattr(clean, "hierarchies", lambda: (found,))
    return found


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: seen.append(pid))
    return seen


def put(folder: Path, pid: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text(f"{pid}\n")
    return folder


@pytest.mark.parametrize("name", ["..", "a/../..", "", "*"])
def test_nothing_is_removed_under_a_name_that_no_lab_has(name: str, tree: Hierarchy, signals: list[int]) -> None:
    with pytest.raises(InfrastructureError, match="cannot name a lab: nothing of it is removed"):
        clean.remove_lab(name)
    for act in (Group(path=f"s1/{name}", hierarchies=(tree,)).kill, Group(path=name, hierarchies=(tree,)).remove):
        if name != "*":
            with pytest.raises(InfrastructureError, match="cannot name a cgroup"):
                act()
    assert signals == []


def test_a_state_that_names_no_lab_is_told_by_its_folder_and_a_marked_cgroup_is_ours(
    run: Path, tree: Hierarchy, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (state(run, "s1") / "owner.json").write_text('{"lab": "../sshd.service"}')
    assert ([item.lab for item in clean.remove()], signals) == (["s1"], [])
    mark(put(tree.top / "s1", FOREIGN))
    monkeypatch.setattr(os, "kill", lambda pid, number: (tree.top / "s1" / "cgroup.procs").unlink())
    assert [item.what for item in clean.remove()] == [f"process {FOREIGN} of s1", "cgroup /tare/s1"]
    assert not (tree.top / "s1").exists()


def test_a_cgroup_below_ours_without_a_mark_is_left_alone_and_told(tree: Hierarchy, signals: list[int]) -> None:
    put(tree.top / "s1", FOREIGN)
    assert clean.find() == ()
    clean.remove_lab("s1")
    own = Group(path="s1", hierarchies=(tree,))
    with pytest.raises(InfrastructureError, match=r"tare/s1 has no mark of tare's: nothing in it is ended"):
        own.kill()
    own.remove()
    with pytest.raises(InfrastructureError, match=r"the cgroup .*tare/s1 exists and was not created by tare"):
        own.create()
    assert signals == []
    assert (tree.top / "s1" / "cgroup.procs").exists()
    assert (clean.unmarked(), clean.free_name("s1")) == ((tree.top / "s1",), "s1x1")


def test_without_attributes_a_file_is_the_mark(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    for name in ("setxattr", "getxattr"):
        monkeypatch.setattr(os, name, refuse)
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.mkdir()
    other.mkdir()
    mark(ours)
    assert (is_ours(ours), is_ours(other), is_ours(tmp_path / "gone")) == (True, False, False)
    monkeypatch.setattr(cgroup_marks, "boot_id", lambda: "the next one")
    assert not is_ours(ours)
    monkeypatch.undo()
    monkeypatch.setenv(paths.RUN_FOLDER, str(run))
    monkeypatch.setattr(os, "getxattr", refuse)
    cgroup_marks.forget(ours)
    assert not is_ours(ours)


def test_a_process_that_has_the_number_of_an_ended_one_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send = [], signal.pidfd_send_signal
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda opened, number: (sent.append(number), send(opened, number)))
    with subprocess.Popen(("cat",), stdin=subprocess.PIPE) as other:
        started = start_time(other.pid)
        clean._kill(other.pid, started + 1)
        clean._kill(other.pid, 0)
        assert sent == []
        clean._kill(other.pid, started)
        assert (other.wait(), sent) == (-signal.SIGKILL, [signal.SIGKILL])


def test_a_note_or_a_lab_of_an_earlier_boot_is_gone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = owner()
    assert lives(note)
    assert not lives({**note, "boot_id": "an earlier one"})
    state(run, "s1", **{**note, "boot_id": "an earlier one"})
    state(run, "lab", stays=True, boot_id="an earlier one")
    state(run, "s2", **note)
    state(run, "net", stays=True, boot_id=owners.boot_id())
    assert clean.living_labs() == {"s2", "net"}
    file = kept(run, made()) / lab_state.STATE
    stated = json.loads(file.read_text())
    for changed in ({"boot_id": "an earlier one"}, {"started": {str(os.getpid()): 5}}, {"started": {}}):
        file.write_text(json.dumps({**stated, **changed}))
        lab_commands.lab_status()
        assert "broken: one of its processes has ended" in capsys.readouterr().out
        with pytest.raises(InfrastructureError, match="the lab lab is broken"):
            lab_commands.lab_exec("lab", "n0", ["true"])


COMMANDS: dict[str, Callable[[], object]] = {
    "status": lab_commands.lab_status, "exec": lambda: lab_commands.lab_exec("lab", "n0", ["true"]),
    "down": lambda: lab_commands.lab_down("lab"), "clean": clean.remove, "dry run": clean.find,
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_another_user_made_or_may_write_to_is_not_believed(
    command: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(run, made())
    (run / "lab-stays" / "owner.json").write_text(json.dumps({"lab": "lab", "stays": True}))
    uid = os.geteuid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: uid + 1)
        with pytest.raises(InfrastructureError, match=r"run belongs to another user \(uid \d+\)\n  remove it, or set"):
            COMMANDS[command]()
    assert (run / "lab-stays" / lab_state.STATE).exists()
    run.chmod(0o777)
    with pytest.raises(InfrastructureError, match=r"is writable by other users\n  chmod go-w "):
        COMMANDS[command]()


def test_the_folder_of_a_run_is_the_caller_s_alone(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_folder, "PLACE", re.compile(rf"{tmp_path}/site-\w"))
    made = tmp_path / "site-1"
    site_folder.make(made)
    with owners.state_folder("s1", "s1") as folder:
        assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, made)] == [0o700, 0o700]
    made.chmod(0o777)
    (tmp_path / "site-2").symlink_to(run)
    for name in ("site-1", "site-2"):
        with pytest.raises(InfrastructureError, match="belongs to another user"):
            site_folder.make(tmp_path / name)
    uid = os.geteuid()
    made.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(InfrastructureError, match="belongs to another user"):
        site_folder.make(made)


def test_a_link_in_place_of_the_folder_is_not_followed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(run)
    monkeypatch.setenv(paths.RUN_FOLDER, str(tmp_path / "link"))
    with pytest.raises(InfrastructureError, match="link is not a folder"):
        clean.find()


@pytest.mark.parametrize("name", ["../lab", "a/b", "..", ""])
def test_a_lab_s_name_leads_out_of_the_folder_of_states_in_no_command(name: str, run: Path) -> None:
    for command in (lambda: lab_commands.lab_exec(name, "n0", ["true"]), lambda: lab_commands.lab_down(name)):
        with pytest.raises(UsageError, match="is not a valid name of a lab"):
            command()


def test_a_process_that_cannot_be_ended_is_told_and_blocks_no_later_run(
    run: Path, tree: Hierarchy, signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, kill = list[float](), Group.kill
    monkeypatch.setattr(clean, "DEADLINE_S", 0.05)
    monkeypatch.setattr(clean, "AGAIN_S", 0.02)
    monkeypatch.setattr(
        Group, "kill", lambda own, *, deadline_s: (waited.append(deadline_s), kill(own, deadline_s=0.01))
    )
    for lab in ("s1", "s2"):
        mark(put(tree.top / lab, FOREIGN))
        state(run, lab, pid=2**22 + 1, start=5)
    (tree.top / "s2" / "cgroup.procs").unlink()
    said: list[str] = []
    clean.leftovers_of_the_dead(said.append)
    assert len(said) == 1
    assert f"processes [{FOREIGN}] of s1 do not end" in said[0]
    assert "wait in the kernel" in said[0]
    assert not (tree.top / "s2").exists(), "what follows it was not removed"
    assert (tree.top / "s1").is_dir()
    assert clean.free_name("s1") == "s1x1", "the next run would be put beside it"
    assert waited == [0.05, 0.05]
    clean.leftovers_of_the_dead(said.append)
    assert (len(said), waited[2:]) == (2, [0.02]), "a later run waits less"


def test_what_is_left_is_listed_and_the_lab_is_to_have_another_name(
    run: Path, tree: Hierarchy, signals: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clean, "AGAIN_S", 0.02)
    mark(put(tree.top / "s1", FOREIGN))
    put(tree.top / "theirs", FOREIGN)
    show_clean(dry_run=False)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [f"left process {FOREIGN} of s1", "left cgroup /tare/s1"]
    assert "do not end" in shown.err
    assert f"left alone: the cgroup {tree.top / 'theirs'} was not created by tare" in shown.err
    monkeypatch.setattr(clean, "DEADLINE_S", 0.02)
    monkeypatch.setattr(lab_commands, "become_root", lambda: None)
    kept(run, made(pid=2**22 + 1))
    mark(put(tree.top / "lab", FOREIGN))
    with pytest.raises(TareError, match=r"an earlier lab lab cannot be removed(.|\n)*choose another name"):
        lab_commands.lab_up(LabOptions(nodes=1))


def test_a_lab_in_another_cgroup_is_found_by_its_note(
    run: Path, tree: Hierarchy, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tree.mountpoint / "job_7" / MARK / "s1"
    mark(put(elsewhere, FOREIGN))
    assert clean.groups() == {}
    state(run, "s1", pid=2**22 + 1, start=5, cgroups={str(tree.mountpoint): "job_7"})
    assert clean.processes() == {"s1": {FOREIGN}}
    for bad in ({str(tree.mountpoint): "../../x"}, ["x"], {str(tree.mountpoint): 5}):
        (run / "s1-abc" / "owner.json").write_text(json.dumps({"lab": "s1", "cgroups": bad}))
        assert clean.groups() == {}


def test_containers_are_found_also_below_another_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "cgroup"
    file.write_text("8:pids:/tare/lab/n0/tare/s1/d0/docker/abc\n")
    monkeypatch.setattr(docker, "Path", lambda _: file)
    node = SimpleNamespace(name="d0", is_machine=False, group=Group(path="s1/d0", hierarchies=()))
    assert docker.container_group(node, 1).path == "s1/d0/docker/abc"  # type: ignore[arg-type]
