"""What launches in turns share is read once at a moment, and a reading opens and parses no more than it must."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node
from tare.system.counters import monitor, netlink, qdisc, reader
from tare.system.counters.raw_readings import CounterReading, joined_readings
from tare.system.counters.reader import GroupUsage, Reader
from tare.system.counters.sources import Sources
from tare.system.counters.values import HostWatch, Moment
from tare.system.node import Watch
from tare.system.node.cgroups import Group
from unit.cgroup_tree import group_of
from waiting import wait_until

NODE = make_node(pid=os.getpid())
PLACE = HostWatch(node=NODE, pid=os.getpid(), watches=(Watch(pid=os.getpid(), interface="lo", role="x"),))
SHARED_FILES = ("dev", "snmp", "netstat", "stat", "softnet_stat")
"""What a reading in turns takes from a node whose namespace has ranks; connection tracking is not everywhere."""
MACHINE_FILES = 2
"""Those of them that are the machine's."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the system calls that readings make, by name."""
    calls: Counter[str] = Counter()

    def counting(owner: object, name: str) -> None:
        plain = getattr(owner, name)

        def call(*given: object, **named: object) -> object:
            calls[name] += 1
            return plain(*given, **named)

        monkeypatch.setattr(owner, name, call)

    for name in ("open", "pread", "close", "stat", "access"):
        counting(os, name)
    counting(netlink.Netlink, "answer")
    return calls


