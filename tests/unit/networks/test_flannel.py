"""flannel, canal, calico and etcd: what they are told, whom they reach, and what is wrapped for whom."""

from __future__ import annotations

import ipaddress
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.clusters.lab import data_nic, router_address
from tare.daemons import etcd
from tare.daemons.daemons import Place
from tare.daemons.docker import cluster_options, daemons
from tare.errors import InfrastructureError, RefusedError
from tare.model import Environment, LabSpec, Placement
from tare.networks import NETWORKS, canal, flannel, overlay_etcd
from tare.networks.calico import Calico, Wrapping, list_sessions, pod_address, pool_of, port_name, route_interfaces
from tare.networks.flannel import TAKEN, Flannel, Lease, parse_subnets, read_lease
from tare.networks.wiring import bird, bpf, host_stack, ipip, plug
from tare.run.deploy.hosts import Deployed
from tare.study.plan import composition
from tare.study.plan.composition import refuse_subnets
from tare.system.counters import monitor, reader
from tare.system.counters.values import HostWatch
from tare.system.node import Endpoint, Nic, Node, Watch, Wired
from tare.system.process import Result

NODE = make_node(1, pid=7)
LEASE = Lease(gateway=ipaddress.IPv4Interface("10.217.35.1/24"), mtu=1450)
NAMES = {"flannel": "vxlan", "flannel-host-gw": "host-gw", "flannel-udp": "udp", "canal": "vxlan"}


def test_etcd_and_docker_are_told_where_the_store_is_and_the_api_it_has() -> None:
    argv = etcd.command("/x/etcd", "10.213.129.1", "/run/tare-f", version_2=False)
    pairs = [word for word in argv[1:] if "=true" not in word]
    told = dict(zip(pairs[::2], pairs[1::2], strict=True))
    assert told["--listen-client-urls"] == told["--advertise-client-urls"] == "https://10.213.129.1:2379"
    assert told["--listen-peer-urls"] == told["--initial-advertise-peer-urls"] == "https://10.213.129.1:2380"
    assert told["--initial-cluster"] == f"{told['--name']}=https://10.213.129.1:2380"
    assert told["--data-dir"] == "/run/tare-f/etcd"
    assert "--enable-v2=true" in etcd.command("/x/etcd", "10.213.0.1", "/run/tare-f", version_2=True)
    assert cluster_options("https://10.213.0.1:2379", NODE) == (
        "--cluster-store", "etcd://10.213.0.1:2379",
        "--cluster-store-opt", "kv.cacertfile=/run/tare-etcd/tls.crt",
        "--cluster-store-opt", "kv.certfile=/run/tare-etcd/tls.crt",
        "--cluster-store-opt", "kv.keyfile=/run/tare-etcd/tls.key",
        "--cluster-advertise", "data0:2376",
    )  # fmt: skip
    assert cluster_options("", NODE) == ()


def test_what_has_no_store_or_needs_another_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="Swarm"), daemons((NODE,), log_folder=tmp_path, swarm=True, store=True):
        pass
    monkeypatch.setattr(etcd, "OWN", tmp_path)
    monkeypatch.setattr(overlay_etcd, "find", lambda _: "/x/dockerd")
    answer = Result(argv=(), status=0, stdout="Docker version 27.1.1, build 1\n", stderr="", elapsed_s=0)
    monkeypatch.setattr(overlay_etcd, "run", lambda *_, **__: answer)
    assert "use overlay" in str(NETWORKS["overlay-etcd"].probe())

    def of(*networks: str) -> list[Environment]:
        return [Environment(name=f"docker+{name}", runtime="docker", network=name) for name in networks]

    assert (composition.apart(of("host", "overlay-etcd")), composition.apart(of("host", "overlay"))) == ({}, {})
    reasons = composition.apart(of("overlay", "host", "overlay-etcd"))
    assert list(reasons) == ["docker+overlay-etcd"]
    assert "Swarm" in reasons["docker+overlay-etcd"]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", None),
        ("Docker version 19.03.15, build 99e3ed8", None),
        ("", None),
        ("Docker version 23.0.0, build d7573ab", "Docker 23.0.0 no longer has --cluster-store: use overlay"),
        ("Docker version 29.1.3", "Docker 29.1.3 no longer has --cluster-store: use overlay"),
    ],
)
def test_a_docker_without_a_store_is_recognised_by_its_version(version: str, reason: str | None) -> None:
    assert overlay_etcd.probe_version(version) == reason


