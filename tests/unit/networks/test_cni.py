"""`cni:PATH`: the chain of plug-ins, what it is told, and what is undone; no plug-in is called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.errors import CommandFailed, InfrastructureError, RefusedError
from tare.networks import cni as module
from tare.networks import find
from tare.networks.cni import Cni, call_chain, probe_plugins, routes_of_machine
from tare.node import Endpoint, Nic, Node, Wired
from tare.services.daemons import Place
from tare.wiring import plug
from tare.wiring.conflist_file import read

NIC = Nic(name="data1", address="10.214.1.2", prefix=24, mtu=9000)
NODE = make_node(1, nics=(Nic(name="data0", address="10.214.0.2", prefix=24), NIC))
POD = make_pod(NODE, name="tare-lab-1-n1", own_network=True)

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


def test_plugins_are_given_results_from_cni_0_4_on_and_undone_in_reverse(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_where_a_plugin_fails_all_before_it_are_undone_and_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_plugin_that_is_missing_is_named_with_the_folders_and_what_brings_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.setattr("tare.wiring.stacked.host_stack", host_stack)


def test_a_pod_without_an_address_and_two_pods_with_one_are_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