Opened = Callable[..., Reader]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return what makes readers that share their sources; all are closed at the end."""
    with ExitStack() as stack:
        shared, machine = (stack.enter_context(closing(Sources())) for _ in range(2))

        def reader(place: HostWatch = PLACE, *, share: bool = True, of_machine: bool = False) -> Reader:
            sources = {"shared": shared} if share else {}
            made = Reader([place], **sources, **({"machine": machine} if of_machine else {}))
            return stack.enter_context(closing(made))

        yield reader


def test_a_reading_in_turns_opens_no_file_and_reads_each_shared_one_once(counted: Counter[str], opened: Opened) -> None:
    reader = opened()
    reader.read(moment=1)
    counted.clear()
    reader.read(whole=False, moment=2)
    blocks = counted.pop("pread")
    missing = counted.pop("open", 0)
    assert missing <= 1, "only connection tracking may be missing, and is looked for again"
    assert len(SHARED_FILES) <= blocks <= len(SHARED_FILES) + 3, "two are longer than a block"
    assert counted == {"answer": 1}


def test_two_nodes_that_share_a_namespace_are_read_as_one(counted: Counter[str]) -> None:
    reader.read([PLACE])
    one = counted.copy()
    counted.clear()
    reader.read([PLACE, PLACE])
    assert (counted["open"], counted["answer"]) == (one["open"], one["answer"])


def test_the_end_of_a_section_is_the_beginning_of_the_next_one(counted: Counter[str], opened: Opened) -> None:
    one, other = opened(), opened()
    for each in (one, other):
        each.read()
    after = one.read(whole=False, moment=7)
    counted.clear()
    before = other.read(whole=False, moment=7)
    assert not counted, "nothing is read twice at a moment"
    assert (before.growing, before.interfaces, before.busy_s) == (after.growing, after.interfaces, after.busy_s)
    other.read(whole=False, moment=8)
    assert counted["pread"] >= len(SHARED_FILES)
    counted.clear()
    other.read(whole=False)
    other.read(whole=False)
    assert counted["answer"] == 2, "without a moment everything is read"


def test_a_launch_on_a_labs_node_begins_with_what_was_read_when_the_last_one_there_ended(
    counted: Counter[str], opened: Opened
) -> None:
    one, other = (opened(of_machine=True) for _ in range(2))
    for each in (one, other):
        each.read()
    one.take(whole=False, moment=7)
    after = one.take(whole=False, moment=9, since=0)
    counted.clear()
    before = other.take(whole=False, moment=12, since=7)
    assert counted["answer"] == 0, "another node was used in the meantime"
    assert MACHINE_FILES <= counted["pread"] < len(SHARED_FILES), "one may be longer than a block"
    of_node, of_machine = after.layout.of_node, len(after.contents) - MACHINE_FILES
    assert [a is b for a, b in zip(after.contents, before.contents, strict=True)][:of_node] == [True] * of_node
    assert before.layout.of_node <= of_machine
    counted.clear()
    other.take(whole=False, moment=15)
    assert counted["answer"] == 1, "at its end the node is read"
    counted.clear()
    one.take(whole=False, moment=15, since=7)
    assert not counted
    one.take(whole=False, moment=20, since=16)
    assert counted["answer"] == 1, "others may have used the node before the first moment of a series"


@pytest.mark.parametrize(
    ("place", "share"),
    [
        (HostWatch(node=make_node(pid=0, group=Group(path="", hierarchies=())), pid=0, watches=()), True),
        (replace(PLACE, node=replace(NODE, machine="alpha")), True),  # one that was given to tare
        (PLACE, False),
    ],
)
def test_what_others_may_use_is_always_read_when_a_launch_begins(
    place: HostWatch, share: bool, counted: Counter[str], opened: Opened
) -> None:
    reader = opened(place, share=share)
    reader.take(moment=7)
    counted.clear()
    reader.take(whole=False, moment=9, since=7)
    assert (counted["answer"], counted["pread"] >= len(SHARED_FILES) - 1) == (1, True)


def test_a_content_that_did_not_change_is_not_parsed_again(tmp_path: Path) -> None:
    file, parsed = tmp_path / "counts", []
    sources = Sources()

    def parse(content: bytes) -> dict[str, float]:
        parsed.append(content)
        return {"n": int(content or 0)}

    for content in (b"1", b"1", b"2"):
        file.write_bytes(content)
        taken = sources.file(str(file)).take(0)
        assert [taken.parsed(parse) for _ in range(2)] == [{"n": int(content)}] * 2
    assert parsed == [b"1", b"2"]
    file.unlink()
    sources.close()
    assert sources.file(str(file)).take(0).parsed(parse) == {"n": 0}


@pytest.mark.parametrize(
    ("version", "name", "texts"),
    [
        (1, "cpuacct.usage", ("1500000000\n", "2500000000\n")),
        (2, "cpu.stat", ("usage_usec 1500000\n", "usage_usec 2500000\n")),
    ],
)
def test_the_cpu_time_of_a_cgroup_is_read_again_without_opening_its_file(
    version: int, name: str, texts: tuple[str, str], tmp_path: Path, counted: Counter[str]
) -> None:
    group = group_of({name: texts[0]}, tmp_path, version)
    usage = GroupUsage(group)
    assert usage.seconds() == 1.5
    group_of({name: texts[1]}, tmp_path, version)
    counted.clear()
    assert usage.seconds() == 2.5
    assert counted == {"pread": 1}
    usage.close()
    assert GroupUsage(Group(path="gone", hierarchies=group.hierarchies)).seconds() == 0.0


def switches_of_machine() -> str:
    return Path("/proc/stat").read_text().partition("ctxt ")[2].partition("\n")[0]


def test_queues_are_read_in_turns_only_where_one_could_drop(
    monkeypatch: pytest.MonkeyPatch, counted: Counter[str], opened: Opened
) -> None:
    monkeypatch.setattr(qdisc, "kept_in", lambda _: {qdisc.KEPT: 0})
    reader = opened()

    def asked(*, whole: bool) -> int:
        counted.clear()
        switches = switches_of_machine()
        wait_until(lambda: switches_of_machine() != switches, "what all readings of the machine differ in")
        taken.append(reader.take(whole=whole, moment=len(taken) + 2))
        return counted["answer"]

    taken = [reader.take(moment=1)]
    assert [asked(whole=False), asked(whole=True), asked(whole=False)] == [0, 1, 0]
    monkeypatch.setattr(qdisc, "kept_in", lambda _: {qdisc.KEPT: 1})
    assert asked(whole=True) == 1, "now there is one"
    assert asked(whole=False) == 1
    assert taken[-1].layout is not taken[-2].layout
    readings = [CounterReading(moment=Moment(), nodes=(each,)) for each in taken]
    start, end = joined_readings([(readings[0], readings[3]), (readings[4], readings[5])])
    assert monitor.by_place(start, end).keys() >= {"machine localhost"}