@pytest.mark.parametrize(("name", "backend"), NAMES.items())
def test_each_level_is_a_backend_of_flannel_with_flannel_s_own_ports_and_numbers(name: str, backend: str) -> None:
    assert NETWORKS[name].backend == backend  # type: ignore[attr-defined]
    assert not NETWORKS[name].reaches_outside
    assert flannel.network_config(backend) == {
        "Network": "10.217.0.0/16", "SubnetLen": 24, "Backend": {"Type": backend},
    }  # fmt: skip


def test_flanneld_is_told_its_store_and_its_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flannel, "flanneld", lambda: "/x/flanneld")
    argv = flannel.command("data3", "/run/tare-f", "https://10.213.129.1:2379")
    assert argv[0] == "/x/flanneld"
    assert {
        "-etcd-endpoints=https://10.213.129.1:2379", "-iface=data3", "-subnet-file=/run/tare-f/subnet.env",
        "-ip-masq=false", "-etcd-cafile=/run/tare-f/tls.crt", "-etcd-certfile=/run/tare-f/tls.crt",
        "-etcd-keyfile=/run/tare-f/tls.key",
    } <= set(argv)  # fmt: skip
    assert not any("kube" in token for token in argv)
    text = "FLANNEL_NETWORK=10.217.0.0/16\nFLANNEL_SUBNET=10.217.35.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"
    assert read_lease(text) == LEASE
    for part in ("", "FLANNEL_SUBNET=10.217.35.1/24\n", "FLANNEL_SUBNET=10.217\nFLANNEL_MTU=1450", "nonsense"):
        assert read_lease(part) is None
    log = "I1121 1 udp_network_amd64.go:99] Watching\nI1121 1 x.go:1] Subnet added: 10.217.9.0/24\nSubnet added:"
    assert parse_subnets(log) == {"10.217.9.0/24"}
    place = Place(node=NODE, pid=7, folder="/run/tare-flannel-s1-2")
    assert place.path("subnet.env") == Path("/proc/7/root/run/tare-flannel-s1-2/subnet.env")


def test_pods_of_a_node_have_addresses_after_the_bridge_s_and_are_wired() -> None:
    addresses = [str(LEASE.address(number)) for number in range(253)]
    assert (addresses[0], addresses[-1], len(set(addresses))) == ("10.217.35.2/24", "10.217.35.254/24", 253)
    with pytest.raises(InfrastructureError, match="no address for pod 254"):
        LEASE.address(253)
    config = NETWORKS["flannel"].plug_in(LEASE, LEASE.address(0))  # type: ignore[attr-defined]
    assert (config["type"], config["isGateway"], config["ipMasq"], config["mtu"]) == ("bridge", True, False, 1450)
    assert config["ipam"] == {
        "type": "static",
        "addresses": [{"address": "10.217.35.2/24", "gateway": "10.217.35.1"}],
        "routes": [{"dst": "10.217.0.0/16"}],
    }
    json.dumps(config)


def test_what_flannel_lacks_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(flannel, "is_real_root", lambda: False)
    assert "root" in str(flannel.probe_programs("vxlan"))
    monkeypatch.setattr(flannel, "is_real_root", lambda: True)
    monkeypatch.setattr(flannel, "OWN", tmp_path / "nowhere")
    monkeypatch.setattr(flannel, "find", lambda _: None)
    assert flannel.probe_programs("vxlan") == "flanneld is not installed: run tools/networks flannel"
    monkeypatch.setattr(flannel, "OWN", tmp_path)
    monkeypatch.setattr(flannel, "BRIDGE_NETFILTER", tmp_path / "nowhere")
    assert "modprobe br_netfilter" in str(flannel.probe_programs("vxlan"))
    monkeypatch.setattr(flannel, "BRIDGE_NETFILTER", tmp_path)
    monkeypatch.setattr(flannel, "TUN", tmp_path / "nowhere")
    assert "modprobe tun" in str(flannel.probe_programs("udp"))
    monkeypatch.setattr(etcd, "OWN", tmp_path / "nowhere")
    monkeypatch.setattr(etcd, "find", lambda _: None)
    assert flannel.probe_programs("vxlan") == "etcd is not installed: run tools/networks etcd"
    monkeypatch.setattr(etcd, "OWN", tmp_path)
    assert flannel.probe_programs("vxlan") is None


