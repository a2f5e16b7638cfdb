"""Networks that route: Calico's data path and IP-in-IP, wired, across a router, and undone.

That MPI's traffic goes their way within a subnet is held in test_networks_contract.py.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    Watch,
    by_environment,
    ended,
    lab_site,
    live,
    outcome,
    pids_of,
    start,
    tare,
    trials,
    wait_for,
    write_study,
)
from integration.studies import KERNELS, SILENT, prove, watched
from tare.deploy.pods import deployed
from tare.errors import InfrastructureError
from tare.host.namespaces import inside_network
from tare.model import Environment, Placement
from tare.node import Nic
from tare.node_service.order import Files
from tare.wiring import bird, bpf, ipip

pytestmark = live("bird")

NIC, VETH, WRAPPED = "data NIC", "veth of the pod", "IP-in-IP"

ACROSS: Mapping[str, set[str]] = {
    "bare": {NIC},
    "bare+flannel": {VETH, "VXLAN of flannel", "data NIC under flannel"},
    "bare+calico-ipip": {VETH, NIC, WRAPPED},
    "bare+calico-ipip-cross": {VETH, NIC, WRAPPED},
}


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
    study = write_study(
        tmp_path,
        "two",
        names,
        workloads=KERNELS,
        cluster="{lab: {nodes: 2, subnets: 2}}",
        repetition="{rounds: 1, max_rounds: 1, turns: 2}",  # each discards some iterations, and the bound is narrow
    )
    result, watch = watched(study)
    found = by_environment(tmp_path / "results" / "two")
    assert set(found) == set(ACROSS)
    for name, carriers in ACROSS.items():
        (trial,) = found[name]
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        assert {item["role"] for item in trial["traffic"]} == carriers | {SILENT}
        prove(trial)
    assert "calico joins nodes of one subnet" in result.stdout
    assert watch.left(result.lab) == []


@pytest.mark.long  # as with Flannel's daemons
@pytest.mark.alone
def test_bird_and_pods_of_a_killed_run_are_removed_by_the_next(tmp_path: Path) -> None:
    study = write_study(tmp_path, "dead", ["bare", "bare+calico"], repetition="{rounds: 2, max_rounds: 2}")
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    wait_for(lambda: birds(name) or process.poll() is not None, "BIRD")
    watch.look(name)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    assert len(birds(name)) == 2
    result = tare("run", study, cwd=tmp_path)
    assert result.status in (0, 3), result.stderr
    assert [outcome(trial) for trial in trials(tmp_path / "results" / "dead")].count("Completed") >= 4, result.stderr
    assert watch.left(result.lab) == []
    assert watch.left(name) == []


def birds(lab: str) -> list[int]:
    """Return the BIRDs of a lab, once both of its nodes have one that runs."""
    found = [(pid, argv) for pid in pids_of(lab) if (argv := argv_of(pid))[:1] == [bird.program()]]
    ready = [pid for pid, argv in found if Path(f"/proc/{pid}/root{argv[argv.index('-P') + 1]}").exists()]
    return ready if len(ready) == 2 else []


def argv_of(pid: int) -> list[str]:
    """Return the argv of a process, and none of one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


# --- on a node ----------------------------------------------------------------------------------------------------


def node_state(pid: int) -> dict[str, Any]:
    """Return links, routes, filters and forwarding of a network namespace."""
    commands = {
        "links": ("ip", "-o", "link"),
        "routes": ("ip", "-4", "route", "show", "table", "all"),
        "filters": ("tc", "qdisc", "show"),
    }
    with inside_network(pid):
        forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    return {"forwarding": forwarding, **{name: of_node(pid, *argv) for name, argv in commands.items()}}


def of_node(pid: int, *argv: str) -> str:
    """Return what a command says in a network namespace."""
    done = subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", *argv], capture_output=True, text=True, check=True)
    return "\n".join(sorted(done.stdout.splitlines()))


