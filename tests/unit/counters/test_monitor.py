"""Counters are read per namespace and node, before and after, and their growth is what is reported."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import make_node
from tare.counters import monitor
from tare.counters.files import KernelFile
from tare.counters.monitor import CounterValues, Given, HostWatch, Moment, Reading, joined, joined_readings, merged
from tare.node import SILENT_ROLE, Watch, unreadable
from tare.node.cgroups import Group, Hierarchy

NODE = make_node(pid=70)


def test_real_counters_grow_with_what_is_sent() -> None:
    watch = Watch(pid=os.getpid(), interface="lo", role="data NIC")
    place = HostWatch(node=NODE, pid=os.getpid(), watches=(watch,))
    before = monitor.read([place])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(20):
                sender.sendto(b"x" * 1000, receiver.getsockname())
    (item,) = monitor.traffic([place], before, monitor.read([place]))
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


def test_the_same_interface_name_in_two_namespaces_is_two_interfaces() -> None:
    watches = (
        Watch(pid=70, interface="eth0", role="veth of the pod"),
        Watch(pid=71, interface="eth0", role=SILENT_ROLE),
    )
    place = HostWatch(node=NODE, pid=70, watches=watches)
    before = CounterValues(interfaces={("", 70, "eth0"): (0, 0, 0, 0), ("", 71, "eth0"): (5, 5, 5, 5)})
    after = CounterValues(interfaces={("", 70, "eth0"): (9, 1, 8, 1), ("", 71, "eth0"): (5, 5, 5, 5)})
    found = {item.role: item.tx_bytes for item in monitor.traffic([place], before, after)}
    assert found == {"veth of the pod": 8, SILENT_ROLE: 0}


def test_an_interface_that_is_missing_in_a_reading_is_left_out_instead_of_made_zero() -> None:
    assert monitor.traffic([PLACE], reading((0, 0, 0, 0)), CounterValues()) == ()
    assert monitor.traffic([PLACE], CounterValues(), reading((0, 0, 0, 0))) == ()


def test_counters_that_may_not_be_read_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = b"cpu 1 2 3 4 5 6 7 8"
    monkeypatch.setattr(KernelFile, "read", lambda file: stat if file.path == "/proc/stat" else b"")
    monkeypatch.setattr(unreadable, "of_process", lambda _pid: unreadable.DENIED)
    values = monitor.read([PLACE])
    (item,) = monitor.unread([PLACE], CounterValues(), values)
    assert (item.node, item.interface, item.role, item.why) == ("n0", "data0", "data NIC", "permission denied")
    assert monitor.unread([PLACE], *joined([(values, values), (values, values)])) == (item,)
    assert monitor.unread([PLACE], merged([values], monitor.Moment()), CounterValues()) == (item,)


def test_an_interface_that_does_not_exist_is_not_one_that_may_not_be_read(tmp_path: Path) -> None:
    gone = HostWatch(
        node=NODE,
        pid=0,
        watches=(
            Watch(pid=0, interface="none9", role="data NIC"),
            Watch(pid=2**22 + 5, interface="data0", role="data NIC"),
            Watch(pid=0, interface="none9:1", role="port"),
        ),
    )
    values = monitor.read([gone])
    assert monitor.unread([gone], values, values) == ()
    assert monitor.traffic([gone], values, values) == ()
    assert unreadable.of_port("mlx5_0:1", monitor.PORT_COUNTERS, tmp_path) == ""


def test_a_port_without_counters_and_one_with_words_for_them_say_so(tmp_path: Path) -> None:
    folder = tmp_path / "infiniband/mlx5_0/ports/1"
    folder.mkdir(parents=True)
    assert unreadable.of_port("mlx5_0:1", ("port_rcv_data",), tmp_path) == (
        "port_rcv_data: the adapter has no such counters"
    )
    (folder / "counters").mkdir()
    (folder / "counters/port_rcv_data").write_text("N/A\n")
    assert unreadable.of_port("mlx5_0:1", ("port_rcv_data",), tmp_path) == "port_rcv_data: it is not a number"
    (folder / "counters/port_rcv_data").write_text("7\n")
    assert unreadable.of_port("mlx5_0:1", ("port_rcv_data",), tmp_path) == ""


@pytest.mark.parametrize(
    ("read", "kill", "why"),
    [
        (PermissionError, None, unreadable.DENIED),
        (FileNotFoundError, PermissionError, unreadable.HIDDEN),
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
    assert unreadable.of_process(70) == why


def test_tcp_counters_are_summed_over_nodes_and_only_what_grew_is_told() -> None:
    before = CounterValues(
        growing={
            ("", "n0", "net 1"): {"TcpRetransSegs": 1, "TcpExtTCPTimeouts": 4},
            ("", "n1", "net 2"): {"TcpRetransSegs": 10},
        }
    )
    after = CounterValues(
        growing={
            ("", "n0", "net 1"): {"TcpRetransSegs": 3, "TcpExtTCPTimeouts": 4},
            ("", "n1", "net 2"): {"TcpRetransSegs": 15},
        }
    )
    assert monitor.counters(before, after) == {"TcpRetransSegs": 7}


def test_a_namespace_that_was_not_read_before_adds_nothing() -> None:
    assert monitor.counters(CounterValues(), CounterValues(growing={("", "n0", "net 1"): {"TcpRetransSegs": 3}})) == {}


def test_noise_is_what_was_used_beside_the_job_and_never_negative() -> None:
    before = CounterValues(busy_s=10.0, steal_s=1.0, softirq_s=2.0, job_s=4.0, ours_s=5.0)
    after = CounterValues(busy_s=16.0, steal_s=1.5, softirq_s=2.25, job_s=9.0, ours_s=10.25)
    found = monitor.noise(before, after)
    assert found == {"cores": os.cpu_count(), "background_s": 0.5, "job_s": 5.0, "steal_s": 0.5, "softirq_s": 0.25}
    assert (
        monitor.noise(before, CounterValues(busy_s=10.0, steal_s=1.0, softirq_s=2.0, ours_s=9.0))["background_s"] == 0.0
    )


def test_the_cpu_time_of_the_job_is_that_of_its_cgroup(tmp_path: Path) -> None:
    from dataclasses import replace

    from tare.node.cgroups import MARK

    group = Group(path="n0", hierarchies=(Hierarchy(mountpoint=tmp_path, version=2),))
    (tmp_path / MARK / "n0").mkdir(parents=True)
    (tmp_path / MARK / "n0" / "cpu.stat").write_text("usage_usec 1250000\n")
    place = HostWatch(node=replace(NODE, group=group), pid=70, watches=())
    assert monitor.read([place, replace(place, pid=71)]).job_s == 1.25, "two pods of one node have its group"


def test_values_of_several_nodes_are_merged_and_cpu_times_of_one_machine_count_once() -> None:
    first = CounterValues(interfaces={("", 70, "a"): (1, 1, 1, 1)}, busy_s=5.0, job_s=1.0, throttled_s=0.5)
    second = CounterValues(interfaces={("", 71, "a"): (2, 2, 2, 2)}, busy_s=5.0, job_s=2.0)
    elsewhere = CounterValues(interfaces={("m", 70, "a"): (3, 3, 3, 3)}, machine="m", busy_s=7.0, job_s=4.0)
    values = monitor.merged([first, second, elsewhere], monitor.Moment(site_s=3.0))
    assert set(values.interfaces) == {("", 70, "a"), ("", 71, "a"), ("m", 70, "a")}
    assert (values.busy_s, values.job_s, values.throttled_s) == (12.0, 7.0, 0.5)
    assert values.ours_s >= 7.0, "the study's own time is at least its jobs'"


def test_traffic_that_a_network_counts_itself_is_asked_of_the_network() -> None:
    watch = Watch(pid=70, interface="ipip-data0", role="IP-in-IP", by_network=True)
    values = monitor.read([HostWatch(node=NODE, pid=70, watches=(watch,))], lambda asked: (asked.pid, 1, 2, 3))
    assert values.interfaces == {("", 70, "ipip-data0"): (70, 1, 2, 3)}


def test_launches_in_turns_have_the_times_of_every_machine() -> None:
    def at(moment: int) -> Reading:
        times = [
            CounterValues(machine=name, busy_s=start + moment, steal_s=start / 10, softirq_s=start / 5 + moment / 100)
            for name, start in (("alpha", 100.0), ("beta", 700.0))
        ]
        return Reading(moment=Moment(), nodes=tuple(map(Given, times)))

    before, after = joined_readings([(at(1), at(2)), (at(5), at(7))])
    assert after.steal_s - before.steal_s == 0
    assert after.busy_s - before.busy_s == pytest.approx(2 * 3)
    assert after.softirq_s - before.softirq_s == pytest.approx(2 * 0.03)
