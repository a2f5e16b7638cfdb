"""An ordinary user gets labs and bare studies inside a user namespace; what needs a daemon is unavailable."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    Ended,
    Watch,
    by_environment,
    compiled,
    ended,
    live,
    outcome,
    pids_of,
    start,
    trials,
    wait_for,
    write_study,
)
from integration.studies import stopped
from tare.images.kernels import ensure_kernels

pytestmark = live("cni")
NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]
PYTHON = Path(sys.executable).resolve()
PURE = Path(sysconfig.get_path("purelib"))
PACKAGES = PURE.relative_to(REPOSITORY) if PURE.is_relative_to(REPOSITORY) else PURE


@dataclass(frozen=True, kw_only=True)
class User:
    """An ordinary user with a folder of theirs, in which are the kernels, and a home that cannot be written."""

    uid: int
    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "run" / "tare"

    @property
    def before(self) -> tuple[str, ...]:
        """Become the user, who sees the repository at a place of theirs: it may stand where only root may read."""
        number = str(self.uid)
        become = f"setpriv --reuid {number} --regid {number} --clear-groups --no-new-privs"
        script = f'mount --bind {REPOSITORY} {self.repository} && shift && exec {become} {PYTHON} "$@"'
        return ("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh")

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": "/nonexistent",
            "TARE_CACHE": str(self.folder / "cache"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": ":".join(str(self.repository / path) for path in ("src", PACKAGES)),
        }

    def start(self, *arguments: str | Path) -> Any:
        return start(*arguments, cwd=self.folder, env=self.environment, before=self.before)

    def stopped(self, point: str, *arguments: str | Path) -> AbstractContextManager[Any]:
        return stopped(point, *arguments, cwd=self.folder, env=self.environment, before=self.before)

    def tare(self, *arguments: str | Path) -> Ended:
        return ended(self.start(*arguments))

    def study(self, name: str, environments: list[str], **keys: str) -> Path:
        path = write_study(self.folder, name, environments, **keys)
        path.chmod(0o644)
        return path

    def left(self, watch: Watch, lab: str) -> list[str]:
        return watch.left(lab, self.state)


@pytest.fixture
def user() -> Iterator[User]:
    # pytest's own folders are root's, and so may be the repository's
    folder = Path(tempfile.mkdtemp(prefix="tare-user-", dir="/tmp"))
    made = User(uid=NOBODY, folder=folder)
    try:
        build = ensure_kernels("openmpi")
        shutil.copytree(build.prefix, folder / "cache" / "kernels" / build.prefix.name)
        (folder / "run").mkdir()
        made.repository.mkdir()
        folder.chmod(0o755)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        (folder / "run").chmod(0o700)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_lab_works_without_root(user: User) -> None:
    name = f"u{os.getpid()}"
    watch = Watch()
    up = user.tare("lab", "up", "--name", name, "--nodes", "2", "--link-rate", "1Gbit")
    assert up.status == 0, up.stderr
    try:
        watch.look(name)
        assert f"lab {name}: 2 nodes, up" in user.tare("lab", "status").stdout
        on = ("lab", "exec", "--name", name)
        told = user.tare(*on, "n1", "--", "sh", "-c", "hostname; id -u; ls /run; pwd; exit 3")
        assert (told.status, told.stdout.splitlines()) == (3, ["n1", "0", str(user.folder)]), told.stderr
        boot_id = user.tare(*on, "n0", "--", "cat", "/proc/sys/kernel/random/boot_id").stdout
        assert boot_id != Path("/proc/sys/kernel/random/boot_id").read_text()
        ping = user.tare(*on, "n0", "--", "python3", "-c", REACH)
        assert ping.status == 0, ping.stderr
        head = user.tare(*on, "head", "--", "ip", "-brief", "address", "show", "ctl0")
        assert "10.213.255.254/16" in head.stdout, head.stderr
        again = user.tare("lab", "up", "--name", name)
        assert again.status == 2
        assert "is already up" in again.stderr
        assert str(user.uid) in {str(Path(f"/proc/{pid}").stat().st_uid) for pid in pids_of(name)}
    finally:
        down = user.tare("lab", "down", "--name", name)
    assert down.status == 0, down.stderr
    assert len(watch.namespaces) > 10
    assert user.left(watch, name) == []


REACH = """
import socket, sys
try:
    socket.create_connection(("10.214.0.2", 9))
