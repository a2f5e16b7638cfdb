"""Networks by plug-ins of CNI and small ones: what they are told, and what is undone."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.daemons.daemons import Place
from tare.errors import CommandFailed, InfrastructureError, RefusedError
from tare.networks import NETWORKS, find, overlay_etcd
from tare.networks import cni as module
from tare.networks.cni import Cni, call_chain, probe_plugins, routes_of_machine
from tare.networks.fake import FACTORS
from tare.networks.ipvlan import routes_to
from tare.networks.overlay import network_name, overlay_address
from tare.networks.overlay_etcd import _announce
from tare.networks.wiring import plug
from tare.networks.wiring.conflist_file import read
from tare.networks.wiring.plug import call_cni, cni_plugin, config, probe_cni, wire_by_cni, without_address
from tare.system.node import SILENT_ROLE, Endpoint, Nic, Node, Wired
from tare.system.process import Result

NIC = Nic(name="data1", address="10.214.1.2", prefix=24, mtu=9000)
NODE = make_node(1, nics=(Nic(name="data0", address="10.214.0.2", prefix=24), NIC))
POD = make_pod(NODE, name="tare-lab-1-n1", own_network=True)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("bridge", "static", "host-device"):
        (tmp_path / name).touch()
    monkeypatch.setattr(plug, "CNI_FOLDERS", ())
    monkeypatch.setenv("CNI_PATH", f"/nowhere:{tmp_path}")
    return tmp_path


class Spy:
    """Stands for `tare.system.process.run` and answers as a plug-in would."""

    def __init__(self, status: int = 0, stdout: str = "{}", stderr: str = "") -> None:
        self.calls: list[SimpleNamespace] = []
        self.answer = (status, stdout, stderr)

    def __call__(self, argv: tuple[str, ...], **options: Any) -> Result:
        self.calls.append(SimpleNamespace(argv=argv, **options))
        status, stdout, stderr = self.answer
        return Result(argv=argv, status=status, stdout=stdout, stderr=stderr, elapsed_s=0.0)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    made = Spy()
    monkeypatch.setattr(plug, "run", made)
    return made


def test_plugins_are_looked_for_where_cni_path_says(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (plug.cni_folders(), cni_plugin("bridge")) == ((plugins,), plugins / "bridge")
    assert cni_plugin("nowhere") is None
    assert probe_cni("bridge", "static") is None
    reason = probe_cni("bridge", "macvlan", "ipvlan")
    assert reason == "CNI plug-in macvlan, ipvlan is missing: apt-get install containernetworking-plugins"
    monkeypatch.setattr(plug, "CNI_FOLDERS", ())
    monkeypatch.delenv("CNI_PATH", raising=False)
    with pytest.raises(InfrastructureError, match="apt-get install containernetworking-plugins"):
        call_cni("ADD", config("bridge", NIC), POD)


def test_a_plugin_is_called_in_the_namespace_of_its_pod_if_there_is_one(plugins: Path, spy: Spy) -> None:
    call_cni("ADD", config("bridge", NIC, bridge="tarebr"), POD)
    (call,) = spy.calls
    assert call.argv == ("nsenter", "--net=/proc/1/ns/net", "--", str(plugins / "bridge"))
    assert {k: v for k, v in call.env.items() if k.startswith("CNI_")} == {
        "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "tare-lab-1-n1", "CNI_NETNS": "/proc/1/ns/net", "CNI_IFNAME": "eth0",
        "CNI_PATH": str(plugins),
    }  # fmt: skip
    sent = json.loads(call.stdin)
    assert (sent["type"], sent["bridge"]) == ("bridge", "tarebr")
    assert sent["ipam"] == {"type": "static", "addresses": [{"address": "10.214.1.2/24"}]}
    spy.calls.clear()
    call_cni("DEL", config("bridge", NIC), replace(POD, pid=2**30))
    assert spy.calls[0].env["CNI_NETNS"] == ""
    with wire_by_cni(replace(POD, pid=2**30), config("bridge", NIC)):
        pass
    assert [call.env["CNI_COMMAND"] for call in spy.calls] == ["DEL", "ADD"]


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ('{"code": 11, "msg": "no such device", "details": "data1"}', "", "no such device: data1 (code 11)"),
        ("not json", "", "not json"),
        ("", "segmentation fault", "segmentation fault"),
        ("", "", "no output"),
    ],
)
def test_a_failing_plugin_is_told_in_its_words(plugins: Path, spy: Spy, stdout: str, stderr: str, words: str) -> None:
    spy.answer = (1, stdout, stderr)
    with pytest.raises(CommandFailed) as caught:
        call_cni("ADD", config("bridge", NIC), POD, " (2 of 3 in x.conflist)")
    assert str(caught.value) == f"CNI bridge (2 of 3 in x.conflist) ADD for tare-lab-1-n1 on n1 failed: {words}"


def test_a_pod_is_unplugged_all_the_same(plugins: Path, spy: Spy) -> None:
    with pytest.raises(KeyboardInterrupt), wire_by_cni(POD, config("bridge", NIC)):
        raise KeyboardInterrupt
    assert [call.env["CNI_COMMAND"] for call in spy.calls] == ["ADD", "DEL"]
    assert spy.calls[0].stdin == spy.calls[1].stdin


class Route:
    """Stands for a netlink socket and notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def link_lookup(self, ifname: str) -> list[int]:
        return [7] if ifname == "data1" else []

    def flush_addr(self, **values: Any) -> None:
        self.asked.append(("flush", values))

    def link(self, what: str, **values: Any) -> None:
        self.asked.append(("link", what, values))

    def addr(self, what: str, **values: Any) -> None:
        self.asked.append(("addr", what, values))


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch) -> Route:
    made = Route()

    @contextmanager
    def netlink(pid: int) -> Any:
        assert pid == NODE.pid
        yield made

    monkeypatch.setattr(plug, "netlink", netlink)
    return made


