"""What a launch leaves behind is ended, counted and named, whatever it calls itself, and what holds pods is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, make_pod
from tare.agent import left_by_launch
from tare.agent.left_by_launch import LeftByLaunches, keepers_of
from tare.system import process
from tare.system.node import Endpoint, Node, Pod, marked_processes
from tare.system.node.cgroups import NO_GROUP, Group, Hierarchy
from tare.system.node.process_stat import start_time
from waiting import wait_until

ENDPOINT = Endpoint(address="10.0.0.1", prefix=24, interface="eth0", mtu=1500)
RUN = f"s{os.getpid()}left"
LEAVES = """
import ctypes, os, signal, sys, threading, time

def named(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)

def variant(kind):
    os.setsid()
    if kind == "double fork" and os.fork():
        os._exit(0)
    named("tare-holder" if kind == "keeper's name" else "rogue")
    if kind == "ignores signals":
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
    if kind == "no environment":
        os.execve("/bin/sleep", ["rogue", "1000"], {})
    os.write(ready, b"x")
    if kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "first thread ends":
        threading.Thread(target=time.sleep, args=(1000,)).start()
        ctypes.CDLL(None).pthread_exit(None)
    while kind == "short lives" and os.path.exists(sys.argv[2]):
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
    if kind != "short lives":
        time.sleep(1000)
    os._exit(0)

there, ready = os.pipe()
os.set_inheritable(ready, False)
if os.fork() == 0:
    os.dup2(os.open("/dev/null", os.O_RDWR), 1)
    os.dup2(1, 2)
    variant(sys.argv[1])
