"""Adapters are read from recorded trees, and CNI configurations of a user's are checked."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import make_node, make_pod
from tare.errors import InfrastructureError, RefusedError
from tare.networks.wiring import infiniband
from tare.networks.wiring.conflist import (
    VARIABLES,
    Conflist,
    Values,
    fill_in,
    fill_in_for_node,
    find_supernet,
    own_subnets,
    part_of,
    refuse,
)
from tare.networks.wiring.conflist_file import parse, read
from tare.system import devices
from tare.system.counters import interfaces, monitor
from tare.system.counters.values import CounterValues, HostWatch
from tare.system.node import SILENT_ROLE, Endpoint, Watch
from unit.sysfs import MLX5, SOFT, machine

NODE = make_node(pid=7)
POD = make_pod(NODE, pid=7)
WATCHES = Watch(pid=7, interface="data0", role="data NIC"), Watch(pid=7, interface="lo", role=SILENT_ROLE)
ENDPOINT = Endpoint(address="10.214.0.1", prefix=24, interface="data0", mtu=1500, watches=WATCHES)


def test_ports_are_read_and_those_that_are_down_or_missing_told(tmp_path: Path) -> None:
    dev, classes = machine(tmp_path)
    found = {port.name: port for port in infiniband.ports(classes)}
    assert list(found) == ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]
    assert [port.roce for port in found.values()] == [False, True, False]
    assert [port.interface for port in found.values()] == ["ib0", "ens1f1np1", "ib2"]
    assert {port.driver for port in found.values()} == {"mlx5_core"}
    assert found["mlx5_0:1"].words == "mlx5_0:1 (InfiniBand), 100 Gb/sec (4X EDR)"
    first, second, third = infiniband.ports(classes)
    every = (first, second, third), (second, third), (second, first)
    assert [infiniband.port_for("verbs", ports).name for ports in every] == ["mlx5_0:1", "mlx5_1:1", "mlx5_0:1"]
    down = infiniband.ports(classes)[2:]
    with pytest.raises(RefusedError, match=r"transport: verbs needs an active port \(mlx5_2:1 is 1: DOWN\)"):
        infiniband.port_for("verbs", down)
    with pytest.raises(RefusedError, match="transport: ofi:psm2 needs an hfi1 adapter, but this machine has none"):
        infiniband.port_for("ofi:psm2", infiniband.ports(classes))
    assert infiniband.probe("verbs", classes) is None
    assert infiniband.probe("ofi:efa", classes) is not None
    given = devices.find_infiniband(dev, classes)
    assert given == tuple(f"/dev/infiniband/{name}" for name in ("uverbs0", "uverbs1", "rdma_cm"))


def test_a_port_must_carry_the_messages_and_counts_in_words_for_all_its_hosts(tmp_path: Path) -> None:
    _, classes = machine(tmp_path)
    over = infiniband.over_port(ENDPOINT, "verbs", POD, classes)
    assert (over.port, over.roce, over.address) == ("mlx5_0:1", False, ENDPOINT.address)
    told = [(watch.interface, watch.role) for watch in over.watches]
    assert told == [("mlx5_0:1", "InfiniBand port"), ("data0", SILENT_ROLE), ("lo", SILENT_ROLE)]
    assert over.facts["port"].startswith("mlx5_0:1 (InfiniBand)")
    assert interfaces.port_counters("mlx5_0:1", classes) == (8000, 20, 4000, 10)
    assert interfaces.port_counters("mlx5_2:1", classes) is None
    watch = Watch(pid=0, interface="mlx5_0:1", role="InfiniBand port")
    places = [HostWatch(node=replace(NODE, name=name), pid=7, watches=(watch,)) for name in ("n0", "n1")]
    before = CounterValues(interfaces={("", 0, "mlx5_0:1"): (0, 0, 0, 0)})
    after = CounterValues(interfaces={("", 0, "mlx5_0:1"): (2000, 4, 2000, 4)})
    found = [(item.node, item.rx_bytes, item.tx_bytes) for item in monitor.traffic(places, before, after)]
    assert found == [("n0", 1000, 1000), ("n1", 1000, 1000)]


def test_packets_of_a_soft_adapter_pass_what_is_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, classes = machine(tmp_path, SOFT)
    monkeypatch.setattr(infiniband, "interfaces_in", lambda _: {"eth1": ("10.0.0.1", 24)})
    over = infiniband.over_port(replace(ENDPOINT, interface="eth1", watches=()), "verbs", POD, classes)
    assert over.watches == (Watch(pid=7, interface="eth1", role="interface under the RoCE port"),)
    assert infiniband.user_driver(infiniband.ports(classes)[0]) == "rxe"
    nothing = replace(infiniband.ports(classes)[0], interface="")
    with pytest.raises(InfrastructureError, match="nothing can prove"):
        infiniband.watch_of(nothing, POD)


def test_ip_over_infiniband_has_ib0_s_address_or_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, classes = machine(tmp_path)
    assert infiniband.ipoib_interfaces(classes) == ("ib0", "ib2")
    monkeypatch.setattr(infiniband, "interfaces_in", lambda _: {"ib0": ("10.9.0.1", 16), "data0": ("10.214.0.1", 24)})
    monkeypatch.setattr(infiniband, "mtu_of", lambda *_: 2044)
    over = infiniband.over_ipoib(ENDPOINT, POD, classes)
    assert (over.interface, over.address, over.prefix, over.mtu) == ("ib0", "10.9.0.1", 16, 2044)
    assert ("ib0", "IPoIB interface") in [(watch.interface, watch.role) for watch in over.watches]
    assert ("data0", SILENT_ROLE) in [(watch.interface, watch.role) for watch in over.watches]
    monkeypatch.setattr(infiniband, "interfaces_in", lambda _: {"data0": ("10.214.0.1", 24)})
    with pytest.raises(InfrastructureError, match="n0 has no IP over InfiniBand interface"):
        infiniband.over_ipoib(ENDPOINT, POD, classes)
    assert "needs an InfiniBand adapter" in str(infiniband.probe_ipoib(tmp_path))
    _, classes = machine(tmp_path / "a", SOFT)
    assert "modprobe ib_ipoib" in str(infiniband.probe_ipoib(classes))
    _, classes = machine(tmp_path / "b")
    assert infiniband.probe_ipoib(classes) is None


def image(folder: Path, *, driver: str = "mlx5", private: str = "34", library: bytes = b"\0rdmav34\0") -> Path:
    libraries = folder / "usr" / "lib" / "x86_64-linux-gnu"
    (libraries / "libibverbs").mkdir(parents=True)
    (libraries / "libibverbs.so.1.14.44.0").write_bytes(library)
    (libraries / "libibverbs.so.1").symlink_to("libibverbs.so.1.14.44.0")
    (libraries / "libmlx5.so.1.24.44.0").write_bytes(b"")
    (libraries / "libmlx5.so.1").symlink_to("libmlx5.so.1.24.44.0")
    (libraries / "libibverbs" / f"lib{driver}-rdmav{private}.so").write_bytes(b"")
    return folder


def test_an_image_with_the_driver_fits_and_what_another_lacks_is_told(tmp_path: Path) -> None:
    _, classes = machine(tmp_path / "sys")
    rootfs = image(tmp_path / "image")
    assert infiniband.unfit(rootfs, "verbs", classes) is None
    _, newer = machine(tmp_path / "newer", MLX5.replace("abi_version 6", "abi_version 7"))
    assert "is 7, but rdma-core supports 3 to 6" in str(infiniband.unfit(rootfs, "verbs", newer))
    (tmp_path / "none").mkdir()
    assert "no libibverbs: apt-get install" in str(infiniband.unfit(tmp_path / "none", "verbs", classes))
    other = image(tmp_path / "other", driver="mlx4")
    assert "no driver for mlx5_0 (libmlx5-rdmav*.so)" in str(infiniband.unfit(other, "verbs", classes))
    mixed = image(tmp_path / "mixed", private="25")
    assert "another rdma-core than its libibverbs" in str(infiniband.unfit(mixed, "verbs", classes))


HERE = Values(node=1, nodes=2, nic_name="data3", nic=IPv4Interface("10.214.3.2/24"), mtu=9000, pod=2)
LAB = ((IPv4Network("10.213.0.0/16"), "the lab's"),)


def stated(*plugins: dict[str, Any], **more: Any) -> Conflist:
    text = json.dumps({"cniVersion": "1.0.0", "name": "mine", "plugins": list(plugins), **more})
    return parse(text, "mine.conflist")


def host_local(**ipam: Any) -> dict[str, Any]:
    return {"type": "macvlan", "master": "${nic}", "ipam": {"type": "host-local", **ipam}}


def static(*addresses: str) -> dict[str, Any]:
    return {"type": "ptp", "ipam": {"type": "static", "addresses": [{"address": each} for each in addresses]}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "x",\n "plugins": [}', "x.conflist:2:14: this is not valid JSON"),
        ("[]", "is an object"),
        ("{}", '"name" must be a word'),
        ('{"name": "a b", "plugins": [{"type": "ptp"}]}', '"name" must be a word'),
        ('{"name": "x"}', "it has no plug-ins"),
        ('{"name": "x", "plugins": []}', "it has no plug-ins"),
        ('{"name": "x", "plugins": {}}', "it has no plug-ins"),
        ('{"name": "x", "plugins": [{"type": "ptp"}, {}]}', 'plug-in 2 of 2 has no "type"'),
        ('{"name": "x", "plugins": [{"type": "../../bin/sh"}]}', "no name of a program"),
        ('{"name": "x", "plugins": [{"type": "ptp", "ipam": []}]}', '(ptp): "ipam" must be an object'),
        ('{"name": "x", "plugins": [{"type": "ptp", "ipam": {"type": "a/b"}}]}', "no name of a program"),
        ('{"name": "x", "type": "ptp", "cniVersion": 1}', '"cniVersion" must be a version'),
        ('{"name": "x", "type": "ptp", "cniVersion": "${cidr}"}', '"cniVersion" must be a version'),
        ('{"name": "x", "type": "ptp", "mtu": "${mtv}"}', "unknown variable ${mtv} (allowed: ${node}"),
        ('{"name": "x", "type": "ptp", "ipam": {"type": "host-local", "subnet": "10.300.0.0/16"}}', "is not a subnet"),
        ("[" * 100_000, "nested too deeply"),
        ('{"name": "x", "type": "ptp", "a": ' + "[" * 40 + "]" * 40 + "}", "nested too deeply"),
        ('{"name": "x", "type": "ptp", "mtu": ' + "9" * 5000 + "}", "this is not valid JSON"),
        ('{"name": "x", "type": "ptp", "mtu": NaN}', "NaN is not a JSON number"),
        ('{"name": "x", "type": "ptp", "mtu": 1e999}', "1e999 is not a JSON number"),
        (json.dumps({"name": "x", "type": "a" * 5000}), f"the \"type\" '{'a' * 80}...' is no name of a program"),
        (json.dumps({"name": "x", "type": "ptp", "ipam": {"type": "b" * 5000}}), "is no name of a program"),
        (json.dumps({"name": "a" * 5000, "type": "ptp"}), '"name" must be a word'),
        (json.dumps({"name": "x", "plugins": [{"type": "ptp"}] * 40}), "it has 40 plug-ins; at most 32 are allowed"),
        (json.dumps({"name": "x", "type": "ptp", "mtu": "${\x1b[2J}"}), r"unknown variable ${\x1b[2J}"),
        (json.dumps(host_local(subnet="7" * 5000) | {"name": "x"}), f"'{'7' * 80}...' is not a subnet"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_told_with_its_file(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^x\.conflist") as caught:
        parse(text, "x.conflist")
    assert words in str(caught.value)


def test_what_cannot_be_read_is_no_configuration_and_told(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b'{"name":\n "\xe4"}')
    (tmp_path / "large").write_bytes(b" " * (2 << 20))
    for name, words in (
        ("none", "none not found"),
        ("", "is a folder"),
        ("latin", "latin:2: byte 0xe4 is not UTF-8"),
        ("large", "it is not a CNI configuration"),
        ("\0", "cannot be read"),
    ):
        with pytest.raises(ValueError, match=r"\S") as caught:
            read(f"{tmp_path}/{name}" if name else str(tmp_path))
        assert words in str(caught.value)
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", "/dev/full", str(tmp_path / "pipe")):
        with pytest.raises(ValueError, match="cannot be read: it is not a regular file"):
            read(path)
    (tmp_path / "endless").touch()
    os.truncate(tmp_path / "endless", 1 << 40)
    with pytest.raises(ValueError, match="it is not a CNI configuration"):
        read(str(tmp_path / "endless"))


def test_a_chain_of_one_gets_values_for_its_variables_and_tells_of_its_nic() -> None:
    one = parse('{"name": "x", "type": "ptp", "ipam": {"type": "static"}}', "x.conf")
    assert one.programs == ("ptp", "static")
    (plugin,) = fill_in(one, HERE)
    assert plugin["name"] == "x"
    assert "cniVersion" not in plugin
    plugin = {"type": "x", "all": [f"${{{name}}}" for name in VARIABLES], "text": "${node}-${mtu}-${nic}"}
    (made,) = fill_in(stated(plugin), HERE)
    values = dict(zip(VARIABLES, made["all"], strict=True))
    assert values == {
        "node": 1, "nodes": 2, "pod": 2, "nic": "data3", "mtu": 9000,
        "address": "10.214.3.2", "cidr": "10.214.3.2/24", "subnet": "10.214.3.0/24",
    }  # fmt: skip
    assert (made["text"], (made["name"], made["cniVersion"])) == ("1-9000-data3", ("mine", "1.0.0"))
    plain, taking = stated(host_local(subnet="10.50.0.0/24")), stated(static("${cidr}"))
    assert (plain.takes_subnet, plain.takes_address, plain.moves_nic) == (False, False, False)
    assert (taking.takes_subnet, taking.takes_address) == (True, True)
    assert stated(host_local(subnet="${subnet}")).takes_subnet
    assert not stated(host_local(subnet="${subnet}")).takes_address
    assert stated({"type": "host-device", "device": "${nic}"}).moves_nic


def leased(conflist: Conflist, node: int, nodes: int) -> set[IPv4Address]:
    """Return the addresses that host-local can hand out on a node."""
    (plugin,) = fill_in_for_node(conflist, Values(node=node, nodes=nodes), "/leases")
    ipam = plugin["ipam"]
    assert ipam["dataDir"] == "/leases"
    found = set()
    for one in [ipam] if "subnet" in ipam else [each for group in ipam["ranges"] for each in group]:
        hosts = list(IPv4Network(one["subnet"]).hosts())
        first, last = IPv4Address(one.get("rangeStart", hosts[0])), IPv4Address(one.get("rangeEnd", hosts[-1]))
        found |= {host for host in hosts if first <= host <= last}
    return found


@pytest.mark.parametrize("nodes", [2, 3, 7])
@pytest.mark.parametrize(
    "ipam",
    [
        {"subnet": "10.50.0.0/24"},
        {"ranges": [[{"subnet": "10.50.0.0/24"}, {"subnet": "10.51.0.0/28"}]]},
        {"subnet": "10.50.0.0/24", "rangeStart": "10.50.0.100", "rangeEnd": "10.50.0.140"},
        {"subnet": "10.50.${node}.0/24"},
        {"subnet": "10.50.0.0/24", "routes": [{"dst": "10.9.${node}.0/24"}]},
    ],
)
def test_no_two_nodes_hand_out_the_same_address(ipam: dict[str, Any], nodes: int) -> None:
    found = [leased(stated(host_local(**ipam)), node, nodes) for node in range(nodes)]
    assert all(found)
    assert len(set().union(*found)) == sum(map(len, found))


def test_one_node_has_its_range_whole_and_one_network_covers_those_of_all() -> None:
    assert len(leased(stated(host_local(subnet="10.50.0.0/24")), 0, 1)) == 254
    routed = stated(host_local(subnet="10.244.${node}.0/24"))
    assert own_subnets(routed, 2) == ((IPv4Network("10.244.0.0/24"),), (IPv4Network("10.244.1.0/24"),))
    assert own_subnets(stated(static("${cidr}")), 2) == ((), ())
    networks = [IPv4Network(f"10.244.{node}.0/24") for node in range(3)]
    assert find_supernet(networks) == IPv4Network("10.244.0.0/22")
    assert find_supernet([]) is None


@given(st.integers(16, 30), st.integers(1, 64))
def test_parts_of_a_range_are_in_it_and_equal_or_it_is_told_to_be_too_small(prefix: int, parts: int) -> None:
    network = IPv4Network(f"10.50.0.0/{prefix}")
    if network.num_addresses - 3 < parts:
        with pytest.raises(ValueError, match="too few addresses for"):
            part_of({"subnet": str(network)}, 0, parts)
        return
    made = [part_of({"subnet": str(network)}, index, parts) for index in range(parts)]
    bounds = [int(IPv4Address(each[key])) for each in made for key in ("rangeStart", "rangeEnd")]
    assert bounds == sorted(bounds)
    assert len({last - first for first, last in zip(bounds[::2], bounds[1::2], strict=True)}) == 1
    assert IPv4Address(bounds[0]) in network
    assert IPv4Address(bounds[-1]) in network
    assert bounds[-1] < int(network.broadcast_address)


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (static("10.50.0.2/24"), "gives 10.50.0.2/24 to a pod on every node"),
        (host_local(subnet="10.213.7.0/24"), "overlaps 10.213.0.0/16, which is the lab's"),
        (host_local(subnet="10.50.0.0/30"), "too few addresses for 2 nodes"),
        (host_local(subnet="172.20.${node}.0/24"), "overlaps 172.20.1.0/25, which is a route"),
        (host_local(ranges=[[{"subnet": "10.2${node}0.0.0/24"}]]), "lie too far apart"),
        (host_local(subnet="10.50.0.0/24", rangeStart="x"), "Expected 4 octets"),
    ],
)
def test_addresses_that_cannot_be_are_refused_before_anything_is_made(plugin: dict[str, Any], words: str) -> None:
    host = ((IPv4Network("172.20.1.0/25"), "a route"),)
    reason = refuse(stated(plugin), 2, lab=LAB, host=host)
    assert reason is not None
    assert words in reason
    assert reason.count("mine.conflist") == 1


@pytest.mark.parametrize(
    "plugin",
    [
        static("${cidr}"),
        static("10.50.0.1${node}/24"),
        host_local(subnet="${subnet}"),
        host_local(subnet="10.50.0.0/24"),
        host_local(subnet="10.244.${node}.0/24"),
        host_local(ranges=[[{"subnet": "fd00::/64"}], [{"subnet": "10.50.0.0/24"}]]),
        {"type": "ptp"},
    ],
)
def test_addresses_that_can_be_are_not_refused(plugin: dict[str, Any]) -> None:
    assert refuse(stated(plugin), 2, lab=LAB) is None