WHOLE = [
    ("link", "set", {"index": 7, "mtu": 9000, "state": "up"}),
    ("addr", "replace", {"index": 7, "address": "10.214.1.2", "prefixlen": 24}),
]


@pytest.mark.parametrize("error", [None, InfrastructureError("x"), KeyboardInterrupt()])
def test_a_nic_is_given_back_with_its_address_mtu_and_state(route: Route, error: BaseException | None) -> None:
    with nullcontext() if error is None else pytest.raises(type(error)), without_address(NODE, NIC):
        assert route.asked == [("flush", {"index": 7, "family": 2})]
        if error is not None:
            raise error
    assert route.asked[1:] == WHOLE


def test_an_interface_that_is_not_there_is_named(route: Route) -> None:
    with pytest.raises(InfrastructureError, match="no interface data0"), without_address(NODE, NODE.nics[0]):
        pass


def test_overlays_of_a_study_have_a_name_of_ours_and_each_node_an_address_of_its_own() -> None:
    assert network_name("lab-3") == "tare-lab-3"
    overlay = NETWORKS["overlay"]
    most = next(nodes for nodes in range(2, 300) if overlay.refuse(nodes + 1) is not None)
    assert most >= 100
    addresses = [overlay_address(replace(NODE, index=i), "lab-3") for i in range(most)]
    assert len(set(addresses)) == most
    subnet = ipaddress.ip_network("10.215.3.0/24")
    assert set(map(ipaddress.ip_address, addresses)) <= set(subnet.hosts())
    assert "addresses" in str(overlay.refuse(most + 1))
    assert overlay_address(NODE, "lab-4") not in addresses
    assert NETWORKS["overlay"].container_options(NODE, "lab-3") == ("--network", "tare-lab-3", "--ip", addresses[1])


