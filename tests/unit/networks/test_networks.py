"""What networks share: CNI's call and its failures, addresses, and a NIC that is given back whole."""

from __future__ import annotations

import ipaddress
import json
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.errors import CommandFailed, InfrastructureError
from tare.host.process import Result
from tare.networks import NETWORKS
from tare.networks.fake import FACTORS
from tare.networks.overlay import network_name, overlay_address
from tare.node import SILENT_ROLE, Nic
from tare.wiring import plug
from tare.wiring.plug import (
    call_cni,
    carriers,
    cni_folders,
    cni_plugin,
    config,
    probe_cni,
    silent,
    wire_by_cni,
    without_address,
)

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
    """Stands for `tare.host.process.run` and answers as a plug-in would."""

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


def test_plugins_are_looked_for_where_cni_path_says_and_missing_ones_named(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cni_folders() == (plugins,)
    assert cni_plugin("bridge") == plugins / "bridge"
    assert cni_plugin("nowhere") is None
    assert probe_cni("bridge", "static") is None
    reason = probe_cni("bridge", "macvlan", "ipvlan")
    assert reason == "CNI plug-in macvlan, ipvlan is missing: apt-get install containernetworking-plugins"
    monkeypatch.setattr(plug, "CNI_FOLDERS", ())
    monkeypatch.delenv("CNI_PATH", raising=False)
    with pytest.raises(InfrastructureError, match="apt-get install containernetworking-plugins"):
        call_cni("ADD", config("bridge", NIC), POD)


def test_a_plugin_is_called_in_the_network_namespace_of_its_node_with_its_configuration(
    plugins: Path, spy: Spy
) -> None:
    call_cni("ADD", config("bridge", NIC, bridge="tarebr"), POD)
    (call,) = spy.calls
    assert call.argv == ("nsenter", "--net=/proc/1/ns/net", "--", str(plugins / "bridge"))
    assert {k: v for k, v in call.env.items() if k.startswith("CNI_")} == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "tare-lab-1-n1",
        "CNI_NETNS": "/proc/1/ns/net",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(plugins),
    }
    sent = json.loads(call.stdin)
    assert (sent["type"], sent["bridge"]) == ("bridge", "tarebr")
    assert sent["ipam"] == {"type": "static", "addresses": [{"address": "10.214.1.2/24"}]}


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ('{"code": 11, "msg": "no such device", "details": "data1"}', "", "no such device: data1 (code 11)"),
        ("not json", "", "not json"),
        ("", "segmentation fault", "segmentation fault"),
    ],
)
def test_a_failing_plugin_is_told_with_its_own_words_the_pod_and_the_node(
    plugins: Path, spy: Spy, stdout: str, stderr: str, words: str
) -> None:
    spy.answer = (1, stdout, stderr)
    with pytest.raises(CommandFailed) as caught:
        call_cni("ADD", config("bridge", NIC), POD)
    assert str(caught.value) == f"CNI bridge ADD for tare-lab-1-n1 on n1 failed: {words}"


def test_a_plugin_that_says_nothing_is_told_so_and_a_pod_is_unplugged_all_the_same(plugins: Path, spy: Spy) -> None:
    spy.answer = (2, "", "")
    with pytest.raises(CommandFailed) as caught:
        call_cni("ADD", config("bridge", NIC), POD, " (2 of 3 in x.conflist)")
    told = "CNI bridge (2 of 3 in x.conflist) ADD for tare-lab-1-n1 on n1 failed: no output"
    assert str(caught.value) == told
    spy.answer = (0, "{}", "")
    with pytest.raises(KeyboardInterrupt), wire_by_cni(POD, config("bridge", NIC)):
        raise KeyboardInterrupt
    assert [call.env["CNI_COMMAND"] for call in spy.calls] == ["ADD", "ADD", "DEL"]
    assert spy.calls[1].stdin == spy.calls[2].stdin


def test_a_pod_that_is_gone_is_told_of_no_namespace_or_not_unplugged(plugins: Path, spy: Spy) -> None:
    call_cni("DEL", config("bridge", NIC), replace(POD, pid=2**30))
    assert spy.calls[0].env["CNI_NETNS"] == ""
    with wire_by_cni(replace(POD, pid=2**30), config("bridge", NIC)):
        pass
    assert [call.env["CNI_COMMAND"] for call in spy.calls] == ["DEL", "ADD"]


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


def test_watches_say_what_carries_and_what_stays_silent() -> None:
    assert [(w.pid, w.interface, w.role) for w in carriers((5, "eth0", "veth"))] == [(5, "eth0", "veth")]
    assert {(w.interface, w.role) for w in silent(5)} == {("lo", SILENT_ROLE), ("ctl0", SILENT_ROLE)}
    with NETWORKS["host"].attach(POD, NIC) as endpoint:
        assert (endpoint.address, endpoint.interface, endpoint.mtu) == ("10.214.1.2", "data1", 9000)
        assert [w.interface for w in endpoint.watches if w.role != SILENT_ROLE] == ["data1"]
        assert {w.interface for w in endpoint.watches if w.role == SILENT_ROLE} == {"lo", "ctl0"}


def test_each_fake_network_has_a_subnet_whose_cost_is_known() -> None:
    costs = {}
    for name in ("fake", "fake-slow"):
        with NETWORKS[name].attach(POD, NIC) as endpoint:
            costs[name] = FACTORS[f"{endpoint.address.rsplit('.', 1)[0]}.0/{endpoint.prefix}"]
    assert costs == {"fake": 1.0, "fake-slow": 1.5}