os.close(ready)
os.read(there, 1)
"""
KINDS = (
    "double fork",
    "no environment",
    "ignores signals",
    "stopped",
    "first thread ends",
    "keeper's name",
    "short lives",
)


def pod(node: Node, group: Group = NO_GROUP, keepers: frozenset[int] = frozenset()) -> Pod:
    pod = replace(make_pod(node), group=group, keepers=keepers, runtime="bare")
    return replace(pod, endpoint=ENDPOINT, prefix=Path("/opt/tare"))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LeftByLaunches]:
    """Return what looks after this machine as a node, while this process adopts orphans."""
    with marked_processes.marked(RUN):
        yield LeftByLaunches(node=make_node(pid=0, group=NO_GROUP, cores=()), folder=tmp_path)


@contextmanager
def in_our_session(*argv: str) -> Iterator[None]:
    with subprocess.Popen(argv) as ours:
        try:
            yield
        finally:
            ours.kill()


@pytest.fixture
def net(tmp_path: Path) -> Iterator[str]:
    """Return the path that a chain of short lives needs: it is there as long as the test, and as this process."""
    file = tmp_path / "the test goes on"
    file.touch()
    yield f"/proc/{os.getpid()}/root{file}"
    file.unlink(missing_ok=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_command_left_on_a_machine_is_ended_and_named_whatever_it_did(
    here: LeftByLaunches, kind: str, net: str
) -> None:
    pods = [pod(here.node)]
    with process.beside(("sleep", "1000")) as waited:
        here.keep(pods)
        process.run((sys.executable, "-c", LEAVES, kind, net), timeout_s=60)
        found = here.end(pods, ())
        assert marked_processes.below_us() == set()
        assert waited.poll() is None
    names = {"keeper's name": "tare-holder", "no environment": "sleep"}
    assert set(found) == {names.get(kind, "rogue")}
    assert sum(found.values()) == 1 or kind == "short lives"
    assert here.end(pods, ()) == {}


def test_a_chain_of_short_lives_ends_with_the_test_that_started_it(net: str) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", 0) as chain:
        with open(writing, "wb"):
            subprocess.run((sys.executable, "-c", LEAVES, "short lives", net), pass_fds=(writing,), check=True)
        os.set_blocking(reading, False)
        assert chain.read() is None, "nobody of the chain is there any more"
        Path(net).unlink()
        os.set_blocking(reading, True)
        assert chain.read() == b""


def test_what_was_there_before_the_launch_or_is_in_our_session_or_ends_by_itself_is_not_named(
    here: LeftByLaunches,
) -> None:
    process.run((sys.executable, "-c", LEAVES, "double fork"), timeout_s=60)
    pods, before = [pod(here.node)], marked_processes.below_us()
    here.keep(pods)
    with in_our_session("sleep", "1000"):
        process.run(("sh", "-c", "sleep 0.05 > /dev/null 2>&1 &"))
        assert here.end(pods, ()) == {}
        assert (len(before), marked_processes.below_us()) == (1, before)
    here.kept.clear()
    assert here.end(pods, ()) == {"rogue": 1}


def test_on_another_machine_what_an_sshd_has_started_is_found_by_its_launch(
    here: LeftByLaunches, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = replace(here, node=replace(here.node, machine="alpha"))
    monkeypatch.setattr(marked_processes, "below_us", set)
    environment = {**os.environ, "TARE_LAUNCH_MAP": f"{here.folder}/launch-0.json"}
    with subprocess.Popen(("sleep", "1000"), env=environment) as started:
        try:
            wait_until(
                lambda: there.find([pod(there.node)]) == {started.pid}
            )  # it has no variables in the middle of exec
            assert here.find([pod(here.node)]) == set()
        finally:
            started.kill()


def test_at_the_end_of_a_run_what_is_below_it_is_ended_and_said(capfd: pytest.CaptureFixture[str]) -> None:
    with marked_processes.marked(RUN):
        process.run((sys.executable, "-c", LEAVES, "no environment"), timeout_s=60)
        (rogue,) = marked_processes.below_us()
    assert not Path(f"/proc/{rogue}").exists()
    assert "ended what the run had left behind: 1 process (sleep)" in capfd.readouterr().err


def test_one_that_cannot_be_ended_is_named_so_once(here: LeftByLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [pod(here.node)]
    here.keep(pods)
    process.run((sys.executable, "-c", LEAVES, "double fork"), timeout_s=60)
    with monkeypatch.context() as patch:
        patch.setattr(marked_processes, "end", lambda pids: None)
        patch.setattr(marked_processes, "DEADLINE_S", 0.05)
        assert here.end(pods, ()) == {"rogue (does not end)": 1}
        assert here.end(pods, ()) == {}


# --- nodes with cgroups -----------------------------------------------------------------------------------------------


INIT, HOLDER, DAEMON, JOB, OTHER_JOB, MOVED, OF_DAEMON, OF_SSHD = range(2**22 + 1, 2**22 + 9)
PARENTS = {HOLDER: INIT, DAEMON: INIT, JOB: INIT, OTHER_JOB: INIT, MOVED: JOB, OF_DAEMON: DAEMON, OF_SSHD: HOLDER}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LeftByLaunches:
    """Return what looks after a node of a lab whose cgroups are folders, and whose processes are only numbers."""
    tree = Hierarchy(mountpoint=tmp_path, version=1, controllers=("pids",))
    group = Group(path="lab/n0", hierarchies=(tree,))
    for name, pids in ((".", (INIT, DAEMON)), ("job", (HOLDER,)), ("docker", ())):
        put(group, name, *pids)
    monkeypatch.setattr(left_by_launch, "start_time", lambda pid: 5)
    monkeypatch.setattr(left_by_launch, "parent_of", lambda pid: PARENTS.get(pid, 0))
    return LeftByLaunches(node=make_node(pid=INIT, group=group), folder=tmp_path)


def put(group: Group, name: str, *pids: int) -> None:
    folder = group.folders[0] / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


def test_on_a_node_a_daemon_s_processes_are_spared_and_one_that_moved_to_another_cgroup_is_not(
    lab: LeftByLaunches,
) -> None:
    group = lab.node.group
    mine = [pod(lab.node, group.below("job"), frozenset({HOLDER}))]
    lab.keep(mine)
    assert lab.find(mine) == set()
    put(group, "job", HOLDER, OF_SSHD)
    put(group, ".", INIT, DAEMON, OF_DAEMON, MOVED)
    put(group, "docker", JOB)
    assert lab.find(mine) == {OF_SSHD, MOVED, JOB}
    assert lab.find(mine, {JOB}) == {OF_SSHD, MOVED}
    assert keepers_of(mine) == {HOLDER}


def test_ending_spares_what_holds_other_environments(lab: LeftByLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    spared: list[set[int]] = []
    mine = [pod(lab.node, lab.node.group.below("job"), frozenset({HOLDER}))]
    lab.keep(mine)
    put(lab.node.group, "job", HOLDER, JOB, OTHER_JOB)
    monkeypatch.setattr(left_by_launch, "named", lambda pids: dict.fromkeys(pids, "rogue"))
    monkeypatch.setattr(marked_processes, "named", lambda pids: dict.fromkeys(pids, "rogue"))

    def kill(group: Group, *, spare: set[int], deadline_s: float) -> None:
        spared.append(set(spare))
        put(lab.node.group, "job", HOLDER, OTHER_JOB)

    monkeypatch.setattr(Group, "kill", kill)
    assert lab.end(mine, {OTHER_JOB}) == {"rogue": 1}
    assert spared == [{HOLDER, OTHER_JOB}]


@pytest.mark.requires("root")
def test_in_a_container_only_what_is_kept_is_spared_whatever_the_rest_is_called() -> None:
    inside = "sleep 1000 & sleep 1001 & exec sleep 1002"
    with subprocess.Popen(("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", inside)) as held:
        try:
            wait_until(lambda: len(marked_processes.below({held.pid})) == 3)
            (first,) = marked_processes._children(held.pid)
            keeper, rogue = sorted(marked_processes.below({first}))
            kept = " ".join(map(left_by_launch._number_inside, (first, keeper)))
            process.run(
                ("nsenter", "-t", str(first), "--pid", "--mount", "--", "/bin/sh", "-c", left_by_launch.END_ALL, kept)
            )
            wait_until(lambda: not start_time(rogue))
            assert start_time(keeper)
        finally:
            for pid in (*marked_processes.below({held.pid}), held.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
