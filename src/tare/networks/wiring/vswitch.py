"""Run Open vSwitch on a node: its two daemons in their own network stack, and the commands to configure them.

Packets take the data path in the kernel if the module `openvswitch` is there; the daemons see only the first packet of
a flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.errors import InfrastructureError
from tare.system.kernel_modules import probe_module
from tare.system.packages import install, script
from tare.system.process import find, run
from tare.system.user_namespace import is_real_root

UNPACKED: Final = Path("/opt/tare/openvswitch")
"""Where the bootstrap unpacks Debian's packages; installing them would start daemons on this machine."""
FOLDERS: Final = ("usr/bin", "usr/sbin", "usr/lib/openvswitch-switch")
SCHEMA: Final = "usr/share/openvswitch/vswitch.ovsschema"
PROGRAMS: Final = ("ovs-vsctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd")
START_LIMIT_S: Final = 60.0
KERNEL: Final = "system"
"""Open vSwitch's name for the kernel's data path; `netdev` is the daemon's own, which tests can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vswitch:
    """The Open vSwitch of a place; the place's folder holds its sockets, logs and database."""

    place: Place

    def tell(self, *arguments: str) -> str:
        """Run `ovs-vsctl` and return its output; it waits until the switch has applied the change."""
        what = f"ovs-vsctl {' '.join(arguments[:2])} on {self.place.node.name}"
        return run(vsctl(need_program("ovs-vsctl"), self.place.path(), arguments), timeout_s=20, what=what).stdout

    def undo(self, *arguments: str) -> None:
        """Undo a change of the switch if its place still exists; it may have been undone already."""
        if Path(f"/proc/{self.place.pid}").exists():
            argv = vsctl(need_program("ovs-vsctl"), self.place.path(), ("--if-exists", *arguments))
            run(argv, timeout_s=20, check=False)


def probe(datapath: str = KERNEL) -> str | None:
    """Return why Open vSwitch is not available here, or None."""
    if not is_real_root():
        return "Open vSwitch in a node needs root"
    if any(program(name) is None for name in PROGRAMS):
        installs = f"{script('tools/bootstrap')} unpacks it ({install('openvswitch-switch')} starts it)"
        return f"Open vSwitch is not installed: {installs}"
    return probe_module("openvswitch") if datapath == KERNEL else None


def program(name: str) -> str | None:
    """Return the path of one of Open vSwitch's programs, or None.

    The system's is used, which gets security updates, if it has all the programs; else the unpacked one.
    """
    unpacked = (UNPACKED / folder / name for folder in FOLDERS)
    unpacked_path = next((str(path) for path in unpacked if path.is_file()), None)
    return find(name) if unpacked_path is None or _system_has_all() else unpacked_path


def _system_has_all() -> bool:
    return all(find(name) for name in PROGRAMS) and (Path("/") / SCHEMA).is_file()


def need_program(name: str) -> str:
    """Return the path of a program, or raise `InfrastructureError`."""
    path = program(name)
    if path is None:
        raise InfrastructureError(f"{name} not found", remedy=f"{script('tools/bootstrap')} unpacks Open vSwitch")
    return path


def schema() -> Path:
    """Return the file with the database schema."""
    unpacked = UNPACKED / SCHEMA
    return unpacked if unpacked.is_file() and not _system_has_all() else Path("/") / SCHEMA


def vsctl(path: str, folder: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that sends a command to a switch."""
    return (path, f"--db=unix:{folder}/db.sock", "--timeout=15", *arguments)


def server(path: str, folder: str) -> tuple[str, ...]:
    """Return the argv that runs the database in the foreground."""
    return (
        path,
        f"{folder}/conf.db",
        f"--remote=punix:{folder}/db.sock",
        f"--unixctl={folder}/db.ctl",
        "-vconsole:warn",
    )


def switch(path: str, folder: str) -> tuple[str, ...]:
    """Return the argv that runs the switch in the foreground; its folder also holds the sockets of its bridges."""
    return (
        "env", f"OVS_RUNDIR={folder}", path, f"unix:{folder}/db.sock", f"--unixctl={folder}/switch.ctl",
        "-vconsole:warn",
    )  # fmt: skip


@contextmanager
def running(place: Place) -> Iterator[Vswitch]:
    """Keep Open vSwitch running in a place."""
    run((need_program("ovsdb-tool"), "create", f"{place.path('conf.db')}", str(schema())), what="ovsdb-tool create")
    with run_daemon(place, "ovsdb-server", server(need_program("ovsdb-server"), place.folder)) as database:
        wait_for_socket(database, "db.sock")
        with run_daemon(place, "ovs-vswitchd", switch(need_program("ovs-vswitchd"), place.folder)) as daemon:
            wait_for_socket(daemon, "switch.ctl")
            yield Vswitch(place=place)


def wait_for_socket(daemon: Daemon, name: str) -> None:
    """Wait until a daemon listens; raise `InfrastructureError` with the end of its log if it does not."""
    path = daemon.place.path(name)
    daemon.wait_for(lambda: True if path.exists() else None, "a socket", limit_s=START_LIMIT_S)
