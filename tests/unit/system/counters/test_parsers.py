"""What each source of the kernel says is read by a pure function; texts are recorded from kernels 5.10 to 6.18."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tare.system.counters import conntrack, interfaces, links, memory, netlink, qdisc, scheduling, softnet, tcp
from tare.system.node.kernel_files import KernelFile, read_text, why_unread

DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls ...
    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0
 data0:123456789012 345 1 2 3 4 5 6 987654321098 765 7 8 9 4 5 6
"""
SNMP = """Ip: Forwarding DefaultTTL ForwDatagrams FragCreates
Ip: 1 64 12 6
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs
Tcp: 1 100 200 7
Udp: InDatagrams RcvbufErrors
Udp: 5 4
"""
NETSTAT = """TcpExt: SyncookiesSent TCPTimeouts TCPBacklogDrop NotWatched
TcpExt: 1 3 2 99
"""
STAT = "cpu  100 20 30 4000 500 6 70 8 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5 1 2\nctxt 167531533\nbtime 1\n"
CONNTRACK = """entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart
00000011  00000000 0000000a 00000000 00000000 00000000 00000000 00000000 00000001 00000002 00000003 00000000 00000000  00000000 00000000 00000000 00000000
00000011  00000000 00000010 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000001 00000000 00000000  00000000 00000000 00000000 00000000
"""  # noqa: E501
SOFTNET = """067d1265 00000001 00000173 00000000 00000000 00000000 00000000 00000000 00000000 000098fd 00000000 00000000
00000001 00000000 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000000 00000000
"""
SOFTIRQS = "procs_running 2\nsoftirq 57992290 0 11 180820 57811470 5 0 0 0 0 0\n"


def test_interfaces_are_read_with_bytes_packets_and_what_they_lost() -> None:
    found = interfaces.parse(DEV)
    assert interfaces.counts_of(found["data0"]) == (123456789012, 345, 987654321098, 765)
    assert interfaces.counts_of(found["lo"]) == (1000, 10, 1000, 10)
    used = interfaces.counted(frozenset({"data0", "gone"}))(DEV)
    assert interfaces.counts_in(used, "data0") == interfaces.counts_of(found["data0"])
    assert interfaces.counts_in(used, "gone") is interfaces.counts_in(used, "lo") is None
    assert interfaces.lost(used, {"data0", "gone"}) == {
        "rx_errors": 1, "rx_dropped": 2, "tx_errors": 7, "tx_dropped": 8,
    }  # fmt: skip
    assert interfaces.lost(used, {"gone"}) == {}


@pytest.mark.parametrize("text", ["", "Inter-|\n face |\n", "Inter-|\n face |\n lo: 1 2\n"])
def test_a_text_without_interfaces_has_none(text: str) -> None:
    assert interfaces.parse(text) == interfaces.counted(frozenset({"lo"}))(text) == {}


def test_protocol_counters_have_their_nstat_names_and_others_are_left_out() -> None:
    assert tcp.parse(SNMP) == {
        "IpForwDatagrams": 12, "IpFragCreates": 6, "TcpInSegs": 100, "TcpOutSegs": 200, "TcpRetransSegs": 7,
        "UdpRcvbufErrors": 4,
    }  # fmt: skip
    assert tcp.parse(NETSTAT) == {"TcpExtTCPTimeouts": 3, "TcpExtTCPBacklogDrop": 2}
    assert tcp.parse_path(SNMP) == {"IpForwDatagrams": 12, "IpFragCreates": 6}
    assert tcp.parse("") == {}
    assert tcp.parse("Tcp: InSegs RetransSegs\nTcp: 4\n") == {"TcpInSegs": 4}


def test_connection_tracking_and_softnet_are_summed_over_cores() -> None:
    assert conntrack.parse(CONNTRACK) == {
        "conntrack_found": 26, "conntrack_insert": 2, "conntrack_insert_failed": 2, "conntrack_drop": 4,
        "conntrack_entries": 17,
    }  # fmt: skip
    assert conntrack.parse("") == {}
    assert softnet.parse(SOFTNET) == {
        "softnet_processed": 0x067D1266, "softnet_dropped": 1, "softnet_time_squeeze": 0x175,
        "softnet_received_rps": 0x9900,
    }  # fmt: skip
    assert "softnet_received_rps" not in softnet.parse("00000001 00000002 00000003\n")
    assert softnet.parse("") == {}


