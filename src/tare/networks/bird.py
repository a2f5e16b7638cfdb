"""BIRD 2 spreads the routes to pods between nodes over BGP, as in Calico: one on each node, in its network namespace.

A node has one, whatever the number of its environments: the kernel marks a route with the program that made it and not
with the process, so each of two would take the other's routes for its own leftovers. What an environment says and
hears is in a file of its own, beside those of the others. Files, log and control socket are in the node's /run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tare.daemons import AGENT
from tare.errors import InfrastructureError
from tare.namespaces import plain_python
from tare.node import Node
from tare.process import Popen, end, find, run, start

UNPACKED: Final = Path("/opt/tare/bird/usr/sbin/bird")
FOLDER: Final = "run/tare-bird"
AS: Final = 64512
"""The autonomous system of all nodes: Calico's default."""
ROUTES_S: Final = 15.0
"""BIRD waits for up to a second before it connects, and for a second more where the other was not there yet."""
END_S: Final = 2.0
TAIL_CHARACTERS: Final = 600
REJECTED: Final = 0x200
HOST_MASK: Final = "FFFFFFFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation with the BIRD of another node; `interface` is the tunnel to it, "" where there is none."""

    name: str
    own: str
    other: str
    interface: str = ""


_running: dict[int, Popen[str]] = {}
"""The BIRDs that this process has started, by the process that holds their node."""


def program() -> str | None:
    """Return BIRD's path, or None; the bootstrap unpacks it because its package would start one on this machine."""
    return str(UNPACKED) if UNPACKED.exists() else find("bird")


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


# --- configuration ------------------------------------------------------------------------------------------------


def main_config(router_id: str, folder: str = f"/{FOLDER}") -> str:
    """Return what is the same for all environments of a node.

    Routes to pods are learned from the kernel, and what BGP tells goes into it; of changes the kernel tells by itself.
    """
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
        f'include "{folder}/*.sessions";\n'
    )


def sessions_config(pool: str, sessions: Sequence[Session]) -> str:
    """Return the sessions of an environment on a node: host routes of its pool are told, and heard.

    A full mesh within one autonomous system, as Calico's node-to-node mesh. The way to a pod is the way to its node,
    wherever that is, or the tunnel to it.
    """
    pods = f"net ~ [ {pool}{{32,32}} ]"
    return "".join(_session(pods, each) for each in sessions)


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


# --- the process --------------------------------------------------------------------------------------------------


@contextmanager
def speaking(node: Node, name: str, sessions: str) -> Iterator[None]:
    """Keep sessions in a node's BIRD, which is started for the first and ended after the last of them."""
    folder = _folder(node)
    file = folder / f"{name}.sessions"
    folder.mkdir(mode=0o700, exist_ok=True)
    file.write_text(sessions)
    try:
        if node.pid in _running:
            _running[node.pid].send_signal(signal.SIGHUP)
        else:
            _running[node.pid] = _start(node)
        yield
    finally:
        with suppress(OSError):  # the node may be gone
            file.unlink(missing_ok=True)
        if process := _running.get(node.pid):
            if any(folder.glob("*.sessions")):
                process.send_signal(signal.SIGHUP)
            else:
                del _running[node.pid]
                end(process, grace_s=END_S)


def _start(node: Node) -> Popen[str]:
    folder = _folder(node)
    (folder / "bird.conf").write_text(main_config(node.control_address))
    entry = {
        "cgroups": [str(each) for each in node.group.leaf.folders],
        "argv": ["nsenter", f"--net=/proc/{node.pid}/ns/net", f"--mount=/proc/{node.pid}/ns/mnt", "--"],
    }
    argv = (plain_python(), "-IS", str(AGENT), "--entry", json.dumps(entry), "--", *command(program() or "bird"))
    return start(argv, log=folder / "log")


def command(path: str, folder: str = f"/{FOLDER}") -> tuple[str, ...]:
    """Return the argv of a node's BIRD, in the foreground."""
    return (path, "-f", "-c", f"{folder}/bird.conf", "-s", f"{folder}/control", "-P", f"{folder}/pid")


def _folder(node: Node) -> Path:
    return Path(f"/proc/{node.pid}/root") / FOLDER


# --- routes -------------------------------------------------------------------------------------------------------


def host_routes(table: str) -> dict[str, str]:
    """Return the interface of each route to a single host in the text of /proc/net/route (proc(5))."""
    found = {}
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[7] == HOST_MASK and not int(words[3], 16) & REJECTED:
            found[socket.inet_ntoa(int(words[1], 16).to_bytes(4, "little"))] = words[0]
    return found


def wait_for_routes(wanted: Sequence[tuple[Node, Mapping[str, str]]], limit_s: float = ROUTES_S) -> None:
    """Wait until every node has its routes to the pods of others: their addresses, and the interface to each.

    Raises `InfrastructureError` with the end of a BIRD's log where one has ended, or the time has passed.
    """
    until = time.monotonic() + limit_s
    for node, routes in wanted:
        while left := _not_yet(node, routes):
            process = _running.get(node.pid)
            if process is None or process.poll() is not None:
                raise InfrastructureError(f"BIRD on {node.name} has ended: {_tail(node)}")
            if time.monotonic() > until:
                told = f"the routes to {', '.join(left)} did not come to {node.name} by BGP within {limit_s:g} s"
                raise InfrastructureError(f"{told}: {_tail(node)}")
            time.sleep(0.01)


def _not_yet(node: Node, routes: Mapping[str, str]) -> list[str]:
    there = host_routes(Path(f"/proc/{node.pid}/net/route").read_text())
    return [address for address, interface in routes.items() if there.get(address) != interface]


def _tail(node: Node) -> str:
    try:
        said = (_folder(node) / "log").read_text(errors="replace")
    except OSError as error:
        return f"its log cannot be read ({os.strerror(error.errno or 0)})"
    return said[-TAIL_CHARACTERS:].strip() or "it said nothing"
