"""Counters are read per namespace and node, before and after; their growth is reported by place."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import large_results
from nodes import make_node
from tare.model import Completed, Invalid
from tare.store.results_checks import sound_trial
from tare.system.counters import monitor, reader, sources
from tare.system.counters.interfaces import PORT_COUNTERS
from tare.system.counters.raw_readings import CounterReading, ParsedReading, joined_readings
from tare.system.counters.reader import Reader
from tare.system.counters.values import CounterValues, HostWatch, Moment, joined, merged, place_of_machine
from tare.system.node import SILENT_ROLE, Watch, unreadable_counters
from tare.system.node.kernel_files import KernelFile
from unit.cgroup_tree import group_of

NODE = make_node(pid=70)
TIMES = ("busy_s", "steal_s", "softirq_s", "job_s", "ours_s", "throttled_s")


def test_real_counters_grow_with_what_is_sent() -> None:
    watch = Watch(pid=os.getpid(), interface="lo", role="data NIC")
    place = HostWatch(node=NODE, pid=os.getpid(), watches=(watch,))
    before = reader.read([place])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(20):
                sender.sendto(b"x" * 1000, receiver.getsockname())
    (item,) = monitor.traffic([place], before, reader.read([place]))
    assert (item.node, item.interface, item.role) == ("n0", "lo", "data NIC")
    assert item.tx_bytes >= 20_000
    assert item.tx_packets >= 20


def reading(values: tuple[int, int, int, int], **more: object) -> CounterValues:
    return CounterValues(interfaces={("", 70, "data0"): values}, **more)  # type: ignore[arg-type]


PLACE = HostWatch(node=NODE, pid=70, watches=(Watch(pid=70, interface="data0", role="data NIC"),))
counts = st.tuples(*[st.integers(0, 2**63)] * 4)


@given(counts, counts)
def test_traffic_is_the_difference_of_two_readings(
    start: tuple[int, int, int, int], growth: tuple[int, int, int, int]
) -> None:
    after = tuple(a + b for a, b in zip(start, growth, strict=True))
    (item,) = monitor.traffic([PLACE], reading(start), reading(after))  # type: ignore[arg-type]
    assert (item.rx_bytes, item.rx_packets, item.tx_bytes, item.tx_packets) == growth


def test_traffic_is_counted_per_namespace_and_a_missing_interface_is_left_out() -> None:
    roles = {70: "veth of the pod", 71: SILENT_ROLE}
    watches = tuple(Watch(pid=pid, interface="eth0", role=role) for pid, role in roles.items())
    place = HostWatch(node=NODE, pid=70, watches=watches)
    before = CounterValues(interfaces={("", 70, "eth0"): (0, 0, 0, 0), ("", 71, "eth0"): (5, 5, 5, 5)})
    after = CounterValues(interfaces={("", 70, "eth0"): (9, 1, 8, 1), ("", 71, "eth0"): (5, 5, 5, 5)})
    found = {item.role: item.tx_bytes for item in monitor.traffic([place], before, after)}
    assert found == {"veth of the pod": 8, SILENT_ROLE: 0}
    assert monitor.traffic([PLACE], reading((0, 0, 0, 0)), CounterValues()) == ()
    assert monitor.traffic([PLACE], CounterValues(), reading((0, 0, 0, 0))) == ()


def test_counters_that_may_not_be_read_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = b"cpu 1 2 3 4 5 6 7 8"
    monkeypatch.setattr(KernelFile, "read", lambda file: stat if file.path == "/proc/stat" else b"")
    monkeypatch.setattr(unreadable_counters, "of_process", lambda _pid: unreadable_counters.DENIED)
    values = reader.read([PLACE])
    (item,) = monitor.unread([PLACE], CounterValues(), values)
    assert (item.node, item.interface, item.role, item.why) == ("n0", "data0", "data NIC", "permission denied")
    assert monitor.unread([PLACE], *joined([(values, values), (values, values)])) == (item,)
    assert monitor.unread([PLACE], merged([values], Moment()), CounterValues()) == (item,)


def test_an_interface_or_port_that_does_not_exist_is_not_one_that_may_not_be_read(tmp_path: Path) -> None:
    watches = (
        Watch(pid=0, interface="none9", role="data NIC"),
        Watch(pid=2**22 + 5, interface="data0", role="data NIC"),
        Watch(pid=0, interface="none9:1", role="port"),
    )
    gone = HostWatch(node=NODE, pid=0, watches=watches)
    values = reader.read([gone])
    assert monitor.unread([gone], values, values) == ()
    assert monitor.traffic([gone], values, values) == ()
    assert unreadable_counters.of_port("mlx5_0:1", PORT_COUNTERS, tmp_path) == ""
    folder = tmp_path / "infiniband/mlx5_0/ports/1"
    folder.mkdir(parents=True)
    assert unreadable_counters.of_port("mlx5_0:1", ("port_rcv_data",), tmp_path) == (
        "port_rcv_data: the adapter has no such counters"
    )
    (folder / "counters").mkdir()
    (folder / "counters/port_rcv_data").write_text("N/A\n")
    assert unreadable_counters.of_port("mlx5_0:1", ("port_rcv_data",), tmp_path) == "port_rcv_data: it is not a number"
    (folder / "counters/port_rcv_data").write_text("7\n")
    assert unreadable_counters.of_port("mlx5_0:1", ("port_rcv_data",), tmp_path) == ""


@pytest.mark.parametrize(
    ("read", "kill", "why"),
    [
        (PermissionError, None, unreadable_counters.DENIED),
        (FileNotFoundError, PermissionError, unreadable_counters.HIDDEN),
        (FileNotFoundError, ProcessLookupError, ""),
        (FileNotFoundError, None, ""),
    ],
)
def test_a_process_of_another_user_hides_its_counters_and_one_that_has_ended_does_not(
    monkeypatch: pytest.MonkeyPatch, read: type[OSError], kill: type[OSError] | None, why: str
) -> None:
    def raise_if(error: type[OSError] | None) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(Path, "read_bytes", lambda _path: raise_if(read))
    monkeypatch.setattr(os, "kill", lambda _pid, _signal: raise_if(kill))
    assert unreadable_counters.of_process(70) == why


def test_tcp_counters_are_summed_over_nodes_and_only_what_grew_in_both_readings_is_told() -> None:
    one, other = ("", "n0", "net 1"), ("", "n1", "net 2")
    before = CounterValues(growing={one: {"TcpRetransSegs": 1, "TcpExtTCPTimeouts": 4}, other: {"TcpRetransSegs": 10}})
    after = CounterValues(growing={one: {"TcpRetransSegs": 3, "TcpExtTCPTimeouts": 4}, other: {"TcpRetransSegs": 15}})
    assert monitor.counters(before, after) == {"TcpRetransSegs": 7}
    assert monitor.counters(CounterValues(), after) == {}


def test_noise_is_what_was_used_beside_the_job_and_never_negative() -> None:
    before = CounterValues(busy_s=10.0, steal_s=1.0, softirq_s=2.0, job_s=4.0, ours_s=5.0)
    after = CounterValues(busy_s=16.0, steal_s=1.5, softirq_s=2.25, job_s=9.0, ours_s=10.25)
    found = monitor.noise(before, after)
    assert found == {"cores": os.cpu_count(), "background_s": 0.5, "job_s": 5.0, "steal_s": 0.5, "softirq_s": 0.25}
    assert monitor.noise(before, replace(before, ours_s=9.0))["background_s"] == 0.0


def test_the_cpu_time_of_the_job_is_that_of_its_cgroup(tmp_path: Path) -> None:
    group = group_of({"cpu.stat": "usage_usec 1250000\n"}, tmp_path)
    place = HostWatch(node=replace(NODE, group=group), pid=70, watches=())
    assert reader.read([place, replace(place, pid=71)]).job_s == 1.25, "two pods of one node have its group"


def test_values_of_nodes_are_merged_and_what_a_network_counts_is_asked_of_it() -> None:
    first = CounterValues(interfaces={("", 70, "a"): (1, 1, 1, 1)}, busy_s=5.0, job_s=1.0, throttled_s=0.5)
    second = CounterValues(interfaces={("", 71, "a"): (2, 2, 2, 2)}, busy_s=5.0, job_s=2.0)
    elsewhere = CounterValues(interfaces={("m", 70, "a"): (3, 3, 3, 3)}, machine="m", busy_s=7.0, job_s=4.0)
    values = merged([first, second, elsewhere], Moment(site_s=3.0))
    assert set(values.interfaces) == {("", 70, "a"), ("", 71, "a"), ("m", 70, "a")}
    assert (values.busy_s, values.job_s, values.throttled_s) == (12.0, 7.0, 0.5)
    assert values.ours_s >= 7.0, "the study's own time is at least its jobs'"
    watch = Watch(pid=70, interface="ipip-data0", role="IP-in-IP", by_network=True)
    values = reader.read([HostWatch(node=NODE, pid=70, watches=(watch,))], lambda asked: (asked.pid, 1, 2, 3))
    assert values.interfaces == {("", 70, "ipip-data0"): (70, 1, 2, 3)}


def test_launches_in_turns_have_the_times_of_every_machine() -> None:
    def at(moment: int) -> CounterReading:
        times = [
            CounterValues(machine=name, busy_s=start + moment, steal_s=start / 10, softirq_s=start / 5 + moment / 100)
            for name, start in (("alpha", 100.0), ("beta", 700.0))
        ]
        return CounterReading(moment=Moment(), nodes=tuple(map(ParsedReading, times)))

    before, after = joined_readings([(at(1), at(2)), (at(5), at(7))])
    assert after.steal_s - before.steal_s == 0
    assert after.busy_s - before.busy_s == pytest.approx(2 * 3)
    assert after.softirq_s - before.softirq_s == pytest.approx(2 * 0.03)


BY_PLACE_NODE = make_node(pid=os.getpid())


def values(**numbers: float) -> CounterValues:
    scopes = {"pod": ("", "n0", "net 1"), "node": ("", "n0", "net 2"), "machine": ("", place_of_machine(""), "")}
    growing = {scopes[name]: {"x": number} for name, number in numbers.items()}
    return CounterValues(growing=growing, states={("", "n0", "net 2"): {"conntrack_entries": 3}})


def test_a_place_has_the_growth_of_its_namespaces_in_sections_or_between_the_ends() -> None:
    before, after = values(pod=1, node=10, machine=5), values(pod=3, node=14, machine=5)
    assert monitor.by_place(before, after) == {"n0": {"conntrack_entries": 3, "x": 6}}
    assert monitor.counters(before, after) == {"x": 6}, "a state is no growth"
    sections = [(values(node=0), values(node=1)), (values(node=50), values(node=52))]
    assert monitor.counters(*joined(sections)) == {"x": 3}
    sections = [
        (values(pod=10, node=0), values(node=1)),
        (values(node=50), values(node=51)),
        (values(node=90), values(pod=17, node=91)),
    ]
    assert monitor.by_place(*joined(sections))["n0"]["x"] == 7 + 3
    scope = ("", "n0", "g")
    before = CounterValues(growing={scope: {"throttled_s": 0.0, "n": 1}})
    after = CounterValues(growing={scope: {"throttled_s": 1.23456789, "n": 123456790}})
    assert monitor.counters(before, after) == {"throttled_s": 1.23457, "n": 123456789}


def test_a_reading_that_is_not_whole_leaves_out_what_one_deployment_has_alone(tmp_path: Path) -> None:
    files = {
        "cpu.stat": "usage_usec 1250000\nnr_throttled 3\nthrottled_usec 500000\n",
        "memory.stat": "pgscan 8\n",
        "memory.events": "max 4\n",
        "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
    }
    group = group_of(files, tmp_path)
    watch = Watch(pid=os.getpid(), interface="lo", role="x")
    place = HostWatch(node=replace(BY_PLACE_NODE, group=group), pid=os.getpid(), watches=(watch,), groups=(group,))
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


def test_what_happens_between_sections_and_what_is_not_read_in_every_one_is_not_counted() -> None:
    def reading(number: int, **more: object) -> CounterValues:
        counts = {("", 7, "eth0"): (number, 2 * number, 3 * number, 4 * number), ("", 9, "gone"): (number,) * 4}
        times = {name: number / part for part, name in enumerate(TIMES, 1)}
        return CounterValues(**({"interfaces": counts} | times | more))  # type: ignore[arg-type]

    before, after = joined([(reading(100), reading(110)), (reading(500), reading(503)), (reading(900), reading(907))])
    assert (before, after.interfaces) == (reading(100), reading(120).interfaces)
    assert [getattr(after, name) for name in TIMES] == pytest.approx([getattr(reading(120), name) for name in TIMES])
    lost = reading(503, interfaces={("", 7, "eth0"): (503, 1006, 1509, 2012)}, throttled_s=None)
    _, after = joined([(reading(100), reading(110)), (reading(500), lost)])
    assert (set(after.interfaces), after.throttled_s) == ({("", 7, "eth0")}, None)


def test_what_this_machine_or_kernel_lacks_is_named_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "why_unread", lambda path: "no such file" if "pressure" in path else "")
    found = reader.read([HostWatch(node=BY_PLACE_NODE, pid=os.getpid(), watches=())])
    assert "pressure (no such file)" in found.lacking
    assert "throttling (the job has no cgroup of its own)" in found.lacking
    assert monitor.lacking(found, found).startswith("pressure (no such file), throttling")
    assert any("TcpInSegs" in numbers for numbers in found.growing.values())
    plain, stat = KernelFile.read, b"cpu 1 2 3 4 5 6 7 8\nctxt 9\n"
    monkeypatch.setattr(KernelFile, "read", lambda file: stat if file.path == "/proc/stat" else plain(file))
    found = reader.read([HostWatch(node=BY_PLACE_NODE, pid=os.getpid(), watches=())])
    assert "softirqs (not in /proc/stat)" in found.lacking
    assert found.growing["", "machine localhost", ""]["context_switches"] == 9


def test_a_machine_whose_cpu_time_runs_backwards_is_found_out() -> None:
    before = CounterValues(busy_s=600.0)
    ticks = monitor.noise(before, replace(before, busy_s=599.9))
    assert ticks["background_s"] == 0.0
    back = monitor.noise(before, replace(before, busy_s=65.0))
    (trial, _), *_ = large_results.trials_of(large_results.plan_of(environments=1, groups=1, rounds=1))
    trial = replace(trial, noise=back)
    assert isinstance(sound_trial(trial).outcome, Invalid)
    assert isinstance(sound_trial(replace(trial, noise=ticks)).outcome, Completed)