def test_cpu_times_context_switches_and_softirqs_of_the_machine_are_read() -> None:
    busy_s, steal_s, softirq_s = scheduling.times_in(STAT)
    ticks = scheduling.TICKS_PER_S
    assert (busy_s, steal_s, softirq_s) == (pytest.approx(226 / ticks), 8 / ticks, 70 / ticks)
    assert scheduling.switches_in(STAT) == {"context_switches": 167531533}
    assert scheduling.switches_in("cpu 1 2\n") == {}
    assert scheduling.softirqs_in(STAT + SOFTIRQS) == {"softirq_net_tx": 180820, "softirq_net_rx": 57811470}
    assert scheduling.machine_in(STAT + SOFTIRQS).items() >= scheduling.softirqs_in(STAT + SOFTIRQS).items()
    assert scheduling.softirqs_in(STAT) == {}, "named as lacking by a reading of the node"
    before = _of_file("NET_RX")
    counted = scheduling.softirqs_in(Path("/proc/stat").read_text())["softirq_net_rx"]
    assert before <= counted <= _of_file("NET_RX")


def _of_file(kind: str) -> int:
    lines = Path("/proc/softirqs").read_text().splitlines()
    (values,) = (line.split()[1:] for line in lines if line.split()[0] == f"{kind}:")
    return sum(map(int, values))


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        ("nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n", {"throttled_s": 1.5, "throttled_periods": 2}),
        ("usage_usec 5\nnr_throttled 2\nthrottled_usec 250000\n", {"throttled_s": 0.25, "throttled_periods": 2}),
        ("usage_usec 5\n", {}),
        ("", {}),
    ],
)
def test_throttling_is_read_in_the_unit_of_each_version_of_cgroups(stat: str, expected: dict[str, float]) -> None:
    assert scheduling.throttling_in(stat) == expected


def test_reclaim_swapping_limits_and_pressure_are_read_from_both_versions() -> None:
    vmstat = "pswpin 1\npswpout 2\npgmajfault 3\npgscan_kswapd 10\npgscan_direct 20\npgscan_anon 30\npgsteal_direct 4\n"
    assert memory.parse(vmstat, memory.OF_MACHINE) == {
        "swap_in_pages": 1, "swap_out_pages": 2, "major_faults": 3, "page_scans": 30, "page_steals": 4,
    }  # fmt: skip
    v2 = "anon 4096\npgscan 7\npgscan_direct 7\npgsteal 5\npgmajfault 1\n"
    assert memory.parse(v2, memory.OF_GROUP) == {"page_scans": 7, "page_steals": 5, "major_faults": 1}
    assert memory.parse("cache 1\npgmajfault 9\ntotal_pgmajfault 9\n", memory.OF_GROUP) == {"major_faults": 9}
    assert memory.parse("pswpin max\npswpout 2", memory.OF_GROUP) == {"swap_out_pages": 2}
    assert memory.limit_hits("31\n") == {"memory_failcnt": 31}
    assert memory.limit_hits("low 1\nhigh 4\nmax 5\noom 1\noom_kill 1\n") == {"memory_failcnt": 9}
    assert memory.limit_hits("") == {}
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
    assert scheduling.pressure_in("cpu", text) == {"cpu_pressure_s": 2.5}
    assert scheduling.pressure_in("cpu", "") == {}


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def queue(index: int, parent: int, kind: bytes, drops: int, options: bytes = b"") -> bytes:
    stats = attribute(qdisc.QUEUE_STATS, struct.pack("=IIIII", 1, 100, drops, 2, 3))
    data = attribute(1, kind + b"\0") + attribute(2, options) + attribute(7, stats)
    return qdisc.TCMSG.pack(0, index, 0x10000, parent, 0) + data


DONE = netlink.HEADER.pack(20, netlink.DONE, netlink.MULTI, netlink.NUMBER, 0) + bytes(4)


