"""Networks that route: Calico's data path and IP-in-IP, wired, across a router, and undone.

That MPI's traffic goes their way within a subnet is held in test_networks_contract.py.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from integration.live import Watch, by_environment, ended, lab_site, live, outcome, pids_of, reached, start, write_study
from integration.node_state import LONG_S, are_as_before, argv_of, shown, state_of
from integration.studies import SILENT, prove, roles, watched
from tare.agent import clean
from tare.clusters.lab_site import LabSite
from tare.errors import InfrastructureError
from tare.model import Environment, Placement
from tare.networks.wiring import bird, bpf, ipip
from tare.networks.wiring.ping import ping
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.system.node import Nic

pytestmark = live("bird", "nftables")

NIC, VETH, WRAPPED = "data NIC", "veth of the pod", "IP-in-IP"
ACROSS: Mapping[str, set[str]] = {
    "bare": {NIC},
    "bare+flannel": {VETH, "VXLAN of flannel", "data NIC under flannel"},
    "bare+calico-ipip": {VETH, NIC, WRAPPED},
    "bare+calico-ipip-cross": {VETH, NIC, WRAPPED},
}
PROGRAM_TEST = 10
"""A command of bpf(2)."""
KERNELS = "{micro: {time_limit: 300s, kernels: [{latency: {message_bytes: 65536, iterations: 60, warmup: 5}}]}}"


def need_wrapping() -> None:
    """Skip a test of IP-in-IP where the kernel has neither tunnels nor takes programs."""
    if reason := ipip.probe():
        pytest.skip(f"this machine cannot: {reason}")


def need_programs() -> None:
    """Skip a test of the programs where the kernel takes none."""
    if reason := bpf.probe():
        pytest.skip(f"this machine cannot: {reason}")


@pytest.mark.requires("flannel", "etcd", "cni")
def test_across_subnets_packets_are_wrapped_and_what_a_router_cannot_carry_is_refused(tmp_path: Path) -> None:
    need_wrapping()
    names = [*ACROSS, "bare+calico", "bare+bridge"]
    study = write_study(tmp_path, "two", names, workloads=KERNELS, cluster="{lab: {nodes: 2, subnets: 2}}")
    result, watch = watched(study)
    found = by_environment(tmp_path / "results" / "two")
    assert set(found) == set(ACROSS)
    for name, carriers in ACROSS.items():
        (trial,) = found[name]
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        assert roles(trial) == carriers
        assert SILENT in {item["role"] for item in trial["traffic"]}
        prove(trial)
    assert "calico joins nodes of one subnet" in result.stdout
    assert watch.left(result.lab) == []


@pytest.mark.long  # as with Flannel's daemons
def test_bird_and_pods_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    study = write_study(tmp_path, "dead", ["bare", "bare+calico"], repetition="{rounds: 40, max_rounds: 40}")
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    reached(process, lambda: sum(argv_of(pid)[0] == bird.program() for pid in pids_of(name)) == 2, "BIRD on both nodes")
    watch.look(name)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    clean.remove_lab(name)  # as `tare clean` and the next run do it, sparing the labs of others who test here
    assert watch.left(name) == []


# --- on a node ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    with lab_site(nics=2) as made:
        yield made


def up(site: LabSite, network: str) -> AbstractContextManager[Deployed]:
    wanted = Environment(name=network, runtime="bare", network=network)
    return deployed(site, wanted, Placement(), slot=0, nic=1, files=Files(host_prefix=Path("/")))


@pytest.mark.parametrize("network", ["calico", "calico-ipip"])
def test_pods_are_wired_as_calico_wires_them_and_nodes_are_given_back_as_they_were(network: str, site: LabSite) -> None:
    if network == "calico-ipip":
        need_wrapping()
    by_programs = network == "calico-ipip" and not ipip.kernel_has_tunnels()
    way = "via 10.214.1.2 dev data1" if network == "calico" or by_programs else "dev tareip1-1"
    before = [state_of(node) for node in site.nodes]
    with up(site, network) as made:
        first, second = made.pods
        pod = first.pid
        (stack,) = {watch.pid for watch in first.endpoint.watches if watch.role == NIC}
        assert "inet 10.216.1.1/32" in shown(pod, "ip", "-4", "address", "show", "dev", "eth0")
        assert "default via 169.254.1.1 dev eth0" in shown(pod, "ip", "route")
        mtu = first.endpoint.mtu
        assert mtu == (1500 if network == "calico" else 1480)
        routes = shown(stack, "ip", "route")
        assert "10.216.1.1 dev tarec1-0" in routes
        assert f"10.216.1.2 {way} proto bird" in routes
        assert ping(pod, second.endpoint.address, count=2, packet_bytes=mtu, timeout_s=LONG_S)
        assert "ee:ee:ee:ee:ee:ee" in shown(pod, "ip", "neigh", "show", "169.254.1.1")
        assert ("clsact" in shown(stack, "tc", "qdisc", "show")) == by_programs
        for node in site.nodes:
            assert state_of(node)["forwards"] == before[0]["forwards"], "bare would pay for it"
    are_as_before(site.nodes, before)


def test_where_the_kernel_has_tunnels_routes_lead_into_them(site: LabSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_kind(nic: Nic, far: ipip.Peer) -> tuple[str, ...]:  # this kernel may have no ipip
        kind = ("type", "vxlan", "id", "7", "local", nic.address, "remote", far.address, "dstport", "4789")
        return ("link", "add", ipip.tunnel_name(nic, far), *kind)

    monkeypatch.setattr(ipip, "kernel_has_tunnels", lambda: True)
    monkeypatch.setattr(ipip, "tunnel_command", other_kind)
    with up(site, "calico-ipip") as made:
        (tunnel,) = [watch for watch in made.pods[0].endpoint.watches if watch.role == WRAPPED]
        assert tunnel.interface == "tareip1-1"
        assert "10.216.1.2 dev tareip1-1 proto bird" in shown(tunnel.pid, "ip", "route")
        assert made.pods[0].endpoint.facts["IP-in-IP"] == "the kernel's ipip"


def test_a_bird_that_cannot_start_is_told_with_its_own_words(site: LabSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bird, "AS", "nonsense")
    told = r"bird on n\d exited without the routes .*syntax error"
    with pytest.raises(InfrastructureError, match=told), up(site, "calico"):
        pass


# --- the programs -------------------------------------------------------------------------------------------------

OWN, OTHER, POD = (socket.inet_aton(text) for text in ("10.214.3.1", "10.214.3.2", "10.216.3.2"))


def frame(destination: bytes, protocol: int = 17, payload: bytes = b"x" * 100) -> bytes:
    """Return an Ethernet frame with an IPv4 packet."""
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 7, 0, 64, protocol, 0, OWN, destination)
    return bytes(12) + b"\x08\x00" + head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def try_on(program: int, packet: bytes) -> tuple[int, bytes]:
    """Return a program's verdict on a packet, and the packet after it."""
    out = ctypes.create_string_buffer(len(packet) + 256)
    attributes = ctypes.create_string_buffer(80)
    with bpf._pointers(packet) as (at_packet,):
        struct.pack_into(
            "<IIIIQQII", attributes, 0, program, 0, len(packet), len(out), at_packet, ctypes.addressof(out), 1, 0
        )
        bpf._call(PROGRAM_TEST, attributes, "trying a BPF program")
    answer, _, length = struct.unpack_from("<III", attributes, 4)
    return answer, out.raw[:length]


