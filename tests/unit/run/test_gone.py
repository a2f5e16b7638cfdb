"""What held a pod or a container and has ended is named, with its node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, make_pod
from tare.host.namespaces import is_running, runs
from tare.node import Container, Endpoint
from tare.node.cgroups import Group, Hierarchy
from tare.node_service.sides import Side
from tare.node_service.upkeep import end_strays, ended, keepers_of

NODE = make_node(pid=0)


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def deployed(pid: int, *containers: Container, container: str = "") -> tuple[Side, ...]:
    pod = make_pod(NODE, name="tare-s1-n0", pid=pid, container=container)
    endpoint = Endpoint(address="10.214.0.1", prefix=24, interface="data0", mtu=1500)
    return (Side(pod=pod, endpoint=endpoint, prefix=Path("/opt/tare"), containers=containers),)


def test_nothing_is_gone_while_all_first_processes_run(living: subprocess.Popen[bytes]) -> None:
    assert ended(deployed(living.pid, Container(name="c0", enter=(), pid=living.pid))) is None


def test_containers_without_a_process_of_their_own_cannot_be_gone(living: subprocess.Popen[bytes]) -> None:
    assert ended(deployed(living.pid, Container(name="c0", enter=()))) is None
    assert ended(deployed(0)) is None


def test_a_process_whose_end_nobody_asked_for_has_ended(living: subprocess.Popen[bytes]) -> None:
    assert runs(living.pid)
    living.kill()
    _wait_until_it_is_a_zombie(living.pid)
    assert not runs(living.pid)
    assert ended(deployed(living.pid, container="tare-s1-n0")) == "the container tare-s1-n0 on n0 has ended"
    assert ended(deployed(living.pid)) == "what holds the pod tare-s1-n0 on n0 has ended"


@pytest.mark.parametrize(
    ("stat", "runs_on"),
    [
        ("5 (sh) S 1 5 5 0 -1 4194560 99 0", True),
        ("5 (a) Z (b)) R 1 5 5 0 -1 4194560 99 0", True),
        ("5 (sh) Z 1 5 5 0 -1 4228364 99 0", False),
        ("5 (sleep) S 1 5 5 0 -1 4194564 99 0", False),  # the first of its namespace: it waits for the others in it
    ],
)
def test_a_process_on_its_way_out_has_ended(stat: str, runs_on: bool) -> None:
    assert is_running(stat) == runs_on


def test_one_of_several_containers_is_named(living: subprocess.Popen[bytes]) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    both = (Container(name="c0", enter=(), pid=living.pid), Container(name="c1", enter=(), pid=dead.pid))
    assert ended(deployed(living.pid, *both, container="tare-s1-n0")) == "the container c1 on n0 has ended"


def _wait_until_it_is_a_zombie(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_ending_strays_spares_what_holds_other_environments(
    living: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    spared: list[set[int]] = []
    monkeypatch.setattr(Group, "kill", lambda self, *, spare: spared.append(set(spare)))
    (side,) = deployed(living.pid)
    held = Group(path="lab/n0/job", hierarchies=(Hierarchy(mountpoint=Path("/x"), version=1),))
    mine = replace(side, pod=replace(side.pod, group=held, keepers=frozenset({7})))
    end_strays((mine,), {8, 9}, Path("/x"))
    assert spared == [{7, 8, 9}]
    assert keepers_of((mine,)) == {7}