def test_queues_are_read_with_their_limits_and_an_interface_counts_with_its_largest() -> None:
    options = struct.pack("=II", 0, 1000)
    dump = [queue(3, qdisc.ROOT, b"tbf", 4), queue(3, 0x10001, b"netem", 9, options), queue(5, qdisc.ROOT, b"pfifo", 1)]
    length = qdisc.TCMSG.size
    found = qdisc.parse((each[:length], netlink.attributes(each[length:])) for each in dump)
    assert [(each.kind, each.drops, each.is_root, each.limit) for each in found] == [
        ("tbf", 4, True, 0), ("netem", 9, False, 1000), ("pfifo", 1, True, 0),
    ]  # fmt: skip
    assert qdisc.totals_in(dump) == {
        "qdisc_drops": 10, "qdisc_overlimits": 6, "qdisc_requeues": 4, "qdisc_backlog_bytes": 200,
    }  # fmt: skip
    assert set(qdisc.totals_in([]).values()) == {0}


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x00\x00\x01\x00rest", b"\xff\xff\x01\x00"])
def test_broken_attributes_end_and_raise_nothing(data: bytes) -> None:
    assert len(netlink.attributes(data)) <= 1
    assert list(netlink.messages(data)) == []


def test_the_path_of_a_pod_leads_through_its_bridge_to_the_tunnel() -> None:
    pod = {2: links.Device(index=2, name="eth0", kind="veth", below=7, elsewhere=True)}
    node = {
        7: links.Device(index=7, name="veth7", kind="veth", below=2, master=4, elsewhere=True),
        4: links.Device(index=4, name="br0", kind="bridge"),
        9: links.Device(index=9, name="vx0", kind="vxlan", master=4),
        1: links.Device(index=1, name="data0", kind=""),
    }
    assert links.path("eth0", pod, node) == "veth, veth, bridge, vxlan"
    assert links.path("data0", node, node) == "nic"
    assert links.path("gone", pod, node) == ""
    on_nic = {3: links.Device(index=3, name="eth0", kind="macvlan", below=1, elsewhere=True)}
    assert links.path("eth0", on_nic, node) == "macvlan, nic"


def test_a_file_is_read_again_and_one_that_is_gone_has_no_text(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    kept = KernelFile(str(file))
    file.write_text("1\n")
    assert kept.read() == b"1\n"
    file.write_text("x" * 200_000)
    assert len(kept.read()) == 200_000
    kept.close()
    file.unlink()
    assert kept.read() == b""
    assert read_text(str(file)) == ""
    kept.close()
    assert why_unread(str(file)) == "no such file or directory"
    assert why_unread("/proc/self/stat") == ""


def test_the_row_of_an_interface_is_not_that_of_one_whose_name_ends_alike() -> None:
    row = ":1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    text = f"{DEV} veth0{row.replace('1', '5')}eth0{row}  h0{row.replace('2', '6')}"
    for names in ({"eth0"}, {"h0", "eth0"}, {"data0", "veth0"}, {"th0"}, {"face"}):
        every = {name: columns for name, columns in interfaces.parse(text).items() if name in names}
        used = interfaces.counted(frozenset(names))(text)
        assert {name: interfaces.counts_in(used, name) for name in every} == {
            name: interfaces.counts_of(columns) for name, columns in every.items()
        }
        assert len(used) == 8 * len(every)


def test_a_namespace_whose_interfaces_have_no_queue_keeps_nothing() -> None:
    def message(kind: bytes) -> bytes:
        content = queue(1, qdisc.ROOT, kind, drops=0)
        return netlink.HEADER.pack(netlink.HEADER.size + len(content), 36, netlink.MULTI, netlink.NUMBER, 0) + content

    assert qdisc.kept_in(message(b"noqueue") * 2 + DONE) == {qdisc.KEPT: 0}
    assert qdisc.kept_in(message(b"noqueue") + message(b"fq_codel") + DONE) == {qdisc.KEPT: 1}
    assert qdisc.kept_in(DONE) == {qdisc.KEPT: 0}
    assert qdisc.kept_in(b"") == {qdisc.KEPT: 1}, "without an answer it is asked again"


def test_an_answer_ends_with_its_last_message_and_an_error_is_raised() -> None:
    other = netlink.HEADER.pack(20, 36, netlink.MULTI, netlink.NUMBER, 0) + bytes(4)
    assert [netlink._is_complete(data) for data in (other, DONE, other + DONE, b"")] == [False, True, True, False]
    assert netlink.listed(other + DONE) == [bytes(4)]
    refused = netlink.HEADER.pack(36, netlink.ERROR, 0, netlink.NUMBER, 0) + struct.pack("=i", -1) + bytes(16)
    with pytest.raises(PermissionError):
        netlink._is_complete(refused)
