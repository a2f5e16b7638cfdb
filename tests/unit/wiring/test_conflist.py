"""CNI configurations of a user's: what is wrong is told with its place, and no two nodes hand out the same address."""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.wiring.conflist import (
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
from tare.wiring.conflist_file import parse, read

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


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "plugins", "type", "ipam", "subnet", "ranges", "addresses", "address", "cniVersion"]
                ),
                inner,
            )
        ),
    )
)
def test_any_json_is_a_configuration_or_told_what_is_wrong_with_it(value: Any) -> None:
    told = ""
    try:
        told = refuse(parse(json.dumps(value), "x"), 2, lab=LAB) or ""
    except ValueError as error:
        told = str(error)
    assert not told or "x" in told


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
    assert made["text"] == "1-9000-data3"
    assert (made["name"], made["cniVersion"]) == ("mine", "1.0.0")
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
