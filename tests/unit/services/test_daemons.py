"""A daemon of a network: how it is waited for, and what is said where it does not come."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodes import make_node
from tare.errors import InfrastructureError
from tare.node.cgroups import Group, Hierarchy
from tare.services.daemons import AGENT, TAIL_CHARACTERS, Daemon, Place, command


def place_in(folder: Path) -> Place:
    group = Group(path="lab/n1", hierarchies=(Hierarchy(mountpoint=Path("/cg"), version=2),))
    return Place(node=make_node(1, group=group), pid=os.getpid(), folder=str(folder))


def daemon(folder: Path, status: int | None) -> Daemon:
    """Return a daemon that runs, or has ended with a status."""
    return Daemon(name="thing", place=place_in(folder), process=SimpleNamespace(poll=lambda: status))  # type: ignore[arg-type]


@pytest.mark.parametrize(("status", "looks"), [(None, (None, None, "here")), (0, ("here",))])
def test_what_a_daemon_is_waited_for_is_returned_also_if_it_has_ended(
    status: int | None, looks: tuple[str | None, ...], tmp_path: Path
) -> None:
    seen = iter(looks)
    assert daemon(tmp_path, status).wait_for(lambda: next(seen), "an answer", limit_s=600) == "here"


def test_one_that_has_ended_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "thing.log").write_text("x" * 5000 + "no such device\n")
    with pytest.raises(InfrastructureError, match=r"thing on n1 exited without an answer: x+no such device$") as told:
        daemon(tmp_path, 1).wait_for(lambda: None, "an answer", limit_s=600)
    assert len(told.value.message) < TAIL_CHARACTERS + 100


def test_one_that_runs_and_does_nothing_is_told_when_its_time_is_up(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"still runs without a subnet after 0.05 s: no output"):
        daemon(tmp_path, None).wait_for(lambda: None, "a subnet", limit_s=0.05)


def test_a_daemon_is_started_in_its_cgroup_and_in_all_namespaces_of_its_place(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    argv = command(place, place.node.group.below("thing"), ("/x/thing", "--now"))
    entry = json.loads(argv[argv.index("--entry") + 1])
    assert entry == {"cgroups": ["/cg/tare/lab/n1/thing"], "argv": ["nsenter", "-t", str(os.getpid()), "--all", "--"]}
    assert str(AGENT) in argv
    assert argv[-3:] == ("--", "/x/thing", "--now")
