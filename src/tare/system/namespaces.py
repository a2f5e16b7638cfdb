"""Start holders of namespaces, and use netlink inside a network namespace.

The host's own network is not touched: every socket here is opened inside a namespace that tare made.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare.errors import InfrastructureError, LabEnded
from tare.system.paths import made_run_folder, state_identity
from tare.system.process import Result, run

if TYPE_CHECKING:
    from pyroute2 import IPRoute

ENDED: Final = "was ended by something else, such as `tare clean`"
AGAIN: Final = "run the same command again: a study resumes"
CLONE_NEWNET: Final = 0x40000000
HOLDER: Final = Path(__file__).with_name("holder.py")
RIGHTS: Final = "run as root, or on a machine where ordinary users may create user namespaces"
MOUNTS: Final = "something is mounted over what a node mounts itself: see /proc/self/mountinfo, and unmount it"
STANDSTILL: Final = "run it again; if it fails again, look for a shortage of memory in the kernel's log (dmesg)"
HOLDER_S: Final = 60.0
"""How long holders may take to answer; some milliseconds are usual, a machine that stands still for a while is not."""


@cache
def plain_python() -> str:
    """Return an interpreter that starts quickly: the system's, else the one behind this virtual environment."""
    system = shutil.which("python3", path="/usr/bin:/bin")
    return system or os.path.realpath(sys.executable)


def hold(mark: str, spec: Mapping[str, Any]) -> int:
    """Start a holder with `spec` (see `tare.system.holder`) and return its process number.

    `mark` is in its command line, where `tare clean` finds it, followed by the identity of the folder that records
    whether its owner is alive. Raises `InfrastructureError`.
    """
    (answer,) = hold_all([(mark, spec)])
    if isinstance(answer, InfrastructureError):
        raise answer
    return answer


def hold_all(wanted: Sequence[tuple[str, Mapping[str, Any]]]) -> list[int | InfrastructureError]:
    """Start a holder for each mark and spec at the same time; return the process number or the error of each.

    One interpreter is started for all of them, because that takes longer than all the rest.
    """
    made_run_folder()
    longest = max((mark for mark, _ in wanted), key=len)
    argv = (plain_python(), "-IS", str(HOLDER), longest, state_identity())
    text = json.dumps([{"mark": mark, **spec} for mark, spec in wanted])
    result = run(argv, stdin=text, timeout_s=HOLDER_S, check=False, what=f"making {wanted[0][0]}")
    try:
        answers = [json.loads(line) for line in result.stdout.splitlines()]
    except ValueError:
        answers = []
    if len(answers) != len(wanted):
        why, remedy = (result.stderr_tail, RIGHTS) if result.stderr_tail else (_silent(result), STANDSTILL)
        return [
            InfrastructureError(f"cannot create the namespaces of {mark}: {why}", remedy=remedy) for mark, _ in wanted
        ]
    return [
        int(answer["pid"])
        if "pid" in answer
        else InfrastructureError(
            f"cannot create the namespaces of {mark}: {answer['error']}",
            remedy=MOUNTS if os.strerror(errno.EBUSY) in answer["error"] else RIGHTS,
        )
        for (mark, _), answer in zip(wanted, answers, strict=True)
    ]


def _silent(result: Result) -> str:
    """Return how holders ended that did not say why."""
    if result.timed_out:
        return f"the holder did not answer within {HOLDER_S:g} s"
    return f"the holder printed nothing and ended with status {result.status}"


def processes_beside(pid: int) -> set[int]:
    """Return the processes in a process's pid namespace, for a caller that has no cgroup of them."""
    try:
        wanted = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return set()
    pids = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == wanted:
                pids.add(int(entry.name))
        except OSError:
            continue
    return pids


def is_holder(pid: int, lab: str = "") -> bool:
    """Return whether a process is a holder of tare, or of this lab of ours: its number may have been reused."""
    mark, state = read_holder(Path(f"/proc/{pid}"))
    return mark.split(":")[1:2] == [lab] and state == state_identity() != "" if lab else bool(mark)


def command_line(entry: Path) -> list[str]:
    """Return the words of a process's command line, by its entry in /proc; one empty word if it has ended."""
    try:
        return os.fsdecode((entry / "cmdline").read_bytes()).split("\0")
    except OSError:
        return [""]


def read_holder(entry: Path) -> tuple[str, str]:
    """Return the mark of a holder of any tare and the identity of its state folder, "" and "" for another process.

    `entry` is the process's in /proc. Any process can choose its command line.
    """
    argv = command_line(entry)
    is_one = len(argv) > 4 and argv[2].endswith(HOLDER.name) and argv[3].startswith("tare:")
    return (argv[3], argv[4]) if is_one else ("", "")


@contextmanager
def inside_network(pid: int) -> Iterator[None]:
    """Move this thread into a process's network namespace while the block runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        wanted = _network_of(pid)
        try:
            _setns(libc, wanted)
        finally:
            os.close(wanted)
        try:
            yield
        finally:
            _setns(libc, before)
    finally:
        os.close(before)


def _network_of(pid: int) -> int:
    try:
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise LabEnded(f"process {pid}, which holds a network namespace, {ENDED}", remedy=AGAIN) from error


@contextmanager
def netlink(pid: int) -> Iterator[IPRoute]:
    """Open a netlink socket inside a process's network namespace."""
    from pyroute2 import IPRoute

    with inside_network(pid):
        route = IPRoute()
    try:
        yield route
    finally:
        route.close()


def bridges_pass_netfilter(pid: int, wanted: bool) -> None:
    """Set whether bridged frames pass netfilter in a network namespace that tare made (docs/adr/0002)."""
    with inside_network(pid):
        for name in ("iptables", "ip6tables", "arptables"):
            path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}")
            if path.exists():
                path.write_text("1" if wanted else "0")


def set_network(pid: int, name: str, value: str) -> str:
    """Write a kernel setting (`ipv4/ip_forward`) in a network namespace of tare; return the previous value."""
    path = Path("/proc/sys/net") / name
    with inside_network(pid):
        try:
            before = path.read_text().strip()
            if before != value:
                path.write_text(value)
        except OSError as error:
            raise InfrastructureError(f"cannot set {path} to {value}: {error.strerror}") from error
    return before


def index_of(route: IPRoute, interface: str) -> int:
    """Return the index of an interface, or raise `InfrastructureError` naming it."""
    indices = list(route.link_lookup(ifname=interface))
    if not indices:
        raise InfrastructureError(f"the network namespace has no interface {interface}")
    return int(indices[0])


def _setns(libc: ctypes.CDLL, descriptor: int) -> None:
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise InfrastructureError(f"cannot enter a network namespace: {os.strerror(number)}")
