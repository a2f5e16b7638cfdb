"""Networks that route: addresses, BIRD's configuration, what is wrapped for whom, and the lab's second subnet."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.cluster.lab import data_nic, router_address
from tare.counters import monitor
from tare.deploy.hosts import Deployed
from tare.errors import InfrastructureError
from tare.model import Environment, LabSpec, Placement
from tare.networks import NETWORKS
from tare.networks.calico import Calico, Wrapping, list_sessions, pod_address, pool_of, port_name, route_interfaces
from tare.node import Endpoint, Nic, Node, Watch, Wired
from tare.node_service.sides import Side
from tare.plan.composition import refuse_subnets
from tare.wiring import bird, bpf, ipip, plug

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


def test_pods_have_addresses_of_their_pool_and_veths_names_of_ours() -> None:
    nic = Nic(name="data3", address="10.214.3.7", prefix=24)
    assert pod_address(nic) == "10.216.3.7"
    assert ipaddress.ip_address(pod_address(nic)) in ipaddress.ip_network(pool_of(nic))
    assert pool_of(nic) != pool_of(Nic(name="data4", address="10.214.4.7", prefix=24))
    names = {
        port_name(Nic(name=f"data{k}", address="", prefix=24), pod) for k, pod in product((1, 11, 250), (0, 1, 64))
    }
    assert len(names) == 9
    assert all(name.startswith("tarec") and len(name) <= 15 for name in names)


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


def test_routes_to_hosts_are_read_and_all_pods_of_others_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bird.host_routes(ROUTES) == {"10.216.3.2": "data3", "10.216.3.1": "tarec3-0"}
    assert bird.host_routes("") == {}
    every = places(nodes=2, pods=2)
    wanted = route_interfaces("n0", every[0][0].nic, [*every[0], *every[1]], NONE)
    assert wanted == {"10.216.3.2": "data3", "10.216.3.6": "data3"}
    told = iter([{}, {"10.216.3.2": "data3"}, {"10.216.3.2": "data3", "10.216.3.6": "data0"}, {**wanted, "x": "y"}])
    monkeypatch.setattr(bird, "host_routes", lambda _: next(told))
    assert [bird.has_routes(1, wanted) for _ in range(4)] == [None, None, None, True]


def test_without_bird_it_is_told_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bird, "UNPACKED", tmp_path / "bird")
    monkeypatch.setattr(bird, "find", lambda _: None)
    assert bird.probe() == "BIRD 2 is not installed: tools/bootstrap unpacks it, or apt-get install bird2"


@pytest.mark.parametrize(
    ("wrapping", "subnets", "wrapped"),
    [
        (Wrapping.NEVER, 1, []), (Wrapping.NEVER, 2, []), (Wrapping.ALWAYS, 1, [1, 2, 3]),
        (Wrapping.ALWAYS, 2, [1, 2, 3]), (Wrapping.CROSS_SUBNET, 1, []), (Wrapping.CROSS_SUBNET, 2, [2, 3]),
    ],
)  # fmt: skip
def test_packets_are_wrapped_always_or_between_subnets_or_never(
    wrapping: Wrapping, subnets: int, wrapped: list[int]
) -> None:
    every = places(subnets=subnets, nodes=4)
    calico = Calico("c", wrapping)
    first = every[0][0]
    assert [number for number in (1, 2, 3) if calico._wraps(first.nic, every[number][0].nic)] == wrapped
    calico._nodes = nodes_of(every)
    assert calico._all_wrapped(first) == (len(wrapped) == 3)


def test_packets_are_led_to_the_nodes_that_there_is_a_tunnel_to_with_room_for_a_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led: list[tuple[int, bytes, bytes]] = []
    monkeypatch.setattr(ipip.bpf, "update", lambda *values: led.append(values))
    tunnels = ipip.Tunnels(means="programs", ways=7, far=frozenset({"10.214.3.2"}))
    ipip.add_route(tunnels, "10.216.3.2", "10.214.3.2")
    ipip.add_route(tunnels, "10.216.3.1", "10.214.3.1")
    ipip.add_route(NONE, "10.216.3.2", "10.214.3.2")
    assert led == [(7, bytes([10, 216, 3, 2]), bytes([10, 214, 3, 2]))]
    nic = Nic(name="data3", address="10.214.3.1", prefix=24)
    argv = ipip.tunnel_command(nic, ipip.Far(index=1, address="10.214.3.2"))
    assert argv[:5] == ("link", "add", "tareip3-1", "mtu", "1480")
    assert argv[5:11] == ("type", "ipip", "local", "10.214.3.1", "remote", "10.214.3.2")


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
        "bf16000000000000",
        "6160100000000000",
        "5600030008000000",
        "1811000005000000",
        "0000000000000000",
        "620afcfffeffffff",
        "b700000000000000",
        "9500000000000000",
    ]
    own = bytes([10, 214, 3, 1])
    for code in (ipip.egress_program(own, 3, 4), ipip.ingress_program(own, 4)):
        assert len(code) % 8 == 0
        assert len(code) // 8 < 80
        assert code[-8:].hex() == "9500000000000000"
        assert own in code


def test_counters_that_are_no_interface_s_are_told_as_one_s(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([(10, 1, 20, 2), (110, 3, 70, 7)])
    watch = Watch(pid=1, interface="ipip-data3", role=ipip.ROLE, by_network=True)
    place = monitor.HostWatch(node=places()[0][0].pod.node, pid=1, watches=(watch,))
    before, after = (monitor.read([place], lambda _: next(values)) for _ in range(2))
    (item,) = monitor.traffic([place], before, after)
    assert (item.rx_bytes, item.rx_packets, item.tx_bytes, item.tx_packets) == (100, 2, 50, 5)
    assert (item.interface, item.role) == ("ipip-data3", "IP-in-IP")
    values = {ipip.SENT: struct.pack("<QQ", 2, 3000), ipip.RECEIVED: struct.pack("<QQ", 1, 1500)}
    monkeypatch.setattr(ipip.bpf, "look_up", lambda file, key, size: values[struct.unpack("<I", key)[0]])
    assert ipip.read_counters(9) == (1500, 1, 3000, 2)


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


def test_with_one_subnet_addresses_are_as_they_were() -> None:
    assert data_nic(2, 4, LabSpec(nodes=9)) == Nic(name="data2", address="10.214.2.5", prefix=24)


def test_a_nic_is_given_back_with_its_way_to_the_other_subnet() -> None:
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
    sides = tuple(
        Side(pod=pod, endpoint=Endpoint(address=address, prefix=prefix, interface="e", mtu=1500), prefix=Path("/"))
        for address, prefix in endpoints
    )
    return Deployed(environment=Environment(name="e", runtime="bare", network="host"), sides=sides)


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
