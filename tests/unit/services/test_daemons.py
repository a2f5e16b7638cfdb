"""A daemon of a network: how it is waited for, and what is said where it does not come."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes import make_node
from tare.errors import InfrastructureError
from tare.host.process import Popen, end, start
from tare.node.cgroups import Group, Hierarchy
from tare.services.daemons import AGENT, TAIL_CHARACTERS, Daemon, Place, command


def place_in(folder: Path) -> Place:
    group = Group(path="lab/n1", hierarchies=(Hierarchy(mountpoint=Path("/cg"), version=2),))
    return Place(node=make_node(1, group=group), pid=os.getpid(), folder=str(folder))


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[Daemon]:
    process = start(("/bin/sleep", "20"))
    yield Daemon(name="thing", place=place_in(tmp_path), process=process)
    end(process, grace_s=0.1)


def ended(folder: Path) -> Daemon:
    process: Popen[str] = start(("/bin/true",))
    process.wait()
    return Daemon(name="thing", place=place_in(folder), process=process)


def test_what_a_daemon_is_waited_for_is_returned(sleeping: Daemon) -> None:
    seen = iter((None, None, "here"))
    assert sleeping.wait_for(lambda: next(seen), "an answer", limit_s=5) == "here"


def test_one_that_has_ended_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "thing.log").write_text("x" * 5000 + "no such device\n")
    with pytest.raises(InfrastructureError, match=r"thing on n1 exited without an answer: x+no such device$") as told:
        ended(tmp_path).wait_for(lambda: None, "an answer", limit_s=5)
    assert len(told.value.message) < TAIL_CHARACTERS + 100


def test_one_that_runs_and_does_nothing_is_told_when_its_time_is_up(sleeping: Daemon) -> None:
    with pytest.raises(InfrastructureError, match=r"still runs without a subnet after 0.05 s: no output"):
        sleeping.wait_for(lambda: None, "a subnet", limit_s=0.05)


def test_what_was_seen_counts_although_the_daemon_has_ended(tmp_path: Path) -> None:
    assert ended(tmp_path).wait_for(lambda: 1, "an answer", limit_s=5) == 1


def test_a_daemon_is_started_in_its_cgroup_and_in_all_namespaces_of_its_place(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    argv = command(place, place.node.group.below("thing"), ("/x/thing", "--now"))
    entry = json.loads(argv[argv.index("--entry") + 1])
    assert entry == {
        "cgroups": ["/cg/tare/lab/n1/thing"],
        "argv": ["nsenter", "-t", str(os.getpid()), "--all", "--"],
    }
    assert str(AGENT) in argv
    assert argv[-3:] == ("--", "/x/thing", "--now")
