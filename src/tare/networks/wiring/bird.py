"""Distribute the routes to pods between nodes with BIRD 2 over BGP, as Calico does: one BIRD in each node's host stack.

Each BIRD also needs its own network namespace for another reason: the kernel marks a route with the program that made
it, not with the process, so two BIRDs in one namespace would each take the other's routes for their own leftovers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tare.system.packages import install, script
from tare.system.process import find, run

UNPACKED: Final = Path("/opt/tare/bird/usr/sbin/bird")
CONFIG: Final = "bird.conf"
AS: Final = 64512
"""The autonomous system of all nodes: Calico's default."""
ROUTES_S: Final = 60.0
"""BIRD waits up to a second before it connects, and another second if the peer was not up yet."""
REJECTED: Final = 0x200
HOST_MASK: Final = "FFFFFFFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class BgpSession:
    """A BGP session with another node's BIRD; `interface` is the tunnel to it, "" if there is none."""

    name: str
    own: str
    other: str
    interface: str = ""


def program() -> str | None:
    """Return BIRD's path, or None: the system's, which gets security updates, else the one that the bootstrap unpacks.

    Installing the Debian package would start a BIRD on this machine.
    """
    return find("bird") or (str(UNPACKED) if UNPACKED.exists() else None)


def probe() -> str | None:
    """Return why BIRD 2 is not available, or None."""
    path = program()
    if path is None:
        return f"BIRD 2 is not installed: {script('tools/bootstrap')} unpacks it, or {install('bird2')}"
    return _unfit(path)


@cache
def _unfit(path: str) -> str | None:
    done = run((path, "--version"), check=False, timeout_s=20)
    output = f"{done.stdout} {done.stderr}".strip()
    if re.search(r"version 2\.", output):
        return None
    version = output.splitlines()[0][:200] if output else "a program that prints no version"
    return f"{path} is not BIRD 2 but {version}: {install('bird2')}"


def command(path: str, folder: str) -> tuple[str, ...]:
    """Return the argv that runs BIRD in the foreground, with its files in a folder."""
    return (path, "-f", "-c", f"{folder}/{CONFIG}", "-s", f"{folder}/bird.control", "-P", f"{folder}/bird.pid")


def config(router_id: str, pool: str, sessions: Sequence[BgpSession]) -> str:
    """Return the configuration of a node's BIRD: it exports and imports the host routes of an address pool.

    BIRD learns the routes to pods from the kernel, which reports changes by itself, and writes the routes that it
    learns over BGP into the kernel. All nodes form a full mesh within one autonomous system, like Calico's node-to-node
    mesh. The next hop to a pod is the next hop to its node, or the tunnel to it.
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
    ) + "".join(_session(pods, session) for session in sessions)


def _session(pods: str, session: BgpSession) -> str:
    into = f'import filter {{ if {pods} then {{ ifname = "{session.interface}"; accept; }} reject; }}'
    return (
        f"protocol bgp {re.sub(r'[^A-Za-z0-9_]', '_', session.name)} {{\n"
        f"  local {session.own} as {AS};\n"
        f"  neighbor {session.other} as {AS};\n"
        "  multihop;\n"
        "  strict bind yes;\n"
        "  connect delay time 1;\n"
        "  connect retry time 1;\n"
        "  error wait time 1, 2;\n"
        "  ipv4 {\n"
        f"    {into if session.interface else f'import where {pods}'};\n"
        f"    export where {pods} && source = RTS_INHERIT;\n"
        "    next hop self;\n"
        "    gateway recursive;\n"
        "  };\n"
        "}\n"
    )


def host_routes(table: str) -> dict[str, str]:
    """Return the interface of each route to a single host in the text of /proc/net/route (proc(5))."""
    interfaces = {}
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[7] == HOST_MASK and not int(words[3], 16) & REJECTED:
            interfaces[socket.inet_ntoa(int(words[1], 16).to_bytes(4, "little"))] = words[0]
    return interfaces


def has_routes(pid: int, wanted: Mapping[str, str]) -> bool | None:
    """Return true once a process's network namespace has routes to all hosts, each via its interface; else None.

    `wanted` maps each host's address to the interface.
    """
    there = host_routes(Path(f"/proc/{pid}/net/route").read_text())
    return all(there.get(address) == interface for address, interface in wanted.items()) or None