except ConnectionRefusedError:
    sys.exit(0)
"""


def test_a_docker_daemon_is_refused_with_the_reason(user: User) -> None:
    result = user.tare("lab", "up", "--docker")
    assert result.status == 2
    assert "a Docker daemon needs root" in result.stderr
    assert not user.state.exists() or list(user.state.iterdir()) == []


def test_a_bare_study_runs_without_root_and_docker_s_cells_are_unavailable(user: User) -> None:
    names = ["bare", "bare+bridge", "bare+direct", "bare+macvlan"]
    study = user.study("mine", [*names, "docker+bridge"])
    watch = Watch()
    process = user.start("run", study)
    with watch.looking(f"s{process.pid}"):
        result = ended(process)
    assert result.status == 3, result.stderr
    found = by_environment(user.folder / "results" / "mine")
    assert {name: [outcome(trial) for trial in its] for name, its in found.items()} == {
        name: ["Completed"] for name in names
    }
    for name, (trial,) in found.items():
        first, second = trial["ranks"]
        assert not set(first["cpus"]) & set(second["cpus"]), name
        assert first["host"] != second["host"], name
    assert "a Docker daemon in a node needs root" in " ".join(result.stdout.split())
    assert (user.folder / "results" / "mine" / "report.html").stat().st_uid == user.uid
    assert len(watch.namespaces) > 10
    assert user.left(watch, result.lab) == []


def test_a_study_that_only_root_can_run_is_refused_with_the_reason(user: User) -> None:
    result = user.tare("run", user.study("dock", ["docker+host", "docker+bridge"]))
    assert result.status == 2
    assert "a Docker daemon in a node needs root" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long  # it waits for a time limit
def test_a_rank_that_hangs_is_ended_without_cgroups_too(user: User) -> None:
    program = compiled("misbehave", user.folder)
    workloads = f"{{app: {{command: [{program}, hang, /tmp/once, /tmp/twice], time_limit: 20s}}}}"
    study = user.study("hang", ["bare", "bare+bridge"], workloads=workloads)
    watch = Watch()
    process = user.start("run", study)
    name = f"s{process.pid}"
    with watch.looking(name):
        result = ended(process)
    assert result.status == 4, result.stderr
    hung, other = trials(user.folder / "results" / "hang")
    assert hung["outcome"]["reason"] == "it did not end within its time limit of 20 s"
    assert outcome(other) == "Completed"
    assert user.left(watch, name) == []


def test_what_a_killed_run_made_is_undone_without_root_by_the_next(user: User) -> None:
    study = user.study("cut", ["bare", "bare+bridge"])
    watch = Watch()
    with user.stopped("store:after-trial", "run", study) as process:
        name = f"s{process.pid}"
        watch.look(name)
        os.kill(process.pid, signal.SIGKILL)
    assert ended(process).status == -signal.SIGKILL
    assert pids_of(name)
    second = user.tare("run", study)
    assert second.status in (0, 3), second.stderr
    wait_for(lambda: not pids_of(name), "end of the processes")
    assert user.left(watch, name) == []
    assert user.left(watch, second.lab) == []


def test_the_report_so_far_is_in_the_users_results(user: User) -> None:
    with user.stopped("round:ready", "run", user.study("followed", ["bare", "bare+bridge"]), "--live") as process:
        (page,) = user.folder.glob("results/*/report.html")
        assert ">running<" in page.read_text()
    result = ended(process)
    assert result.status in (0, 3), result.stderr
    assert result.stderr.count("the report so far") == 1, "it is told after the command was replaced"
    assert ">running<" not in page.read_text()
