"""Only what carries our mark is found and removed, and what belongs to a run that lives is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tare.agent import clean, machine_service, site_folder
from tare.cli.commands import show_clean
from tare.errors import EXIT_DONE, EXIT_INFRASTRUCTURE
from tare.system.namespaces import HOLDER
from tare.system.node.cgroup_marks import mark
from tare.system.node.cgroups import MARK, Hierarchy
from tare.system.node.owners import boot_id, is_of_this_machine, owner
from tare.system.node.process_stat import start_time
from tare.system.paths import state_identity
from unit.labs import state
from waiting import wait_until

HOLDER_OF = clean._holder_of
NO_NAMES = ("..", ".", "a/b", "*", "", "x" * 33, "é")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that waits until the test is over."""
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def words() -> list[str]:
    return [item.what for item in clean.find()]


def test_where_nothing_is_ours_nothing_is_found_and_finding_changes_nothing(run: Path) -> None:
    assert (clean.find(), clean.remove()) == ((), ())
    (run / "foreign").mkdir()
    assert clean.remove() == ()
    assert (run / "foreign").is_dir()
    folder = state(run, "s2", pid=2**22 + 1, start=5)
    assert (words(), words()) == ([f"folder {folder}"], [f"folder {folder}"])


def test_other_runs_that_live_are_told_and_this_one_and_labs_that_stay_are_not(
    run: Path, other: subprocess.Popen[bytes]
) -> None:
    state(run, "s1", **owner())
    state(run, "s2", pid=other.pid, start=start_time(other.pid))
    state(run, "s3", pid=2**22 + 1, start=5)
    state(run, "lab", stays=True)
    state(run, "damaged", pid="x", start=5)
    assert clean.running_beside() == (other.pid,)


def test_only_what_is_dead_is_left_over_unless_all_is_to_go(run: Path) -> None:
    folder = state(run, "lab", stays=True)
    assert clean.leftovers_of_the_dead() == ()
    assert folder.is_dir()
    assert [item.what for item in clean.remove()] == [f"folder {folder}"]
    assert not folder.exists()
    assert clean.living_labs() == set()
    state(run, "s3", pid=os.getpid(), start=start_time(os.getpid()) + 1)
    assert (clean.living_labs(), [item.lab for item in clean.leftovers_of_the_dead()]) == (set(), ["s3"])
    living, dead = state(run, "s1", **owner()), state(run, "s2", pid=2**22 + 1, start=5)
    assert (clean.living_labs(), [item.lab for item in clean.leftovers_of_the_dead()]) == ({"s1"}, ["s2"])
    assert living.is_dir()
    assert not dead.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"pid": "x"}', '{"lab": "s9", "start": 1}', "null"])
def test_a_damaged_state_is_told_by_its_folder_and_removed(run: Path, text: str) -> None:
    folder = run / "s9-abc"
    folder.mkdir()
    (folder / "owner.json").write_text(text)
    assert [item.lab for item in clean.find(dead_only=True)] == ["s9"]
    clean.remove()
    assert not folder.exists()


@pytest.fixture
def holder(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Start a holder of the lab `utest1`; of this machine's processes it alone is seen."""
    # It waits for its standard input.
    argv = (sys.executable, "-IS", str(HOLDER), "tare:utest1-3:tare-utest1-3-n0", state_identity())
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        entry = Path(f"/proc/{started.pid}")
        wait_until((entry / "cmdline").read_bytes)  # it has none in the middle of exec
        monkeypatch.setattr(clean, "_holder_of", lambda each: HOLDER_OF(each) if each == entry else None)
        yield started
        started.kill()


def test_a_holder_of_ours_is_found_and_killed_and_owners_are_told_apart(holder: subprocess.Popen[bytes]) -> None:
    clean.remove_lab("utest2")
    assert holder.poll() is None
    assert clean.processes() == {"utest1": {holder.pid}}
    clean.remove_lab("utest1")
    assert holder.wait() == -signal.SIGKILL
    assert start_time(os.getpid()) > 0
    assert start_time(2**22 + 1) == 0
    note = {"pid": os.getpid(), "start": start_time(os.getpid()), "pid_namespace": os.readlink("/proc/self/ns/pid")}
    assert owner() == {**note, "boot_id": boot_id(), "host": os.uname().nodename}
    assert is_of_this_machine(owner())
    assert is_of_this_machine({"pid": 1})  # written by an earlier version
    assert not is_of_this_machine({**owner(), "host": "elsewhere", "boot_id": "another"})
    assert is_of_this_machine({**owner(), "host": "of-a-container"})


def entry_of(folder: Path, *argv: str) -> Path:
    """Return an entry of /proc with a command line."""
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in argv))
    return folder


