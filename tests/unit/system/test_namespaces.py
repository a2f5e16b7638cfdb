"""Each namespace is held by a process of tare, and an ordinary user gets a user namespace.

A user's folder of state is there as long as something uses it, and then leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tare.errors import InfrastructureError, LabEnded, MissingTool
from tare.system import namespaces, paths, user_namespace
from tare.system.namespaces import HOLDER, hold, hold_all, index_of, inside_network, is_holder, netlink, plain_python
from tare.system.paths import RUN_FOLDER, run_folder, state_identity
from tare.system.process import Result


def answering(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    answer = {"status": 0, "stdout": "", "stderr": "", **answer}

    def run(argv: tuple[str, ...], **options: Any) -> Result:
        calls.append({"argv": argv, **options})
        return Result(argv=argv, elapsed_s=0.0, **answer)

    monkeypatch.setattr(namespaces, "run", run)
    return calls


def test_a_holder_carries_our_mark_and_gets_its_order_on_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(monkeypatch, stdout='{"pid": 77}\n')
    assert hold("tare:lab:n0", {"new": ["net"]}) == 77
    assert calls[0]["argv"] == (plain_python(), "-IS", str(HOLDER), "tare:lab:n0", state_identity())
    assert json.loads(calls[0]["stdin"]) == [{"mark": "tare:lab:n0", "new": ["net"]}]


@pytest.mark.parametrize(
    ("answer", "words", "of_rights"),
    [
        ({"stdout": '{"error": "unshare(1): Operation not permitted"}'}, "Operation not permitted", True),
        ({"stdout": '{"error": "mount(tare): Device or resource busy"}'}, "Device or resource busy", False),
        ({"stderr": "ImportError: no ctypes"}, "no ctypes", True),
        ({"status": -9}, "the holder printed nothing and ended with status -9", False),
        ({"stdout": "half a li"}, "the holder printed nothing and ended with status 0", False),
        ({"status": -15, "timed_out": True}, "the holder did not answer within 60 s", False),
    ],
)
def test_a_holder_that_fails_is_told_with_its_mark_and_how_it_ended(
    answer: dict[str, Any], words: str, of_rights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, **answer)
    with pytest.raises(InfrastructureError) as caught:
        hold("tare:lab:n0", {})
    assert "cannot create the namespaces of tare:lab:n0" in caught.value.message
    assert words in caught.value.message
    assert ("root" in caught.value.remedy) == of_rights


def test_holders_that_are_started_together_have_their_own_marks_and_one_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path))
    marks = ("tare:utest:n0", "tare:utest:a-much-longer-name", "tare:utest:n2")
    *started, failed = hold_all([(marks[0], {}), (marks[1], {}), (marks[2], {"cgroups": ["/nowhere"]})])
    pids = [pid for pid in started if isinstance(pid, int)]
    try:
        for pid, mark in zip(pids, marks[:2], strict=True):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            assert words[2:] == [str(HOLDER).encode(), mark.encode(), state_identity().encode()]
            assert is_holder(pid, "utest")
        assert "n2: [Errno 2] No such file" in str(failed)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.root
@pytest.mark.requires("root")
def test_settings_of_the_machine_are_read_only_on_a_node() -> None:
    pid = hold(f"tare:utest{os.getpid()}:n0", {"new": ["mnt", "pid", "net", "uts", "ipc"]})
    try:
        mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        modes = {words[4]: words[5].split(",")[0] for words in mounts}
        settings = ("/proc/sys", "/sys/kernel", "/sys/module", "/sys/firmware", "/sys/power")
        assert [path for path in settings if Path(path).exists() and modes.get(path) != "ro"] == []
        assert modes["/proc/sys/net"] == "rw"
        for name, may in (("kernel/core_pattern", False), ("vm/drop_caches", False), ("net/ipv4/ip_forward", True)):
            assert os.access(f"/proc/{pid}/root/proc/sys/{name}", os.W_OK) == may, name
    finally:
        os.kill(pid, signal.SIGKILL)


def test_what_is_gone_or_cannot_be_done_is_told_in_a_sentence() -> None:
    with pytest.raises(InfrastructureError, match="No such file or directory"):
        hold("tare:utest:n0", {"cgroups": ["/nowhere"]})
    before = os.readlink("/proc/thread-self/ns/net")
    with pytest.raises(FileNotFoundError), inside_network(2**22 + 1):
        pass
    assert os.readlink("/proc/thread-self/ns/net") == before
    route: Any = SimpleNamespace(link_lookup=lambda ifname: [3] if ifname == "eth0" else [])
    assert index_of(route, "eth0") == 3
    with pytest.raises(InfrastructureError, match="network namespace has no interface eth7"):
        index_of(route, "eth7")


def test_namespaces_whose_holder_was_ended_are_told_in_a_sentence() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    for opened in (inside_network, netlink):
        with pytest.raises(LabEnded, match="holds a network namespace, was ended by something else"), opened(child):
            pass


Seen = list[tuple[tuple[str, ...], dict[str, str]]]


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seen:
    seen: Seen = []
    monkeypatch.setattr(user_namespace, "replace", lambda argv, env: seen.append((tuple(argv), dict(env))))
    monkeypatch.setattr(user_namespace, "probe", lambda: None)
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path / "tare"))
    return seen


def test_root_stays_and_others_are_told_the_remedy(
    became: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    user_namespace.become_root()
    assert became == []
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    (tmp_path / "tare").mkdir()
    with pytest.raises(InfrastructureError, match=r"belongs to another user .*\n  remove it, or set XDG"):
        user_namespace.become_root()
    assert became == []
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        user_namespace, "probe", lambda: "ordinary users may not create user namespaces on this machine"
    )
    with pytest.raises(MissingTool, match="run as root, or have an administrator allow it"):
        user_namespace.become_root()
    assert became == []


def test_the_command_is_started_anew_with_its_arguments(
    became: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: tmp_path.stat().st_uid or 1000)
    monkeypatch.setattr(sys, "argv", ["tare", "run", "a.yaml"])
    if tmp_path.stat().st_uid == 0:
        (tmp_path / "tare").mkdir()
        os.chown(tmp_path / "tare", 1000, 1000)
    user_namespace.become_root()
    ((argv, variables),) = became
    assert argv == (*user_namespace.UNSHARE, sys.executable, "-P", "-m", "tare.cli.app", "run", "a.yaml")
    assert variables[RUN_FOLDER] == str(tmp_path / "tare")
    assert (tmp_path / "tare").is_dir()


@pytest.mark.parametrize(
    ("euid", "uid_map", "real"),
    [
        (0, "         0          0 4294967295\n", True), (0, "         0      65534          1\n", False),
        (1000, "         0          0 4294967295\n", False),
    ],
)  # fmt: skip
def test_root_of_a_user_namespace_is_not_root_of_the_machine(
    euid: int, uid_map: str, real: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "uid_map").write_text(uid_map)
    monkeypatch.setattr(user_namespace.os, "geteuid", lambda: euid)
    assert user_namespace.is_real_root(tmp_path / "uid_map") is real


@pytest.mark.parametrize(("flags", "of_root"), [(0, "/run/tare"), (os.ST_NOEXEC, "/var/lib/tare")])
def test_the_folder_of_states_is_where_it_is_said(flags: int, of_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags if path == "/run" else 0))
    monkeypatch.setenv(RUN_FOLDER, "/somewhere/tare")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert run_folder() == Path("/somewhere/tare")
    monkeypatch.delenv(RUN_FOLDER)
    assert run_folder() == Path(of_root)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert run_folder() == Path("/run/user/1000/tare")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert run_folder() == Path(f"/tmp/tare-{os.getuid()}")


PROGRAM = """
import sys
from tare.system.paths import made_run_folder
folder = made_run_folder()
assert made_run_folder() == folder
(folder / sys.argv[1]).touch() if len(sys.argv) > 1 else None
print("ready", flush=True)
sys.stdin.readline()
"""


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, RUN_FOLDER: str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        (sys.executable, "-c", PROGRAM, *arguments),
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n")
    assert process.returncode == 0


def test_the_last_process_that_used_it_removes_it(tmp_path: Path) -> None:
    first, second = started(tmp_path / "tare"), started(tmp_path / "tare")
    end(first)
    assert (tmp_path / "tare").is_dir()
    end(second)
    assert not (tmp_path / "tare").exists()
    end(started(tmp_path / "tare", "note"))
    assert (tmp_path / "tare" / "note").exists()


def test_one_that_is_removed_while_it_is_taken_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_FOLDER, str(tmp_path / "tare"))
    lock, removed = paths.fcntl.flock, []

    def late(number: int, how: int) -> None:
        if not removed:
            removed.append((tmp_path / "tare").rmdir())
        lock(number, how)

    monkeypatch.setattr(paths.fcntl, "flock", late)
    monkeypatch.setattr(paths.atexit, "register", lambda *_: None)
    assert paths.made_run_folder().is_dir()
    assert removed
