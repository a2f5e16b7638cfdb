"""BIRD 2 spreads the routes to pods between nodes over BGP, as in Calico: one on each node, in the stack of its host.

Each has a namespace of its own also for another reason: the kernel marks a route with the program that made it and not
with the process, so each of two BIRDs in one namespace would take the other's routes for its own leftovers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tare.host.process import find, run

UNPACKED: Final = Path("/opt/tare/bird/usr/sbin/bird")
CONFIG: Final = "bird.conf"
AS: Final = 64512
"""The autonomous system of all nodes: Calico's default."""
ROUTES_S: Final = 15.0
"""BIRD waits for up to a second before it connects, and for a second more where the other was not there yet."""
REJECTED: Final = 0x200
HOST_MASK: Final = "FFFFFFFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation with the BIRD of another node; `interface` is the tunnel to it, "" where there is none."""

    name: str
    own: str
    other: str
    interface: str = ""


def program() -> str | None:
    """Return BIRD's path, or None: the system's, which gets its updates, else the one that the bootstrap unpacks.

    Its package would start one on this machine.
    """
    return find("bird") or (str(UNPACKED) if UNPACKED.exists() else None)


def missing() -> str | None:
    """Return why there is no BIRD 2 here, or None."""
    path = program()
    if path is None:
        return "BIRD 2 is not installed: tools/bootstrap unpacks it, or apt-get install bird2"
    return _unfit(path)


@cache
def _unfit(path: str) -> str | None:
    done = run((path, "--version"), check=False, timeout_s=20)
    said = f"{done.stdout} {done.stderr}".strip()
    if re.search(r"version 2\.", said):
        return None
    return f"{path} is not BIRD 2 but {said.splitlines()[0][:200] if said else 'silent'}: apt-get install bird2"


def command(path: str, folder: str) -> tuple[str, ...]:
    """Return the argv of a BIRD in the foreground, with its files in a folder."""
    return (path, "-f", "-c", f"{folder}/{CONFIG}", "-s", f"{folder}/bird.control", "-P", f"{folder}/bird.pid")


def config(router_id: str, pool: str, sessions: Sequence[Session]) -> str:
    """Return the configuration of a node's BIRD: host routes of a pool of addresses are told, and heard.

    Routes to pods are learned from the kernel, which tells changes by itself, and what BGP tells goes into it. A full
    mesh within one autonomous system, as Calico's node-to-node mesh. The way to a pod is the way to its node, wherever
    that is, or the tunnel to it.
    """
    pods = f"net ~ [ {pool}{{32,32}} ]"
    return (
        "log stderr all;\n"
        f"router id {router_id};\n"
        "protocol device { scan time 3600; }\n"
        "protocol direct { ipv4; }\n"
        "protocol kernel {\n"
        "  learn;\n"
        "  scan time 3600;\n"
        "  ipv4 { import all; export where source = RTS_BGP; };\n"
        "}\n"
    ) + "".join(_session(pods, each) for each in sessions)


def _session(pods: str, each: Session) -> str:
    into = f'import filter {{ if {pods} then {{ ifname = "{each.interface}"; accept; }} reject; }}'
    return (
        f"protocol bgp {re.sub(r'[^A-Za-z0-9_]', '_', each.name)} {{\n"
        f"  local {each.own} as {AS};\n"
        f"  neighbor {each.other} as {AS};\n"
        "  multihop;\n"
        "  strict bind yes;\n"
        "  connect delay time 1;\n"
        "  connect retry time 1;\n"
        "  error wait time 1, 2;\n"
        "  ipv4 {\n"
        f"    {into if each.interface else f'import where {pods}'};\n"
        f"    export where {pods} && source = RTS_INHERIT;\n"
        "    next hop self;\n"
        "    gateway recursive;\n"
        "  };\n"
        "}\n"
    )


def host_routes(table: str) -> dict[str, str]:
    """Return the interface of each route to a single host in the text of /proc/net/route (proc(5))."""
    found = {}
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[7] == HOST_MASK and not int(words[3], 16) & REJECTED:
            found[socket.inet_ntoa(int(words[1], 16).to_bytes(4, "little"))] = words[0]
    return found


def routes_came(pid: int, wanted: Mapping[str, str]) -> bool | None:
    """Return true once the network namespace of a process has routes to all hosts, each into its interface; else None.

    `wanted` tells the interface for each host's address.
    """
    there = host_routes(Path(f"/proc/{pid}/net/route").read_text())
    return all(there.get(address) == interface for address, interface in wanted.items()) or None