@pytest.mark.parametrize(
    ("argv", "lab"),
    [
        (("python3", "-IS", "/x/holder.py", "tare:lab:n0", "OURS"), "lab"),
        (("python3", "-IS", "/x/holder.py", "tare:lab-3:n0", "OURS"), "lab"),
        (("python3", "-IS", "/x/holder.py", "tare:lab:n0", "OURS", "more"), "lab"),
        *((("python3", "-IS", "/x/holder.py", "tare:lab:n0", state), None) for state in ("", "PATH", "1-2")),
        (("python3", "-IS", "/x/holder.py", "tare:lab:n0"), None),
        (("python3", "-c", "/x/program.py", "tare:lab:n0"), None),
        (("/bin/sh", "-c", "cat; :", "holder.py", "tare:lab:n0"), None),
        (("/bin/sleep", "60"), None),
        (("python3", "-IS", "/x/holder.py"), None),
        *(
            (("python3", "-IS", "/x/holder.py", word, "OURS"), None)
            for word in ("tare", "mine:lab:n0", "x:tare:lab:n0", "-x")
        ),
        *((("python3", "-IS", "/x/holder.py", f"tare:{name}:n0", "OURS"), None) for name in NO_NAMES),
    ],
)
def test_a_holder_is_told_by_its_whole_command_line(argv: tuple[str, ...], lab: str | None, run: Path) -> None:
    words = {"OURS": state_identity(), "PATH": str(run)}
    entry = entry_of(run.parent / "7", *(words.get(word, word) for word in argv))
    assert HOLDER_OF(entry) == lab


def test_the_holders_of_another_user_are_not_ours(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(run.parent / "7", "python3", "-IS", "/x/holder.py", "tare:lab:n0", state_identity())
    assert HOLDER_OF(entry) == "lab"
    assert HOLDER_OF(run.parent / "8") is None
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert HOLDER_OF(entry) is None


def test_a_group_below_our_mark_is_a_lab_with_processes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = tuple(Hierarchy(mountpoint=tmp_path / name, version=1, controllers=(name,)) for name in ("cpuset", "pids"))
    monkeypatch.setattr(clean, "hierarchies", lambda: trees)
    for tree in trees:
        (tree.mountpoint / MARK / "s7" / "n0").mkdir(parents=True)
        mark(tree.mountpoint / MARK / "s7")
        (tree.mountpoint / "docker" / "foreign").mkdir(parents=True)
        (tree.mountpoint / MARK / "s7" / "n0" / "cgroup.procs").write_text("4242\n")
    assert (set(clean.groups()), clean.processes()) == ({"s7"}, {"s7": {4242}})
    assert words() == ["process 4242 of s7", "cgroup /tare/s7"]

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (4242, signal.SIGKILL)
        for tree in trees:
            (tree.mountpoint / MARK / "s7" / "n0" / "cgroup.procs").unlink(missing_ok=True)

    monkeypatch.setattr(os, "kill", kill)
    clean.remove_lab("s7")
    assert not any((tree.mountpoint / MARK).exists() for tree in trees)
    assert all((tree.mountpoint / "docker" / "foreign").is_dir() for tree in trees)


def test_a_head_is_here_only_as_long_as_it_lives(run: Path) -> None:
    state(run, "s1x0", **owner(), **{site_folder.HEAD: True})
    state(run, "s2x0", pid=2**22 + 1, start=5, **{site_folder.HEAD: True})
    state(run, "s3x0", **owner())  # a service, not a head
    assert [clean.head_is_here(name) for name in ("s1x0", "s2x0", "s3x0", "s4x0")] == [True, False, False, False]


def test_a_service_that_is_begun_again_spares_its_head(
    run: Path, other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head's own processes carry the mark of its site, as those of a killed service do."""
    monkeypatch.setattr(clean, "processes", lambda: {"s1x0": {other.pid}})
    note = state(run, "s1x0", pid=other.pid, start=start_time(other.pid), **{site_folder.HEAD: True})
    service = run / "s1x0-service"
    service.mkdir()
    gone = {"lab": "s1x0", "pid": 2**22 + 1, "start": 5}
    (service / "owner.json").write_text(json.dumps(gone))
    assert machine_service.remove_site("s1x0") == ()
    assert other.poll() is None
    assert note.is_dir()
    assert not service.exists()
    (note / "owner.json").write_text(json.dumps({**gone, site_folder.HEAD: True}))
    assert [item.lab for item in machine_service.remove_site("s1x0")]
    assert other.wait() == -signal.SIGKILL  # a head that is gone leaves nothing to spare


def test_what_a_process_keeps_up_is_left_alone_and_named_unless_it_is_to_be_ended(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    living, dead = state(run, "s1", **owner()), state(run, "s2", pid=2**22 + 1, start=5)
    assert [item.lab for item in clean.find(running=False)] == ["s2"]
    assert show_clean(dry_run=False) == EXIT_DONE
    shown = capsys.readouterr()
    assert shown.out == f"removed folder {dead}\n"
    assert f"left alone: s1, which process {os.getpid()} keeps up; `tare clean --running` ends it" in shown.err
    assert show_clean(dry_run=True, running=True) == EXIT_DONE
    assert capsys.readouterr().out == f"would remove folder {living}\n"


def test_what_stays_is_named_and_the_exit_code_says_so(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state(run, "s2", pid=2**22 + 1, start=5)
    monkeypatch.setattr(clean, "AGAIN_S", 0.02)
    monkeypatch.setattr(clean, "_kill", lambda pid, started: None)
    monkeypatch.setattr(clean.marked_processes, "pids_of_run", lambda name, folder: {os.getpid()})
    assert show_clean(dry_run=False) == EXIT_INFRASTRUCTURE
    shown = capsys.readouterr()
    assert f"left process {os.getpid()} of s2" in shown.out
    assert f"processes [{os.getpid()}] of s2 do not end" in shown.err
