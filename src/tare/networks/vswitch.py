"""Open vSwitch in a node: its two daemons, started in the node's network namespace, and how they are told what to do.

Packets take the data path in the kernel, where the module `openvswitch` is; the daemons see only the first of a flow.
A node's namespace has one such data path, so that environments that use it share the daemons.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.daemons import AGENT
from tare.errors import InfrastructureError
from tare.kernel import lacks_module
from tare.namespaces import plain_python
from tare.node import Node
from tare.process import Popen, end, find, run, start
from tare.user_namespace import is_real_root

UNPACKED: Final = Path("/opt/tare/openvswitch")
"""Where the bootstrap unpacks Debian's packages, which would start daemons on this machine."""
FOLDERS: Final = ("usr/bin", "usr/sbin", "usr/lib/openvswitch-switch", "usr/lib/openvswitch-common")
SCHEMA: Final = "usr/share/openvswitch/vswitch.ovsschema"
START_LIMIT_S: Final = 10.0
KERNEL: Final = "system"
"""The kernel's data path, as Open vSwitch calls it; `netdev` is the one of the daemon itself, which tests can use."""

_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vswitch:
    """A node's Open vSwitch; `folder` has its sockets, logs and database."""

    node: Node
    folder: Path

    def tell(self, *arguments: str) -> str:
        """Run `ovs-vsctl` and return what it said; it waits until the daemon has done what it is told."""
        argv = vsctl(needed("ovs-vsctl"), self.folder, arguments)
        return run(argv, timeout_s=20, what=f"ovs-vsctl {arguments[0]} on {self.node.name}").stdout

    def undo(self, *arguments: str) -> None:
        """Tell the switch to undo something, if its node is still there; it may be undone already."""
        if Path(f"/proc/{self.node.pid}").exists():
            run(vsctl(needed("ovs-vsctl"), self.folder, ("--if-exists", *arguments)), timeout_s=20, check=False)


@dataclass(slots=True)
class _Shared:
    users: int
    stack: ExitStack
    up: Vswitch


_RUNNING: Final[dict[int, _Shared]] = {}


def missing(datapath: str = KERNEL) -> str | None:
    """Return why Open vSwitch cannot be used here, or None."""
    if not is_real_root():
        return "Open vSwitch in a node needs root"
    if any(program(name) is None for name in ("ovs-vsctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd")):
        return (
            "Open vSwitch is not installed: tools/bootstrap unpacks it (apt-get install openvswitch-switch starts it)"
        )
    return lacks_module("openvswitch") if datapath == KERNEL else None


def program(name: str) -> str | None:
    """Return the path of one of Open vSwitch's programs: the unpacked one, else that on PATH, or None."""
    unpacked = (UNPACKED / folder / name for folder in FOLDERS)
    return next((str(path) for path in unpacked if path.is_file()), None) or find(name)


def needed(name: str) -> str:
    """Return the path of a program, or raise `InfrastructureError`."""
    path = program(name)
    if path is None:
        raise InfrastructureError(f"{name} is not there", remedy="tools/bootstrap unpacks Open vSwitch")
    return path


def schema() -> Path:
    """Return the file that says what the database holds."""
    return next((path for top in (UNPACKED, Path("/")) if (path := top / SCHEMA).is_file()), Path("/") / SCHEMA)


def vsctl(path: str, folder: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that tells a switch something."""
    return (path, f"--db=unix:{folder}/db.sock", "--timeout=15", *arguments)


def server(path: str, folder: Path) -> tuple[str, ...]:
    """Return the argv of the database, in the foreground."""
    return (
        path,
        f"{folder}/conf.db",
        f"--remote=punix:{folder}/db.sock",
        f"--unixctl={folder}/db.ctl",
        "-vconsole:warn",
    )


def switch(path: str, folder: Path) -> tuple[str, ...]:
    """Return the argv of the switch, in the foreground."""
    return (path, f"unix:{folder}/db.sock", f"--unixctl={folder}/switch.ctl", "-vconsole:warn")


@contextmanager
def running(node: Node) -> Iterator[Vswitch]:
    """Keep Open vSwitch running in a node as long as anyone uses it."""
    with _LOCK:
        shared = _RUNNING.get(node.pid)
        if shared is None:
            with ExitStack() as stack:
                up = stack.enter_context(_started(node))
                shared = _RUNNING[node.pid] = _Shared(0, stack.pop_all(), up)
        shared.users += 1
    try:
        yield shared.up
    finally:
        with _LOCK:
            shared.users -= 1
            if shared.users == 0:
                del _RUNNING[node.pid]
                shared.stack.close()


@contextmanager
def _started(node: Node) -> Iterator[Vswitch]:
    folder = Path(f"/proc/{node.pid}/root/run/tare-ovs")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf.db").unlink(missing_ok=True)
    run((needed("ovsdb-tool"), "create", f"{folder}/conf.db", str(schema())), what="ovsdb-tool create")
    up = Vswitch(node=node, folder=folder)
    with (
        _daemon(node, server(needed("ovsdb-server"), folder), folder / "db.sock"),
        _daemon(node, switch(needed("ovs-vswitchd"), folder), folder / "switch.ctl"),
    ):
        yield up


@contextmanager
def _daemon(node: Node, argv: tuple[str, ...], socket: Path) -> Iterator[None]:
    """Keep a daemon running in the network and the cgroup of a node; it is ready when its socket is there."""
    entry = {
        "cgroups": [str(folder) for folder in node.group.leaf.folders],
        "argv": ["nsenter", f"--net=/proc/{node.pid}/ns/net", "--", "env", f"OVS_RUNDIR={socket.parent}"],
    }
    log = socket.with_suffix(".log")
    socket.unlink(missing_ok=True)
    process = start((plain_python(), "-IS", str(AGENT), "--entry", json.dumps(entry), "--", *argv), log=log)
    try:
        _wait(node, process, socket, log)
        yield
    finally:
        end(process, grace_s=2.0)


def _wait(node: Node, process: Popen[str], socket: Path, log: Path) -> None:
    until = time.monotonic() + START_LIMIT_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > until:
            said = log.read_text(errors="replace")[-600:].strip() if log.exists() else ""
            name = "ovsdb-server" if socket.stem == "db" else "ovs-vswitchd"
            raise InfrastructureError(f"{name} did not come up on {node.name}: {said or 'it said nothing'}")
        time.sleep(0.02)