def test_pods_of_canal_are_routed_through_chains_of_their_own() -> None:
    config = NETWORKS["canal"].plug_in(LEASE, LEASE.address(1))  # type: ignore[attr-defined]
    assert (config["type"], config["mtu"]) == ("ptp", 1450)
    assert config["ipam"]["addresses"][0]["address"] == "10.217.35.3/24"
    text = canal.rules(["veth1", "veth2"])
    for name in ("veth1", "veth2"):
        for kind, word in (("fw", "iifname"), ("tw", "oifname")):
            assert f"  chain cali-{kind}-{name} {{" in text
            assert f'    {word} "{name}" goto cali-{kind}-{name}\n' in text
    assert 'elements = { "veth1", "veth2" }' in text
    assert text.count("{") == text.count("}")
    leaving = text.partition("chain cali-fw-veth1 {")[2].partition("}")[0].split("\n")
    order = [line.strip() for line in leaving if line.strip()]
    assert order[:2] == ["ct state established,related accept", "ct state invalid drop"]
    assert order[-3:] == ["jump cali-pro-default", "meta mark & 0x00010000 == 0x00010000 return", "drop"]
    assert "udp dport 4789 drop" in order
    assert "ip protocol 4 drop" in order


@pytest.mark.parametrize(("endings", "started"), [((None,), 1), ((TAKEN, None), 2), ((TAKEN, TAKEN, None), 3)])
def test_a_flanneld_that_drew_another_s_subnet_is_started_again(
    monkeypatch: pytest.MonkeyPatch, endings: tuple[str | None, ...], started: int
) -> None:
    network, begun = drawing(monkeypatch, endings)
    assert (network._lease(), len(begun)) == (LEASE, started)


@pytest.mark.parametrize("endings", [("no route to the store",), (TAKEN, TAKEN, TAKEN)])
def test_a_flanneld_that_ends_again_is_told(monkeypatch: pytest.MonkeyPatch, endings: tuple[str | None, ...]) -> None:
    network, begun = drawing(monkeypatch, endings)
    with pytest.raises(InfrastructureError, match=str(endings[-1])):
        network._lease()
    assert len(begun) == len(endings)


def drawing(monkeypatch: pytest.MonkeyPatch, endings: tuple[str | None, ...]) -> tuple[Flannel, list[Any]]:
    """Return a network whose flannelds end one after the other with these words; None: it gets its lease."""
    left, begun = list(endings), list[Any]()

    def wait_for(*_: object, **__: object) -> Lease:
        if words := left.pop(0):
            raise InfrastructureError(f"flanneld on n1 exited without a subnet: {words}")
        return LEASE

    @contextmanager
    def running(*_: object) -> Iterator[Any]:
        begun.append(SimpleNamespace(wait_for=wait_for))
        yield begun[-1]

    monkeypatch.setattr(flannel, "run_daemon", running)
    monkeypatch.setattr(flannel, "lend_nic", lambda *_: nullcontext())
    monkeypatch.setattr(Flannel, "place", SimpleNamespace(folder="/run/x"))
    network = Flannel("flannel", "vxlan")
    up = network.on_node(make_node(0), Nic(name="data0", address="10.0.0.1", prefix=24))
    up.__enter__()
    monkeypatch.setattr(network, "up", up, raising=False)
    return network, begun


NONE = ipip.NO_TUNNELS


def wired(number: int, nic: Nic, pods: int = 1) -> tuple[Wired, ...]:
    """Return the pods of a node, wired."""
    node = make_node(number, nics=(nic,), pid=2**22 + number)
    found = []
    for each in range(pods):
        own = replace(nic, address=str(ipaddress.ip_address(nic.address) + 4 * each))
        endpoint = Endpoint(address=pod_address(own), prefix=24, interface="eth0", mtu=1500)
        pod = make_pod(node, number=each)
        found.append(Wired(pod=pod, nic=nic, endpoint=endpoint))
    return tuple(found)


def places(subnets: int = 1, nodes: int = 2, pods: int = 1) -> list[tuple[Wired, ...]]:
    spec = LabSpec(nodes=nodes, subnets=subnets)
    return [wired(number, data_nic(3, number, spec), pods) for number in range(nodes)]


