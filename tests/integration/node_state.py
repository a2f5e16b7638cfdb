"""The network of a node as it is seen from outside: links, addresses, routes, rules, and whether pods answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from integration.live import wait_for
from tare.deploy.hosts import Deployed
from tare.host.ping import ping
from tare.node import Node

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
        "processes": sorted(filter(None, map(program, node.group.pids()))),
    }


def wait_for_steady(nodes: Sequence[Node]) -> None:
    """Wait until nodes are the same for half a second: daemons tidy up after they have answered."""
    states: list[list[dict[str, Any]]] = []

    def same() -> bool:
        time.sleep(0.5 if states else 0.0)
        states.append([state_of(node) for node in nodes])
        return len(states) > 1 and states[-1] == states[-2]

    wait_for(same, "steady state")


def rules_of(pid: int) -> list[str]:
    """Return the rules of nftables, and of iptables on top of it, without what they have counted.

    The jump to DOCKER-USER, dockerd's chain for user rules, is left out. dockerd removes it and adds it back whenever
    it creates a network, in two steps and without a lock. When it creates two networks at once, as for an overlay and
    its docker_gwbridge, the jump stays removed. The rules in the chain itself are compared like all others.
    """
    lines = re.sub(r"packets \d+ bytes \d+", "", shown(pid, "nft", "list", "ruleset")).splitlines()
    return [line for line in lines if not line.endswith("jump DOCKER-USER")]


def program(pid: int) -> str:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    except OSError:
        return ""


def are_as_before(nodes: Sequence[Node], before: Sequence[dict[str, Any]], limit_s: float = 10.0) -> None:
    """Hold nodes to be soon as they were, or tell what of them is not."""
    until = time.monotonic() + limit_s
    for node, had in zip(nodes, before, strict=True):
        while (now := state_of(node)) != had and time.monotonic() < until:
            time.sleep(0.05)
        assert {key: (had[key], now[key]) for key in had if had[key] != now[key]} == {}, node.name


def reach_each_other(up: Deployed) -> None:
    """Hold the pods to answer each other, with packets that fill the MTU and with none that is larger."""
    for one, other in (up.sides, up.sides[::-1]):
        pid, here, there = one.pod.pid, one.endpoint, other.endpoint
        assert here.address != there.address
        assert ping(pid, there.address, count=3, source=here.address), "nobody answers"
        told = json.loads(shown(pid, "ip", "-json", "link", "show", here.interface))
        assert told[0]["mtu"] == here.mtu
        nic = one.pod.node.nics[0].mtu
        assert nic - 150 <= here.mtu <= nic, "an MTU is the NIC's, less what its headers take"
        assert ping(pid, there.address, count=2, packet_bytes=here.mtu, source=here.address), "a full packet is lost"
        assert not ping(pid, there.address, count=1, packet_bytes=here.mtu + 4, timeout_s=0.2, source=here.address)