def test_fake_networks_have_costs_and_watches_say_what_carries() -> None:
    costs = {}
    for name in ("fake", "fake-slow"):
        with NETWORKS[name].attach(POD, NIC) as endpoint:
            costs[name] = FACTORS[f"{endpoint.address.rsplit('.', 1)[0]}.0/{endpoint.prefix}"]
    assert costs == {"fake": 1.0, "fake-slow": 1.5}
    assert [(w.pid, w.interface, w.role) for w in plug.carriers((5, "eth0", "veth"))] == [(5, "eth0", "veth")]
    assert {(w.interface, w.role) for w in plug.silent(5)} == {("lo", SILENT_ROLE), ("ctl0", SILENT_ROLE)}
    with NETWORKS["host"].attach(POD, NIC) as endpoint:
        assert (endpoint.address, endpoint.interface, endpoint.mtu) == ("10.214.1.2", "data1", 9000)
        assert [w.interface for w in endpoint.watches if w.role != SILENT_ROLE] == ["data1"]
        assert {w.interface for w in endpoint.watches if w.role == SILENT_ROLE} == {"lo", "ctl0"}


def node(index: int) -> Node:
    nics = tuple(Nic(name=f"data{k}", address=f"10.214.{k}.{index + 1}", prefix=24) for k in range(2))
    return make_node(index, nics=nics, pid=0)


def wired(index: int, number: int = 0) -> Wired:
    at = node(index)
    pod = make_pod(at, name=f"p{index}-{number}", number=number)
    address = f"10.218.1.{index + 1 + 10 * number}"
    # The NIC's address for a second pod differs from the address that the node keeps, which is the gateway.
    nic = replace(at.nics[1], address=f"10.214.1.{index + 1 + 10 * number}")
    return Wired(pod=pod, nic=nic, endpoint=Endpoint(address=address, prefix=24, interface="eth0", mtu=1500))


def test_a_node_gets_a_route_to_every_pod_of_the_others_if_there_are_any() -> None:
    pods = [wired(0), wired(0, 1), wired(1), wired(1, 1)]
    routes = [(str(route.network), route.gateway, route.interface) for route in routes_to(node(0), pods)]
    assert routes == [("10.218.1.2/32", "10.214.1.2", "data1"), ("10.218.1.12/32", "10.214.1.2", "data1")]
    assert routes_to(node(0), [wired(0)]) == []


class FakeRoute:
    """Interface 7, which is running from the third look on, or never."""

    def __init__(self, *, ever: bool) -> None:
        self.ever = ever
        self.looks = 0

    def link_lookup(self, **_: Any) -> list[int]:
        return [7]

    def get_links(self, index: int) -> list[dict[str, int]]:
        self.looks += 1
        return [{"flags": plug.IFF_RUNNING if self.ever and self.looks > 2 else 0}]