def test_pods_have_addresses_of_their_pools_and_stacks_of_their_own() -> None:
    nic = Nic(name="data3", address="10.214.3.7", prefix=24)
    assert pod_address(nic) == "10.216.3.7"
    assert ipaddress.ip_address(pod_address(nic)) in ipaddress.ip_network(pool_of(nic))
    assert pool_of(nic) != pool_of(Nic(name="data4", address="10.214.4.7", prefix=24))
    names = {
        port_name(Nic(name=f"data{k}", address="", prefix=24), pod) for k, pod in product((1, 11, 250), (0, 1, 64))
    }
    assert len(names) == 9
    assert all(name.startswith("tarec") and len(name) <= 15 for name in names)
    assert host_stack.control_address(NODE, "s12-0") == "10.213.128.2"
    assert host_stack.control_address(NODE, "s12-3") == "10.213.131.2"
    with pytest.raises(InfrastructureError, match="addresses for only 120"):
        host_stack.control_address(NODE, "s12-120")


def nodes_of(every: list[tuple[Wired, ...]]) -> list[Node]:
    return [place[0].pod.node for place in every]


def test_all_nodes_have_sessions_with_all_others_through_tunnels_and_files_of_their_stack() -> None:
    every = places(nodes=3)
    first, _, third = nodes_of(every)
    sessions = list_sessions(every[1][0].nic, [first, third], NONE)
    assert [(each.own, each.other) for each in sessions] == [("10.214.3.2", "10.214.3.1"), ("10.214.3.2", "10.214.3.3")]
    text = bird.config("10.213.0.2", "10.216.3.0/24", sessions)
    assert "router id 10.213.0.2;" in text
    assert "export where source = RTS_BGP;" in text
    assert text.count("protocol bgp ") == 2
    assert "protocol bgp n0 {" in text
    assert "  local 10.214.3.2 as 64512;\n  neighbor 10.214.3.1 as 64512;\n" in text
    assert text.count("import where net ~ [ 10.216.3.0/24{32,32} ];") == 2
    assert text.count("export where net ~ [ 10.216.3.0/24{32,32} ] && source = RTS_INHERIT;") == 2
    every = places()
    tunnels = ipip.Tunnels(means="the kernel's ipip", interfaces={1: "tareip3-1"})
    (session,) = list_sessions(every[0][0].nic, nodes_of(every)[1:], tunnels)
    assert session.interface == "tareip3-1"
    assert 'ifname = "tareip3-1";' in bird.config("10.213.0.1", "10.216.3.0/24", (session,))
    assert route_interfaces("n0", every[0][0].nic, [*every[0], *every[1]], tunnels) == {"10.216.3.2": "tareip3-1"}
    argv = bird.command("/opt/bird", "/run/tare-calico-l-1")
    assert argv[:4] == ("/opt/bird", "-f", "-c", "/run/tare-calico-l-1/bird.conf")
    assert all(word.startswith("/run/tare-calico-l-1/") for word in argv[3::2])


ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
data3\t0003D60A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
data3\t0203D80A\t0203D60A\t0007\t0\t0\t32\tFFFFFFFF\t0\t0\t0
*\t0303D80A\t00000000\t0205\t0\t0\t32\tFFFFFFFF\t0\t0\t0
tarec3-0\t0103D80A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0
"""


def test_routes_and_counters_are_read_as_those_of_an_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bird.host_routes(ROUTES) == {"10.216.3.2": "data3", "10.216.3.1": "tarec3-0"}
    assert bird.host_routes("") == {}
    every = places(nodes=2, pods=2)
    wanted = route_interfaces("n0", every[0][0].nic, [*every[0], *every[1]], NONE)
    assert wanted == {"10.216.3.2": "data3", "10.216.3.6": "data3"}
    told = iter([{}, {"10.216.3.2": "data3"}, {"10.216.3.2": "data3", "10.216.3.6": "data0"}, {**wanted, "x": "y"}])
    monkeypatch.setattr(bird, "host_routes", lambda _: next(told))
    assert [bird.has_routes(1, wanted) for _ in range(4)] == [None, None, None, True]
    values = iter([(10, 1, 20, 2), (110, 3, 70, 7)])
    watch = Watch(pid=1, interface="ipip-data3", role=ipip.ROLE, by_network=True)
    place = HostWatch(node=places()[0][0].pod.node, pid=1, watches=(watch,))
    before, after = (reader.read([place], lambda _: next(values)) for _ in range(2))
    (item,) = monitor.traffic([place], before, after)
    assert (item.rx_bytes, item.rx_packets, item.tx_bytes, item.tx_packets) == (100, 2, 50, 5)
    assert (item.interface, item.role) == ("ipip-data3", "IP-in-IP")
    values = {ipip.SENT: struct.pack("<QQ", 2, 3000), ipip.RECEIVED: struct.pack("<QQ", 1, 1500)}
    monkeypatch.setattr(ipip.bpf, "look_up", lambda file, key, size: values[struct.unpack("<I", key)[0]])
    assert ipip.read_counters(9) == (1500, 1, 3000, 2)


def test_packets_are_led_into_tunnels_and_bird_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bird, "UNPACKED", tmp_path / "bird")
    monkeypatch.setattr(bird, "find", lambda _: None)
    assert bird.probe() == "BIRD 2 is not installed: tools/bootstrap unpacks it, or apt-get install bird2"
    led: list[tuple[int, bytes, bytes]] = []
    monkeypatch.setattr(ipip.bpf, "update", lambda *values: led.append(values))
    tunnels = ipip.Tunnels(means="programs", ways=7, far=frozenset({"10.214.3.2"}))
    ipip.add_route(tunnels, "10.216.3.2", "10.214.3.2")
    ipip.add_route(tunnels, "10.216.3.1", "10.214.3.1")
    ipip.add_route(NONE, "10.216.3.2", "10.214.3.2")
    assert led == [(7, bytes([10, 216, 3, 2]), bytes([10, 214, 3, 2]))]
    nic = Nic(name="data3", address="10.214.3.1", prefix=24)
    argv = ipip.tunnel_command(nic, ipip.Peer(index=1, address="10.214.3.2"))
    assert argv[:5] == ("link", "add", "tareip3-1", "mtu", "1480")
    assert argv[5:11] == ("type", "ipip", "local", "10.214.3.1", "remote", "10.214.3.2")


@pytest.mark.parametrize(
    ("wrapping", "subnets", "wrapped"),
    [
        (Wrapping.NEVER, 1, []), (Wrapping.NEVER, 2, []), (Wrapping.ALWAYS, 1, [1, 2, 3]),
        (Wrapping.ALWAYS, 2, [1, 2, 3]), (Wrapping.CROSS_SUBNET, 1, []), (Wrapping.CROSS_SUBNET, 2, [2, 3]),
    ],
)  # fmt: skip
def test_packets_are_wrapped_always_at_times_or_never(wrapping: Wrapping, subnets: int, wrapped: list[int]) -> None:
    every = places(subnets=subnets, nodes=4)
    calico = Calico("c", wrapping)
    first = every[0][0]
    assert [number for number in (1, 2, 3) if calico._wraps(first.nic, every[number][0].nic)] == wrapped
    calico._nodes = nodes_of(every)
    assert calico._all_wrapped(first) == (len(wrapped) == 3)


def test_instructions_are_assembled_as_the_kernel_reads_them_and_programs_end() -> None:
    code = bpf.assemble([
        bpf.copy(bpf.R6, bpf.R1),
        bpf.load(bpf.R0, bpf.R6, 16, 4),
        bpf.unless_equal(bpf.R0, 8, "out"),
        *bpf.put_map(bpf.R1, 5),
        bpf.store_value(bpf.FRAME, -4, 0xFFFFFFFE, 4),
        "out",
        bpf.put(bpf.R0, 0),
        bpf.leave(),
    ])  # fmt: skip
    assert [code[at : at + 8].hex() for at in range(0, len(code), 8)] == [
        "bf16000000000000", "6160100000000000", "5600030008000000", "1811000005000000", "0000000000000000",
        "620afcfffeffffff", "b700000000000000", "9500000000000000",
    ]  # fmt: skip
    own = bytes([10, 214, 3, 1])
    for code in (ipip.egress_program(own, 3, 4), ipip.ingress_program(own, 4)):
        assert len(code) % 8 == 0
        assert len(code) // 8 < 80
        assert code[-8:].hex() == "9500000000000000"
        assert own in code


@pytest.mark.parametrize(("nodes", "halves"), [(2, [0, 1]), (3, [0, 0, 1]), (4, [0, 0, 1, 1])])
def test_half_of_the_nodes_are_in_each_subnet(nodes: int, halves: list[int]) -> None:
    spec = LabSpec(nodes=nodes, subnets=2)
    assert [spec.subnet_of(node) for node in range(nodes)] == halves
    assert {LabSpec(nodes=nodes).subnet_of(node) for node in range(nodes)} == {0}


@pytest.mark.parametrize(("nodes", "twins"), [(2, True), (3, True), (7, False), (100, True), (200, False)])
def test_nodes_and_twins_have_addresses_of_their_subnet_and_none_is_the_router_s(nodes: int, twins: bool) -> None:
    spec = LabSpec(nodes=nodes, subnets=2)
    nics = [data_nic(5, place, spec) for place in range(nodes * (1 + twins))]
    assert len({nic.address for nic in nics}) == len(nics)
    routers = {router_address(5, 0), router_address(5, 1)}
    assert routers == {"10.214.5.126", "10.214.5.254"}
    assert not routers & {nic.address for nic in nics}
    for place, nic in enumerate(nics):
        network = ipaddress.ip_interface(nic.cidr).network
        assert str(network) == ("10.214.5.0/25", "10.214.5.128/25")[spec.subnet_of(place % nodes)]
        assert ipaddress.ip_address(router_address(5, spec.subnet_of(place % nodes))) in network


def test_addresses_of_one_subnet_are_as_they_were_and_a_nic_is_given_back() -> None:
    assert data_nic(2, 4, LabSpec(nodes=9)) == Nic(name="data2", address="10.214.2.5", prefix=24)
    asked: list[Any] = []
    route = SimpleNamespace(
        link_lookup=lambda ifname: [7],
        link=lambda *words, **values: None,
        addr=lambda *words, **values: None,
        route=lambda *words, **values: asked.append((*words, values)),
    )
    plug.restore(route, data_nic(3, 0, LabSpec()))  # type: ignore[arg-type]
    assert asked == []
    plug.restore(route, data_nic(3, 0, LabSpec(subnets=2)))  # type: ignore[arg-type]
    assert asked == [("replace", {"dst": "10.214.3.0/24", "gateway": "10.214.3.126", "oif": 7})]


def deployed(*endpoints: tuple[str, int]) -> Deployed:
    pod = places()[0][0].pod
    pods = tuple(
        replace(pod, endpoint=Endpoint(address=address, prefix=prefix, interface="e", mtu=1500), prefix=Path("/"))
        for address, prefix in endpoints
    )
    return Deployed(environment=Environment(name="e", runtime="bare", network="host"), pods=pods)


@pytest.mark.parametrize(
    ("endpoints", "told"),
    [
        ([("10.214.0.1", 24), ("10.214.0.2", 24)], "10.214.0.0/24"),
        ([("10.214.0.1", 25), ("10.214.0.129", 25)], "10.214.0.0/24"),
        ([("10.1.0.1", 24), ("10.9.0.1", 24)], "10.1.0.0/24,10.9.0.0/24"),
    ],
)
def test_an_mpi_is_told_the_subnets_of_all_hosts(endpoints: Sequence[tuple[str, int]], told: str) -> None:
    assert deployed(*endpoints).subnet == told


ACROSS_SUBNETS = {"host", "overlay", "flannel", "flannel-udp", "canal", "calico-ipip", "calico-ipip-cross"}


@pytest.mark.parametrize("network", [name for name, network in NETWORKS.items() if not network.is_fake])
@pytest.mark.parametrize("nodes", [1, 2])
def test_across_subnets_only_what_a_router_can_carry_is_not_refused(network: str, nodes: int) -> None:
    environment = Environment(name="e", runtime="bare", network=network)
    placement = Placement(nodes=nodes)
    assert refuse_subnets(environment, placement, LabSpec(nodes=2)) is None
    reason = refuse_subnets(environment, placement, LabSpec(nodes=2, subnets=2))
    assert (reason is None) == (network in ACROSS_SUBNETS or nodes == 1)
    assert reason is None or network in reason


def test_calico_s_pods_reach_each_other_once_all_are_known_and_those_of_a_bridge_at_once() -> None:
    pods = places(nodes=1)[0]
    with NETWORKS["bridge"].join(pods[0].pod.node, pods) as endpoints:
        assert endpoints == tuple(each.endpoint for each in pods)
    with (
        pytest.raises(InfrastructureError, match="the network calico was not prepared"),
        Calico("calico").join(pods[0].pod.node, pods),
    ):
        pass
