"""Readings that are parsed when their launch has ended give the numbers that parsing each at once gave.

`recorded.json` has the contents of all sources of two network namespaces at six moments: real ones, between which a
queue lost packets and a node tracked connections, also between the sections; those of the cgroup are made up. Its
`before` and `after` are what version 5cebd411 made of them, which parsed every reading when it was read.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node
from tare.system.counters import monitor, raw_readings, reader, sources
from tare.system.counters.raw_readings import CounterReading, ParsedReading
from tare.system.counters.reader import Reader
from tare.system.counters.values import CounterValues, HostWatch, Moment
from tare.system.node import Watch
from tare.system.node.kernel_files import KernelFile
from unit.cgroup_tree import group_of

RECORDED = Path(__file__).parents[3] / "data" / "counters" / "recorded.json"
TIMES = ("busy_s", "steal_s", "softirq_s", "job_s", "ours_s", "throttled_s")
NODE, POD = 70, 71


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


@pytest.fixture
def sections(
    recorded: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[CounterReading, CounterReading]]:
    """Read the recorded moments as the beginnings and ends of three sections."""
    moments, now = recorded["moments"], [0]

    def content(file: KernelFile) -> bytes:
        texts = moments[now[0]]["files"]
        name = os.path.basename(file.path) if file.path.startswith(str(tmp_path)) else file.path
        return str(texts.get(name, "")).encode()

    def queues(asked: sources._Queues) -> bytes:
        return base64.b64decode(moments[now[0]]["queues"][str(asked._pid)])

    monkeypatch.setattr(KernelFile, "read", content)
    monkeypatch.setattr(sources._Queues, "read", queues)
    monkeypatch.setattr(reader, "_ident", lambda pid: f"net {pid}")
    group = group_of({name: text for name, text in moments[0]["files"].items() if "/" not in name}, tmp_path)
    watches = (
        Watch(pid=POD, interface="pod1", role="data NIC"),
        Watch(pid=NODE, interface="pod0", role="x"),
        Watch(pid=NODE, interface="gone", role="x"),
    )
    node = replace(make_node(pid=NODE), group=group)
    pod = HostWatch(node=node, pid=POD, host="n0c0", watches=watches, groups=(group,))
    own = Reader([pod, HostWatch(node=node, pid=NODE, watches=())])

    def take(number: int) -> CounterReading:
        now[0] = number
        taken = own.take(whole=number in (0, len(moments) - 1), moment=number + 1)
        moment = Moment(number=number + 1, site_s=1.0 + number * 0.01, tare_s=2.0 + number * 0.003)
        return CounterReading(moment=moment, nodes=(taken,))

    return [(take(at), take(at + 1)) for at in range(0, len(moments), 2)]


def plain(values: CounterValues) -> dict[str, Any]:
    """Return what the recording has of values; keys of several words are joined."""
    by_key = {
        name: {" | ".join(map(str, key)): found for key, found in getattr(values, name).items()}
        for name in ("interfaces", "growing", "states")
    }
    by_key["interfaces"] = {key: list(counts) for key, counts in by_key["interfaces"].items()}
    return by_key | {name: getattr(values, name) for name in TIMES}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Whole numbers are the same; numbers of seconds are, but for the order in which they are added."""
    assert found.keys() == expected.keys()
    for name in ("interfaces", "states"):
        assert found[name] == expected[name], name
    for name in TIMES:
        assert found[name] == pytest.approx(expected[name], rel=1e-12), name
    assert found["growing"].keys() == expected["growing"].keys()
    for scope, numbers in expected["growing"].items():
        own = found["growing"][scope]
        assert own.keys() == numbers.keys(), scope
        for name, number in numbers.items():
            assert own[name] == (number if isinstance(number, int) else pytest.approx(number, rel=1e-12)), name


def test_recorded_readings_give_the_numbers_that_they_gave_when_each_was_parsed_at_once_by_head_or_node(
    recorded: dict[str, Any], sections: list[tuple[CounterReading, CounterReading]]
) -> None:
    parsed = [
        tuple(replace(each, nodes=tuple(ParsedReading(node.values()) for node in each.nodes)) for each in pair)
        for pair in sections
    ]
    for read in (sections, parsed):
        before, after = raw_readings.joined_readings(read)  # type: ignore[arg-type]
        assert_same(plain(before), recorded["before"])
        assert_same(plain(after), recorded["after"])


def test_what_was_lost_between_sections_is_not_counted(sections: list[tuple[CounterReading, CounterReading]]) -> None:
    before, after = raw_readings.joined_readings(sections)
    whole, own = monitor.by_place(before, sections[-1][1].values()), monitor.by_place(before, after)
    for name in ("qdisc_drops", "TcpRetransSegs", "TcpExtTCPTimeouts"):
        assert 0 < own["n0"][name] < whole["n0"][name], name
    assert 0 < own["n0c0"]["throttled_periods"] < whole["n0c0"]["throttled_periods"]
    for name in ("page_scans", "TcpInSegs"):
        assert own["n0c0"][name] == whole["n0c0"][name], "nobody else uses the pod"
