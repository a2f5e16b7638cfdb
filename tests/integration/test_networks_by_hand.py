"""No path is added: a network of ours has the links, routes and rules of the same network made with ip by hand."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.live import lab_site, live, settled, wait_for
from integration.node_state import rules_of, shown
from tare.clusters.lab_site import LabSite
from tare.model import Environment, Placement
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.system.namespaces import hold

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
BY_HAND = {
    "bridge": """
        node: link add tarebr-data1 type bridge
        node: address flush dev data1
        node: link set data1 master tarebr-data1 up
        node: link set tarebr-data1 up
        node: link add veth0 type veth peer eth0 netns {pod}
        node: link set veth0 master tarebr-data1 up""",
    "macvlan": """
        node: address flush dev data1
        node: link add link data1 name eth0 netns {pod} type macvlan mode bridge""",
    "direct": """
        node: address flush dev data1
        node: link set data1 down netns {pod}
        pod: link set data1 name eth0""",
}
ADDRESS = """
        pod: address add {address} dev eth0
        pod: link set eth0 up"""


def seen(pid: int) -> dict[str, Any]:
    """Return the links, addresses, routes and rules of a network namespace, without what is drawn anew."""
    found: dict[str, Any] = {"addresses": []}
    links = [link for link in json.loads(shown(pid, "ip", "-json", "-details", "address")) if link["ifname"] != "lo"]
    for link in links:
        if link["ifname"] == "ctl0":  # tare's control network, which is not on the path
            continue
        name = "veth" if link["ifname"].startswith("veth") else link["ifname"]
        info = link.get("linkinfo", {})
        found |= {f"{name}: {key}": link.get(key) for key in (*KEPT, "master")}
        found |= {f"{name}: flags": sorted(link["flags"]), f"{name}: kind": info.get("info_kind")}
        for part in ("info_data", "info_slave_data"):
            steady = {key: value for key, value in info.get(part, {}).items() if key not in DRAWN}
            found |= {f"{name}: {key}": steady[key] for key in steady if not any(timer in key for timer in TIMERS)}
        of_4 = [each for each in link["addr_info"] if each["family"] == "inet"]
        found["addresses"] += [f"{name} {each['local']}/{each['prefixlen']} {each['scope']}" for each in of_4]
    routes = shown(pid, "ip", "-4", "route", "show", "table", "all").splitlines()
    found["routes"] = sorted(" ".join(line.split()) for line in routes if "ctl0" not in line and "dev lo" not in line)
    found["rules"] = shown(pid, "ip", "rule")
    found["nft"] = rules_of(pid)
    queues = shown(pid, "tc", "qdisc").splitlines()
    found["tc"] = sorted(line.split(" dev ")[0] for line in queues if "ctl0" not in line)
    if any(link["ifname"] == "eth0" for link in links):  # what the interface of a pod leaves to its other end
        found["offloads"] = shown(pid, "ethtool", "--show-features", "eth0")
    return found


@contextmanager
def pod_by_hand(site: LabSite, number: int) -> Iterator[int]:
    """Hold an empty network namespace in the cgroup of a node."""
    spec = {"new": ["net"], "cgroups": [str(folder) for folder in site.nodes[number].group.leaf.folders]}
    pid = hold(f"tare:{site.name}:by-hand", spec)
    try:
        shown(pid, "ip", "link", "set", "lo", "up")
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.requires("ethtool")
@pytest.mark.parametrize("network", BY_HAND)
def test_a_network_is_what_the_same_network_is_by_hand(network: str) -> None:
    wanted = Environment(name="it", runtime="bare", network=network)
    with lab_site(nics=2) as site:
        node = site.nodes[0]
        with deployed(site, wanted, Placement(), slot=0, nic=1, files=Files(host_prefix=Path("/"))) as up:
            pod = up.pods[0]
            wait_for(lambda: settled(node.pid) and settled(pod.pid), "carriers")
            ours = seen(node.pid), seen(pod.pid)
            address = f"{pod.endpoint.address}/{pod.endpoint.prefix}"
    with lab_site(nics=2) as site, pod_by_hand(site, 0) as pod:
        node = site.nodes[0]
        for line in (BY_HAND[network] + ADDRESS).strip().splitlines():
            where, _, command = line.strip().format(pod=pod, address=address).partition(": ")
            shown(pod if where == "pod" else node.pid, "ip", *command.split())
        wait_for(lambda: settled(node.pid) and settled(pod), "carriers")
        theirs = seen(node.pid), seen(pod)
    for where, one, other in zip(("node", "pod"), ours, theirs, strict=True):
        differ = {key: (one.get(key), other.get(key)) for key in {*one, *other} if one.get(key) != other.get(key)}
        assert differ == {}, where