@pytest.mark.parametrize("network", ["calico", "calico-ipip"])
def test_pods_are_wired_as_calico_wires_them_and_nodes_are_given_back_as_they_were(
    network: str, tmp_path: Path
) -> None:
    if network == "calico-ipip":
        need_wrapping()
    by_programs = network == "calico-ipip" and not ipip.kernel_has_tunnels()
    way = "via 10.214.1.2 dev data1" if network == "calico" or by_programs else "dev tareip1-1"
    environment = Environment(name=network, runtime="bare", network=network)
    with lab_site(nics=2) as site:
        pids = [node.pid for node in site.nodes]
        before = [node_state(pid) for pid in pids]
        with deployed(site, environment, Placement(), slot=0, nic=1, files=Files(host_prefix=tmp_path)) as up:
            first, second = up.sides
            pod = first.pod.pid
            (stack,) = {watch.pid for watch in first.endpoint.watches if watch.role == NIC}
            assert "inet 10.216.1.1/32" in of_node(pod, "ip", "-4", "address", "show", "dev", "eth0")
            assert "default via 169.254.1.1 dev eth0" in of_node(pod, "ip", "route")
            assert first.endpoint.mtu == (1500 if network == "calico" else 1480)
            routes = of_node(stack, "ip", "route")
            assert "10.216.1.1 dev tarec1-0" in routes
            assert f"10.216.1.2 {way} proto bird" in routes
            size = str(first.endpoint.mtu - 28)
            of_node(pod, "ping", "-c", "2", "-i", "0.2", "-M", "do", "-s", size, second.endpoint.address)
            assert "ee:ee:ee:ee:ee:ee" in of_node(pod, "ip", "neigh", "show", "169.254.1.1")
            assert ("clsact" in node_state(stack)["filters"]) == by_programs
            for pid in pids:
                assert node_state(pid)["forwarding"] == before[0]["forwarding"], "bare would pay for it"
        wait_for(lambda: [node_state(pid) for pid in pids] == before, "nodes as they were", 5)


def test_where_the_kernel_has_tunnels_routes_lead_into_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_kind(nic: Nic, far: ipip.Far) -> tuple[str, ...]:  # this kernel may have no ipip
        kind = ("type", "vxlan", "id", "7", "local", nic.address, "remote", far.address, "dstport", "4789")
        return ("link", "add", ipip.tunnel_name(nic, far), *kind)

    monkeypatch.setattr(ipip, "kernel_has_tunnels", lambda: True)
    monkeypatch.setattr(ipip, "tunnel_command", other_kind)
    environment = Environment(name="e", runtime="bare", network="calico-ipip")
    with (
        lab_site(nics=2) as site,
        deployed(site, environment, Placement(), slot=0, nic=1, files=Files(host_prefix=tmp_path)) as up,
    ):
        (tunnel,) = [watch for watch in up.sides[0].endpoint.watches if watch.role == WRAPPED]
        assert tunnel.interface == "tareip1-1"
        assert "10.216.1.2 dev tareip1-1 proto bird" in of_node(tunnel.pid, "ip", "route")
        assert up.sides[0].endpoint.facts["IP-in-IP"] == "the kernel's ipip"


def test_a_bird_that_cannot_start_is_told_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bird, "AS", "nonsense")
    environment = Environment(name="e", runtime="bare", network="calico")
    with (
        lab_site(nics=2) as site,
        pytest.raises(InfrastructureError, match=r"bird on n\d exited without the routes .*syntax error"),
        deployed(site, environment, Placement(), slot=0, nic=1, files=Files(host_prefix=tmp_path)),
    ):
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
        answer, outer = bpf.try_on(wrap, inner)
        assert answer == ipip.PASS
        assert outer[:14] == inner[:14]
        assert outer[34:] == inner[14:]
        head = outer[14:34]
        assert checksum(head) == 0
        fields = struct.unpack(">BBHHHBBH4s4s", head)
        assert fields[:3] == (0x45, 0, len(inner) - 14 + 20)
        assert (fields[4], fields[6]) == (0x4000, 4)
        assert fields[8:] == (OWN, OTHER)
        assert bpf.try_on(unwrap, outer) == (ipip.PASS, inner)
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
            assert bpf.try_on(wrap, packet) == (ipip.PASS, packet)
        for packet in (frame(OTHER, 4), frame(OWN, 17), bytes(12) + b"\x08\x06" + bytes(60)):
            assert bpf.try_on(unwrap, packet) == (ipip.PASS, packet)
        assert ipip.read_counters(counters) == (0, 0, 0, 0)


def test_a_program_that_the_kernel_refuses_is_told_with_its_reason() -> None:
    need_programs()
    with pytest.raises(InfrastructureError, match=r"loading the BPF program tare_test failed: .*R0"):
        bpf.load_program(bpf.assemble([bpf.leave()]), "tare_test")
