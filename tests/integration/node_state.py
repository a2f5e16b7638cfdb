"""The network of a node as it is seen from outside: links, addresses, routes, rules, and whether pods answer."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tare.networks.wiring.ping import ping
from tare.run.deploy.hosts import Deployed
from tare.system.namespaces import inside_network
from tare.system.node import Node
from waiting import wait_until

LONG_S = 60.0
"""How long an echo may take: longer than a busy machine takes."""
GATEWAY = "docker_gwbridge"
"""What a daemon makes with its first overlay, and keeps."""
CARRIER = ("NO-CARRIER", "LOWER_UP")
"""Whether a bridge has anyone at its ports now: docker_gwbridge loses its carrier some time after its last one."""


def shown(pid: int, *argv: str) -> str:
    """Return what a program says in the network namespace of a process."""
    done = subprocess.run(
        ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *argv], capture_output=True, text=True, check=True
    )
    return done.stdout


def state_of(node: Node) -> dict[str, Any]:
    """Return all of a node's network that could be left behind, and the programs that run on it."""
    links = {
        link["ifname"]: (
            link.get("linkinfo", {}).get("info_kind"),
            link["mtu"],
            link.get("master"),
            [flag for flag in link["flags"] if flag not in CARRIER],
        )
        for link in json.loads(shown(node.pid, "ip", "-json", "-details", "link"))
    }
    return {
        "links": links,
        "addresses": sorted(
            f"{link['ifname']} {address['local']}/{address['prefixlen']}"
            for link in json.loads(shown(node.pid, "ip", "-json", "-4", "address"))
            for address in link.get("addr_info", ())
        ),
        "routes": sorted(
            " ".join(word for word in line.split() if word != "linkdown")
            for line in shown(node.pid, "ip", "-4", "route", "show", "table", "all").splitlines()
        ),
        "rules": shown(node.pid, "ip", "rule"),
        "nft": sorted(rules_of(node.pid)),
        "tc": sorted(shown(node.pid, "tc", "qdisc").splitlines()),
        "forwards": shown(node.pid, "cat", "/proc/sys/net/ipv4/ip_forward"),
        "processes": sorted(filter(None, (argv_of(pid)[0] for pid in node.group.pids()))),
    }


def has_settled(node: Node, before: dict[str, Any]) -> bool:
    """Return whether an overlay is gone but for what a daemon keeps: its gateway bridge, with Swarm's ingress at it.

    dockerd tidies up after it has answered.
    """
    links = state_of(node)["links"].keys() - before["links"].keys() - {GATEWAY}
    has_ingress = Path(f"/proc/{node.pid}/root/run/docker/netns/ingress_sbox").exists()
    return len(links) <= has_ingress


def steady_state_of(node: Node) -> dict[str, Any]:
    """Return the state of a node once it is the same twice: a daemon starts programs that end at once."""
    seen: list[dict[str, Any]] = [{}]

    def is_steady() -> bool:
        seen.append(state_of(node))
        return seen[-1] == seen[-2]

    wait_until(is_steady, f"a steady state of {node.name}")
    return seen[-1]


def rules_of(pid: int) -> list[str]:
    """Return the rules of nftables, and of iptables on top of it, without what they have counted.

    The jump to DOCKER-USER, dockerd's chain for user rules, is left out. dockerd removes it and adds it back whenever
    it creates a network, in two steps and without a lock. When it creates two networks at once, as for an overlay and
    its docker_gwbridge, the jump stays removed. The rules in the chain itself are compared like all others.
    """
    lines = re.sub(r"packets \d+ bytes \d+", "", shown(pid, "nft", "list", "ruleset")).splitlines()
    return [line for line in lines if not line.endswith("jump DOCKER-USER")]


def argv_of(pid: int) -> list[str]:
    """Return the argv of a process, and one empty word of one that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return [""]


def are_as_before(nodes: Sequence[Node], before: Sequence[dict[str, Any]]) -> None:
    """Wait until nodes are as they were; the last differences are printed for a test that waits in vain."""
    for node, had in zip(nodes, before, strict=True):
        told: dict[str, Any] = {}

        def same(node: Node = node, had: dict[str, Any] = had, told: dict[str, Any] = told) -> bool:
            now = state_of(node)
            if (differs := {key: (had[key], now[key]) for key in had if had[key] != now[key]}) != told:
                print(f"{node.name}, with what it was before: {differs}")
                told.clear()
                told.update(differs)
            return not differs

        wait_until(same, f"{node.name} as it was")


def reach_each_other(up: Deployed) -> None:
    """Hold the pods to answer each other, with packets that fill the MTU and with none that is larger."""
    for one, other in (up.pods, up.pods[::-1]):
        pid, here, there = one.pid, one.endpoint, other.endpoint
        assert here.address != there.address
        assert ping(pid, there.address, count=3, timeout_s=LONG_S, source=here.address), "nobody answers"
        told = json.loads(shown(pid, "ip", "-json", "link", "show", here.interface))
        assert told[0]["mtu"] == here.mtu
        nic = one.node.nics[0].mtu
        assert nic - 150 <= here.mtu <= nic, "an MTU is the NIC's, less what its headers take"
        full = ping(pid, there.address, count=2, packet_bytes=here.mtu, timeout_s=LONG_S, source=here.address)
        assert full, "a full packet is lost"
        assert not ping(pid, there.address, count=1, packet_bytes=here.mtu + 4, timeout_s=0.2, source=here.address)


def send(sender: int, receiver: int, address: str, count: int) -> None:
    """Send bytes by TCP from one network namespace to an address of another one."""
    with inside_network(receiver):
        server = socket.create_server((address, 0))
    with inside_network(sender):
        client = socket.socket()
    with server, client, ThreadPoolExecutor(1) as other:
        client.connect(server.getsockname())
        with server.accept()[0] as sink:
            sent = other.submit(client.sendall, bytes(count))
            while count > 0:
                count -= len(sink.recv(1 << 20))
            sent.result()
