"""Growth is told by place: a host's namespaces and cgroups together, and the machine apart."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node
from tare.counters import monitor, sources
from tare.counters.files import KernelFile
from tare.counters.monitor import CounterValues, HostWatch, Reader, joined
from tare.counters.values import place_of_machine
from tare.node import Watch
from tare.node.cgroups import MARK, Group, Hierarchy

NODE = make_node(pid=os.getpid())


def values(**numbers: float) -> CounterValues:
    scopes = {"pod": ("", "n0", "net 1"), "node": ("", "n0", "net 2"), "machine": ("", place_of_machine(""), "")}
    growing = {scopes[name]: {"x": number} for name, number in numbers.items()}
    return CounterValues(growing=growing, states={("", "n0", "net 2"): {"conntrack_entries": 3}})


def test_a_place_has_the_growth_of_all_its_namespaces_and_its_states() -> None:
    before, after = values(pod=1, node=10, machine=5), values(pod=3, node=14, machine=5)
    assert monitor.by_place(before, after) == {"n0": {"conntrack_entries": 3, "x": 6}}
    assert monitor.counters(before, after) == {"x": 6}, "a state is no growth"


def test_what_was_read_in_each_section_grew_only_in_sections() -> None:
    sections = [(values(node=0), values(node=1)), (values(node=50), values(node=52))]
    assert monitor.counters(*joined(sections)) == {"x": 3}


def test_what_was_read_only_at_the_ends_grew_between_them() -> None:
    sections = [
        (values(pod=10, node=0), values(node=1)),
        (values(node=50), values(node=51)),
        (values(node=90), values(pod=17, node=91)),
    ]
    assert monitor.by_place(*joined(sections))["n0"]["x"] == 7 + 3


def test_numbers_are_stored_with_six_digits() -> None:
    scope = ("", "n0", "g")
    before = CounterValues(growing={scope: {"throttled_s": 0.0, "n": 1}})
    after = CounterValues(growing={scope: {"throttled_s": 1.23456789, "n": 123456790}})
    assert monitor.counters(before, after) == {"throttled_s": 1.23457, "n": 123456789}


def test_a_reading_that_is_not_whole_leaves_out_what_one_deployment_has_alone(tmp_path: Path) -> None:
    group = Group(path="n0", hierarchies=(Hierarchy(mountpoint=tmp_path, version=2),))
    (tmp_path / MARK / "n0").mkdir(parents=True)
    for name, text in (
        ("cpu.stat", "usage_usec 1250000\nnr_throttled 3\nthrottled_usec 500000\n"),
        ("memory.stat", "pgscan 8\n"),
        ("memory.events", "max 4\n"),
        ("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n"),
    ):
        (tmp_path / MARK / "n0" / name).write_text(text)
    watch = Watch(pid=os.getpid(), interface="lo", role="x")
    place = HostWatch(node=replace(NODE, group=group), pid=os.getpid(), watches=(watch,), groups=(group,))
    reading = Reader([place])
    try:
        whole, part = reading.read(), reading.read(whole=False, machine=False)
    finally:
        reading.close()
    own = whole.growing["", "n0", "n0"]
    assert own == {
        "throttled_s": 0.5, "throttled_periods": 3, "page_scans": 8, "memory_failcnt": 4, "memory_pressure_s": 1.0,
    }  # fmt: skip
    assert set(part.growing["", "n0", "n0"]) == {"throttled_s", "throttled_periods"}
    assert (whole.throttled_s, whole.job_s, part.throttled_s) == (0.5, 1.25, 0.5)
    assert ("", "machine localhost", "") in whole.growing
    assert ("", "machine localhost", "") not in part.growing
    assert whole.busy_s > 0 == part.busy_s


def test_sources_that_this_machine_lacks_are_named_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "why_unread", lambda path: "no such file" if "pressure" in path else "")
    found = monitor.read([HostWatch(node=NODE, pid=os.getpid(), watches=())])
    assert "pressure (no such file)" in found.lacking
    assert "throttling (the job has no cgroup of its own)" in found.lacking
    assert monitor.lacking(found, found).startswith("pressure (no such file), throttling")
    assert any("TcpInSegs" in numbers for numbers in found.growing.values())


def test_softirqs_that_the_kernel_does_not_count_are_named_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, stat = KernelFile.read, b"cpu 1 2 3 4 5 6 7 8\nctxt 9\n"
    monkeypatch.setattr(KernelFile, "read", lambda file: stat if file.path == "/proc/stat" else plain(file))
    found = monitor.read([HostWatch(node=NODE, pid=os.getpid(), watches=())])
    assert "softirqs (not in /proc/stat)" in found.lacking
    assert found.growing["", "machine localhost", ""]["context_switches"] == 9
