"""No path is added: a network of ours has the links, routes and rules of the same network made with ip by hand."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.live import lab_site, live, settled, wait_for
from integration.node_state import rules_of, shown
from tare.cluster.lab_site import LabSite
from tare.deploy.pods import deployed
from tare.host.namespaces import hold
from tare.model import Environment, Placement
from tare.node_service.order import Files

pytestmark = live("cni", "nftables", "iptables")

KEPT = (
    "mtu", "qdisc", "operstate", "linkmode", "group", "link_type", "promiscuity", "num_tx_queues",
    "num_rx_queues", "gso_max_size", "gso_max_segs",
)  # fmt: skip
"""What a link says of itself that packets could notice; not its address and number, which are drawn anew.

CNI's plug-ins give an interface a queue of length 0 where ip gives it 1000; none of them has a queue (`noqueue`).
"""
DRAWN = ("port_id", "port_no", "designated_port", "designated_bridge", "root_id", "bridge_id", "designated_root")
TIMERS = ("timer", "_time", "_age")


def ip(pid: int, command: str) -> None:
    shown(pid, "ip", *command.split())


def bridge_by_hand(node: int, pod: int, address: str) -> None:
    ip(node, "link add tarebr-data1 type bridge")
    ip(node, "address flush dev data1")
    ip(node, "link set data1 master tarebr-data1 up")
    ip(node, "link set tarebr-data1 up")
    ip(node, f"link add veth0 type veth peer eth0 netns {pod}")
    ip(node, "link set veth0 master tarebr-data1 up")
    ip(pod, f"address add {address} dev eth0")
    ip(pod, "link set eth0 up")


def macvlan_by_hand(node: int, pod: int, address: str) -> None:
    ip(node, "address flush dev data1")
    ip(node, f"link add link data1 name eth0 netns {pod} type macvlan mode bridge")
    ip(pod, f"address add {address} dev eth0")
    ip(pod, "link set eth0 up")


def direct_by_hand(node: int, pod: int, address: str) -> None:
    ip(node, "address flush dev data1")
    ip(node, f"link set data1 down netns {pod}")
    ip(pod, "link set data1 name eth0")
    ip(pod, f"address add {address} dev eth0")
    ip(pod, "link set eth0 up")


BY_HAND: dict[str, Callable[[int, int, str], None]] = {
    "bridge": bridge_by_hand,
    "macvlan": macvlan_by_hand,
    "direct": direct_by_hand,
}


def seen(pid: int) -> dict[str, Any]:
    """Return the links, addresses, routes and rules of a network namespace, without what is drawn anew."""
    links = {}
    for link in json.loads(shown(pid, "ip", "-json", "-details", "link")):
        if link["ifname"] in ("lo", "ctl0"):  # the control network is tare's own, beside the path
            continue
        info = link.get("linkinfo", {})
        name = "veth" if link["ifname"].startswith("veth") else link["ifname"]
        links[name] = {
            **{key: link.get(key) for key in KEPT},
            "flags": sorted(link["flags"]),
            "master": link.get("master"),
            "kind": info.get("info_kind"),
            "data": _steady(info.get("info_data", {})),
            "port": _steady(info.get("info_slave_data", {})),
        }
    return {
        "links": links,
        "addresses": sorted(
            f"{link['ifname']} {address['local']}/{address['prefixlen']} {address['scope']}"
            for link in json.loads(shown(pid, "ip", "-json", "-4", "address"))
            if link["ifname"] not in ("lo", "ctl0")
            for address in link.get("addr_info", ())
        ),
        "routes": sorted(
            " ".join(line.split())
            for line in shown(pid, "ip", "-4", "route", "show", "table", "all").splitlines()
            if "ctl0" not in line and "dev lo" not in line
        ),
        "rules": shown(pid, "ip", "rule"),
        "nft": rules_of(pid),
        "tc": sorted(line.split(" dev ")[0] for line in shown(pid, "tc", "qdisc").splitlines() if "ctl0" not in line),
        "offloads": offloads(pid),
    }


def offloads(pid: int) -> dict[str, str]:
    """Return what the pod's interface leaves to its other end, where there is one."""
    names = {link["ifname"] for link in json.loads(shown(pid, "ip", "-json", "link"))}
    if "eth0" not in names:
        return {}
    lines = [line.partition(":") for line in shown(pid, "ethtool", "--show-features", "eth0").splitlines()[1:]]
    return {name.strip(): value.strip() for name, _, value in lines}


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a tree by their paths, so that a difference is told by its name."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return found


def _steady(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in DRAWN and not any(part in key for part in TIMERS)}


@contextmanager
def pod_by_hand(site: LabSite, number: int) -> Iterator[int]:
    """Hold an empty network namespace in the cgroup of a node."""
    node = site.nodes[number]
    spec = {"new": ["net"], "cgroups": [str(folder) for folder in node.group.leaf.folders]}
    pid = hold(f"tare:{site.name}:by-hand", spec)
    try:
        ip(pid, "link set lo up")
        yield pid
    finally:
        subprocess.run(["kill", "-9", str(pid)], check=True)


@pytest.mark.requires("ethtool")
@pytest.mark.parametrize("network", BY_HAND)
def test_a_network_is_what_the_same_network_is_by_hand(network: str) -> None:
    wanted = Environment(name="it", runtime="bare", network=network)
    with lab_site(nics=2) as site:
        node = site.nodes[0]
        with deployed(site, wanted, Placement(), slot=0, nic=1, files=Files(host_prefix=Path("/"))) as up:
            side = up.sides[0]
            wait_for(lambda: settled(node.pid) and settled(side.pod.pid), "carriers")
            ours = seen(node.pid), seen(side.pod.pid)
            address = f"{side.endpoint.address}/{side.endpoint.prefix}"
    with lab_site(nics=2) as site, pod_by_hand(site, 0) as pod:
        node = site.nodes[0]
        BY_HAND[network](node.pid, pod, address)
        wait_for(lambda: settled(node.pid) and settled(pod), "carriers")
        theirs = seen(node.pid), seen(pod)
    for where, one, other in zip(("node", "pod"), ours, theirs, strict=True):
        for what, value in flat(one).items():
            assert value == flat(other).get(what), f"{what} of the {where}"
        assert set(flat(one)) == set(flat(other)), where
