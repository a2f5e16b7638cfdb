"""A tare on a host and one in a container on it leave each other's labs alone, in both directions."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.live import ended, live, pids_of, processes, reached, start, tare, write_study
from integration.studies import state
from tare.agent import clean
from tare.system.fault import VARIABLE
from tare.system.process import run

pytestmark = live()
OWN_RUN = 'mount -t tmpfs -o mode=755 tmpfs /run && "$@"'
NUMBERED = ("--pid", "--fork", "--mount-proc", "--kill-child")
CLEANS = """
from tare.agent import clean
found = (clean.find(dead_only=True), clean.leftovers_of_the_dead(), clean.find())
print(sum(found, ()))
"""
CONTAINERS = {
    "its own /run": ("unshare", "--mount", "--propagation", "private", "sh", "-c", OWN_RUN, "sh"),
    "its own /run and processes": (
        "unshare", "--mount", *NUMBERED, "--propagation", "private", "sh", "-c", OWN_RUN, "sh",
    ),
    "its own processes": ("unshare", *NUMBERED, "--propagation", "private", "sh", "-c", '"$@"', "sh"),
}  # fmt: skip
"""What starts a command as in a container: as root, with the paths of this machine."""


def stopped_below(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that they have, which are stopped."""
    parents = {each: (entry / "stat").read_text().rpartition(") ")[2].split()[1] for each, entry in processes()}
    below = {str(pid)}
    while new := {str(each) for each, parent in parents.items() if parent in below} - below:
        below |= new
    yield from (int(each) for each in below if state(int(each)) == "T")


def first_stopped(pid: int) -> int:
    """Return a stopped process below another, 0 if there is none, or if one ends meanwhile."""
    try:
        return next(stopped_below(pid), 0)
    except OSError:
        return 0


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_run_in_a_container_is_left_alone_by_the_host(container: str, tmp_path: Path) -> None:
    study = write_study(tmp_path, "inside", ["bare", "bare+bridge"])
    fault = {VARIABLE: "store:after-trial:1:STOP"}
    inside = start("run", study, cwd=tmp_path, before=CONTAINERS[container], env=fault)
    pid = reached(inside, lambda: first_stopped(inside.pid), "stop after the first trial")
    try:
        notes = (json.loads(file.read_text()) for file in Path(f"/proc/{pid}/root/run/tare").glob("s*-*/owner.json"))
        in_namespace = int(Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].splitlines()[0].split()[-1])
        (lab,) = (note["lab"] for note in notes if note["pid"] == in_namespace)
        before = pids_of(lab)
        assert len(before) >= 4  # the holders of the control network, the switch and two nodes
        assert lab not in {item.lab for item in clean.find(dead_only=True)}
        assert lab not in {item.lab for item in clean.leftovers_of_the_dead()}
        assert pids_of(lab) == before
        if "/run" in container:
            assert lab not in {item.lab for item in clean.find()}
            assert "not created by tare with this state folder" in tare("clean", "--dry-run", cwd=tmp_path).stderr
    finally:
        os.kill(pid, signal.SIGCONT)
    result = ended(inside)
    assert result.status in (0, 3), result.stderr
    assert pids_of(lab) == set()


@pytest.mark.usefixtures("own_state")  # other labs of this machine are not told of
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_lab_of_the_host_is_left_alone_by_a_container(
    container: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "/run" not in container:  # it shows the first lab that it finds
        request.getfixturevalue("own_state")
    name = f"h{os.getpid() % 10**6}"
    assert tare("lab", "up", "--name", name, cwd=tmp_path).status == 0
    try:
        before = pids_of(name)
        assert len(before) >= 4
        cleaned = run((*CONTAINERS[container], sys.executable, "-c", CLEANS), timeout_s=60)
        assert pids_of(name) == before
        assert ("/run" in container) == (name not in cleaned.stdout)  # it stays up, but a plain `tare clean` removes it
        status = run(
            (*CONTAINERS[container], sys.executable, "-m", "tare.cli.app", "lab", "status"), timeout_s=60, check=False
        )
        told = "no lab is up" if "/run" in container else f"the lab {name} was started in another PID namespace"
        assert told in status.stdout + status.stderr
    finally:
        assert tare("lab", "down", "--name", name, cwd=tmp_path).status == 0
    assert pids_of(name) == set()