def test_a_packet_is_wrapped_for_the_node_of_its_pod_and_comes_out_as_it_was() -> None:
    need_programs()
    with bpf.opened() as files:
        ways = bpf.make_map(bpf.HASH_MAP, key_bytes=4, value_bytes=4, entries=2)
        counters = bpf.make_map(bpf.ARRAY_MAP, key_bytes=4, value_bytes=16, entries=2)
        files += [ways, counters]
        bpf.update(ways, POD, OTHER)
        wrap = bpf.load_program(ipip.egress_program(OWN, ways, counters), "tare_test_out")
        unwrap = bpf.load_program(ipip.ingress_program(OTHER, counters), "tare_test_in")
        files += [wrap, unwrap]
        inner = frame(POD)
        answer, outer = try_on(wrap, inner)
        assert answer == ipip.PASS
        assert outer[:14] == inner[:14]
        assert outer[34:] == inner[14:]
        head = outer[14:34]
        assert checksum(head) == 0
        fields = struct.unpack(">BBHHHBBH4s4s", head)
        assert fields[:3] == (0x45, 0, len(inner) - 14 + 20)
        assert (fields[4], fields[6]) == (0x4000, 4)
        assert fields[8:] == (OWN, OTHER)
        assert try_on(unwrap, outer) == (ipip.PASS, inner)
        length = len(inner) - 14 + 20
        assert ipip.read_counters(counters) == (length, 1, length, 1)


def test_packets_for_others_are_left_alone() -> None:
    need_programs()
    with bpf.opened() as files:
        ways = bpf.make_map(bpf.HASH_MAP, key_bytes=4, value_bytes=4, entries=1)
        counters = bpf.make_map(bpf.ARRAY_MAP, key_bytes=4, value_bytes=16, entries=2)
        files += [ways, counters]
        files.append(wrap := bpf.load_program(ipip.egress_program(OWN, ways, counters), "tare_test_out"))
        files.append(unwrap := bpf.load_program(ipip.ingress_program(OWN, counters), "tare_test_in"))
        for packet in (frame(OTHER), bytes(12) + b"\x08\x06" + bytes(60), bytes(12) + b"\x86\xdd" + bytes(60)):
            assert try_on(wrap, packet) == (ipip.PASS, packet)
        for packet in (frame(OTHER, 4), frame(OWN, 17), bytes(12) + b"\x08\x06" + bytes(60)):
            assert try_on(unwrap, packet) == (ipip.PASS, packet)
        assert ipip.read_counters(counters) == (0, 0, 0, 0)


def test_a_program_that_the_kernel_refuses_is_told_with_its_reason() -> None:
    need_programs()
    with pytest.raises(InfrastructureError, match=r"loading the BPF program tare_test failed: .*R0"):
        bpf.load_program(bpf.assemble([bpf.leave()]), "tare_test")