@pytest.mark.parametrize("ever", [True, False])
def test_an_interface_is_waited_for_until_it_runs_or_a_limit(ever: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    route = FakeRoute(ever=ever)

    @contextmanager
    def netlink(_: int) -> Iterator[FakeRoute]:
        yield route

    monkeypatch.setattr(plug, "netlink", netlink)
    plug.wait_until_running(77, "eth0", limit_s=600 if ever else 0.05)
    assert route.looks == 3 or not ever


CONTAINER = make_pod(make_node(0, pid=7), name="tare-s7-2-d0", pid=70, container="tare-s7-2-d0")
AGAIN = [
    ("network", "disconnect", "tare-s7-2", "tare-s7-2-d0"),
    ("network", "connect", "--ip", "10.215.2.100", "tare-s7-2", "tare-s7-2-d0"),
]


def announced(monkeypatch: pytest.MonkeyPatch, *, heard_after: int) -> list[tuple[str, ...]]:
    """Announce a container whose peers answer once Docker was asked for so much; return what Docker was asked for."""
    asked: list[tuple[str, ...]] = []

    def run_docker(node: Node, *arguments: str, **_: Any) -> None:
        assert node == CONTAINER.node
        asked.append(arguments)

    monkeypatch.setattr(overlay_etcd, "run_docker", run_docker)
    monkeypatch.setattr(overlay_etcd, "answers", lambda pid, _: pid == CONTAINER.pid and len(asked) >= heard_after)
    monkeypatch.setattr(overlay_etcd, "interface_in", lambda pid, subnet: ("eth0", subnet.replace("0/24", "100")))
    monkeypatch.setattr(overlay_etcd, "FIRST_S", 0.05 if heard_after else 600.0)
    monkeypatch.setattr(overlay_etcd, "REACHED_S", 0.05 if heard_after > 2 else 600.0)
    _announce(CONTAINER, "tare-s7-2", ("10.215.2.101", "10.215.2.102"))
    return asked


def test_a_container_is_connected_again_until_it_reaches_the_others_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (announced(monkeypatch, heard_after=0), announced(monkeypatch, heard_after=2)) == ([], AGAIN)
    with pytest.raises(InfrastructureError, match=r"tare-s7-2-d0 does not reach 10\.215\.2\.101 and 10\.215\.2\.102"):
        announced(monkeypatch, heard_after=3)


CHAIN: dict[str, Any] = {
    "cniVersion": "1.0.0",
    "name": "mine",
    "plugins": [
        {"type": "bridge", "bridge": "cni7", "ipam": {"type": "host-local", "subnet": "10.244.${node}.0/24"}},
        {"type": "tuning", "sysctl": {}},
        {"type": "portmap"},
    ],
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mine.conflist"
    file.write_text(json.dumps(CHAIN))
    monkeypatch.setattr(module, "ROUTES", tmp_path / "routes")
    return file


class Plugins:
    """Stand for the plug-ins: note what they are called with; the one named `fails` fails on `command`."""

    def __init__(self, fails: str = "", command: str = "ADD") -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.fails, self.command = fails, command

    def __call__(self, command: str, config: dict[str, Any], pod: object, where: str) -> dict[str, Any]:
        self.calls.append((command, config["type"], config.get("prevResult")))
        if (command, config["type"]) == (self.command, self.fails):
            raise CommandFailed(f"{self.fails}{where}")
        return {"by": config["type"]} if command == "ADD" else {}

    @property
    def names(self) -> list[str]:
        return [f"{command} {name}" for command, name, _ in self.calls]


def called(monkeypatch: pytest.MonkeyPatch, **how: str) -> Plugins:
    spy = Plugins(**how)
    monkeypatch.setattr(module, "call_cni", spy)
    return spy


def chain(version: str = "1.0.0") -> tuple[dict[str, Any], ...]:
    return tuple({"type": name, "cniVersion": version} for name in ("bridge", "tuning", "portmap"))


def test_chains_are_undone_in_reverse_also_where_a_plugin_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = called(monkeypatch)
    with call_chain(chain(), POD, "x"):
        assert [(name, before) for _, name, before in spy.calls] == [
            ("bridge", None), ("tuning", {"by": "bridge"}), ("portmap", {"by": "tuning"}),
        ]  # fmt: skip
        spy.calls.clear()
    last = {"by": "portmap"}
    assert spy.calls == [("DEL", name, last) for name in ("portmap", "tuning", "bridge")]
    spy = called(monkeypatch)
    with call_chain(chain("0.3.1"), POD, "x"):
        spy.calls.clear()
    assert {before for _, _, before in spy.calls} == {None}
    spy = called(monkeypatch, fails="tuning")
    with pytest.raises(CommandFailed, match=r"^tuning \(2 of 3 in x\)$"), call_chain(chain(), POD, "x"):
        pytest.fail("it is not wired")
    assert spy.names == ["ADD bridge", "ADD tuning", "DEL tuning", "DEL bridge"]
    spy = called(monkeypatch, fails="portmap", command="DEL")
    with pytest.raises(CommandFailed, match="portmap"), call_chain(chain(), POD, "x"):
        spy.calls.clear()
    assert spy.names == ["DEL portmap", "DEL tuning", "DEL bridge"]


def test_a_configuration_is_found_by_its_path_or_told_missing(path: Path, tmp_path: Path) -> None:
    network = find(f"cni:{path}")
    assert isinstance(network, Cni)
    assert network.name == f"cni:{path}"
    assert str(path) in network.product
    assert "bridge, host-local, tuning, portmap themselves" in network.product
    assert network.owns_nic
    assert network.pods_share_nic
    assert not network.reaches_outside
    assert network.refuse(2) is None
    network = Cni(f"{tmp_path}/none")
    for reason in (network.probe(), network.refuse(2)):
        assert reason is not None
        assert "not found" in reason
    assert "cannot be read" in network.product
    with pytest.raises(RefusedError, match="not found"):
        _ = network.reaches_outside
    path.write_text('{"name": "x", "type": "macvlan", "master": "${nic}", "ipam": {"type": "dhcp"}}')
    assert "no DHCP server" in str(Cni(str(path)).refuse(2))


def test_a_missing_plugin_is_named_with_folders(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plug, "CNI_FOLDERS", ())
    monkeypatch.setenv("CNI_PATH", str(tmp_path))
    (tmp_path / "bridge").touch()
    told = str(probe_plugins(read(str(path))))
    assert told.startswith("CNI plug-in host-local, tuning, portmap of ")
    assert f"not found in {tmp_path}: apt-get install containernetworking-plugins" in told
    path.write_text('{"name": "x", "type": "cilium-cni"}')
    told = str(probe_plugins(read(str(path))))
    assert "apt-get" not in told
    assert "CNI_PATH" in told


def test_routes_of_the_machine_are_read_without_the_default(tmp_path: Path) -> None:
    table = tmp_path / "route"
    table.write_text(
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )
    assert routes_of_machine(table) == ((IPv4Network("192.168.2.0/24"), "a route of this machine (by eth0)"),)
    assert routes_of_machine(tmp_path / "none") == ()


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand for the stacks of nodes: nothing is made."""

    @contextmanager
    def host_stack(node: Node, study: str, what: str) -> Iterator[Place]:
        yield Place(node=node, pid=7, folder=f"/run/{what}-{study}")

    monkeypatch.setattr("tare.networks.wiring.stacked.host_stack", host_stack)


def test_a_pod_without_an_address_and_two_with_one_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, given = Cni(str(path)), IPv4Interface("10.244.1.2/24")
    monkeypatch.setattr(module, "read_addresses", lambda *_: [given])
    assert network._address(POD) == given
    endpoint = Endpoint(address=str(given.ip), prefix=24, interface="eth0", mtu=1500)
    pods = [Wired(pod=pod, nic=NIC, endpoint=endpoint) for pod in (POD, replace(POD, name="other"))]
    with (
        pytest.raises(InfrastructureError, match=r"gave 10\.244\.1\.2 to tare-lab-1-n1 and to other"),
        network.join(NODE, pods),
    ):
        pass
    monkeypatch.setattr(module, "read_addresses", lambda *_: [])
    with pytest.raises(InfrastructureError, match="no IPv4 address"):
        network._address(POD)


@pytest.mark.usefixtures("stacks")
def test_leases_are_kept_in_the_stack_and_each_node_is_told_the_way_to_the_others(path: Path) -> None:
    peers = [replace(NODE, name=f"n{i}", index=i, nics=(NIC, replace(NIC, name=f"data{i}"))) for i in range(3)]
    network = Cni(str(path))
    with network.prepare(peers[1], peers, "lab-3"):
        plugins = network._plugins(network.place, NIC, 0)
        routes = network._routes(peers[1], NIC)
        assert network._prefix(IPv4Interface("10.244.1.2/24")) == 22
    assert plugins[0]["ipam"]["dataDir"] == "/proc/7/root/run/cni-lab-3/leases"
    assert plugins[0]["ipam"]["subnet"] == "10.244.1.0/24"
    assert [(str(route.network), route.gateway, route.interface) for route in routes] == [
        ("10.244.0.0/24", NIC.address, NIC.name),
        ("10.244.2.0/24", NIC.address, NIC.name),
    ]
