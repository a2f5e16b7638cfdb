"""Find and end the processes of a run on a real node, where an ordinary user has no cgroup.

All processes that a run starts inherit `TARE_RUN=NAME`, those of a launch also `TARE_LAUNCH_MAP=FOLDER/...`, which is
the run's folder. A program may clear its environment; it remains below the process that started it, which adopts its
orphans (`below_us`), and in the cgroup of the run's launches, where one can be made
(`tare.system.node.cgroups.of_launches`).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tare.model.text import processes_text
from tare.system import process
from tare.system.namespaces import processes_beside
from tare.system.node.cgroups import cpu_time_s, pids_below
from tare.system.node.hierarchies import thaw
from tare.system.node.process_stat import process_usage_s, start_time
from tare.system.node.stragglers import named

DEADLINE_S: Final = 3.0
"""How long to go on killing."""
LOOKS: Final = 100
"""How often to look again for what a process that has just ended may have started."""
SURE: Final = 3
"""How often there must be none: the kernel may skip one in the list of children while others end (proc(5))."""
RUN: Final = "TARE_RUN"
LAUNCH: Final = "TARE_LAUNCH_MAP"
PODMAN: Final = "XDG_RUNTIME_DIR"
"""What marks the monitor of a container in a run's folder: Podman starts it with few of its own variables."""
PR_SET_CHILD_SUBREAPER: Final = 36
READINGS: Final = 5
"""How often the time of processes is read until none ended meanwhile."""


@contextmanager
def marked(name: str) -> Iterator[None]:
    """Mark all processes that this one starts while the block runs as those of a run, and adopt their orphans.

    An MPI's daemon leaves its parent. If another process waited for it, its CPU time would be lost. Orphans that are
    left at the end are ended, and named on stderr.
    """
    before = os.environ.get(RUN)
    os.environ[RUN] = name
    _adopt_orphans(True)
    there = below_us()
    try:
        yield
    finally:
        if ended := end_all(lambda: below_us() - there):
            sys.stderr.write(f"tare: ended what the run had left behind: {processes_text(ended)}\n")
        _adopt_orphans(False)
        if before is None:
            del os.environ[RUN]
        else:
            os.environ[RUN] = before


def pids_of_run(name: str, folder: Path) -> set[int]:
    """Return the processes of this user that belong to a run with this name and folder, besides this one."""
    monitors = _find(f"{PODMAN}={folder}/".encode())
    return _find(f"{RUN}={name}\0".encode(), f"{LAUNCH}={folder}/".encode()) | monitors | below(monitors)


def pids_of_launches(folder: Path) -> set[int]:
    """Return the processes of this user that belong to the launches of the run with this folder."""
    return _find(f"{LAUNCH}={folder}/".encode())


def end(pids: Collection[int], marks: Collection[bytes] = ()) -> None:
    """Kill processes; one whose number has been reused since it was found is left alone.

    With `marks`, one of them must still be in the environment when the process is killed.
    """
    thaw(set(pids))
    for pid in pids:
        started = start_time(pid)
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                if started and start_time(pid) == started and (not marks or _has(_environment(pid), marks)):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def end_all(find: Callable[[], set[int]], kill: Callable[[], None] = lambda: None) -> Counter[str]:
    """Kill the processes that `find` returns, and those that they start meanwhile; return how many by name.

    `kill` is a further way, which is tried first. It gives up after `DEADLINE_S`: a process may wait in the kernel, or
    be another user's. However long a pass takes, on a machine that stands still, there is another.
    """
    seen: dict[int, str] = {}
    left_s, began = DEADLINE_S, time.monotonic()
    while (found := find()) and left_s > 0:
        seen |= named(found)
        kill()
        end(found)
        _reap_orphans()
        now = time.monotonic()
        left_s, began = left_s - min(now - began, DEADLINE_S / 2), now
    return Counter(seen.values())


def below(pids: Collection[int], spare: Collection[int] = ()) -> set[int]:
    """Return the processes that these have started or adopted, and theirs in turn; `spare` and theirs are left out."""
    found, new = set[int](), set(pids)
    while new:
        new = {child for pid in new for child in _children(pid)} - found - set(spare)
        found |= new
    return found


def below_us() -> set[int]:
    """Return the processes below this one that it does not wait for, and that are not in its session.

    Each command is started in a session of its own (`tare.system.process`), and no process can return to an earlier
    one: what is in this process's session was started by others, as a page's browser.
    """
    own, session, empty = os.getpid(), os.getsid(0), 0
    for _ in range(LOOKS):
        _reap_orphans()
        spare = process.awaited() | {child for child in _children(own) if _session(child) == session}
        found = below({own}, spare)
        empty = 0 if found else empty + 1
        if (alive := {pid for pid in found if start_time(pid)}) or empty == SURE:
            return alive
    return set()


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _children(pid: int) -> set[int]:
    found = set[int]()
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found.update(map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()))
    return found


def end_run(name: str, folder: Path) -> None:
    """Kill all processes of a run, and what one of them starts meanwhile."""
    marks = (f"{RUN}={name}\0".encode(), f"{LAUNCH}={folder}/".encode(), f"{PODMAN}={folder}/".encode())
    seen: set[int] = set()
    while pids := pids_of_run(name, folder) - seen:
        own = _find(*marks)
        end(pids & own, marks)
        end(pids - own)  # what runs in containers, whose environment is the image's
        seen |= pids


def end_with_variable(name: str, value: str) -> None:
    """Kill the processes of this user that have a variable with this value in their environment."""
    mark = f"{name}={value}\0".encode()
    end(_find(mark), (mark,))


def usage_s(folder: Path) -> float:
    """Return the CPU time of the launches of a run with this folder, and of all that this process has waited for.

    Processes that end meanwhile would be counted twice or not at all, so it is read again if any did.
    """
    _reap_orphans()
    ended_s, running_s = _ended_s(), 0.0
    for _ in range(READINGS):
        running_s = sum(map(process_usage_s, pids_of_launches(folder)))
        _reap_orphans()
        before_s, ended_s = ended_s, _ended_s()
        if before_s == ended_s:
            break
    return ended_s + running_s


def _ended_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def container_usage_s(pid: int) -> float:
    """Return the CPU time of a container, by its first process: of its cgroup, or of its processes if it has none."""
    for folder in (*_folders_of_container(pid, "cpuacct"), *_folders_of_container(pid, "")):
        if (used_s := cpu_time_s(folder)) is not None:
            return used_s
    return sum(map(process_usage_s, processes_beside(pid)))


def container_pids(pid: int) -> set[int]:
    """Return the processes of a container, by its first process: of its cgroup, or beside it if it has none."""
    own = _pid_namespace(os.getpid())
    for folder in (folders[0] for name in ("pids", "cpuacct", "") if (folders := _folders_of_container(pid, name))):
        if found := pids_below(Path(folder)):
            return {each for each in found if _pid_namespace(each) != own}
    return processes_beside(pid) if _pid_namespace(pid) != own else set()


def _pid_namespace(pid: int) -> str:
    """Return the pid namespace of a process, "" if it may not be read: that of another user's."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _folders_of_container(pid: int, controller: str) -> tuple[str, ...]:
    """Return where the cgroup of a process may be seen, if it is another one than ours.

    Here, or where the container itself sees it if that is a cgroup beside ours.
    """
    path = _cgroup_of(pid, controller)
    if not path or path == _cgroup_of(os.getpid(), controller):
        return ()
    return f"/sys/fs/cgroup/{controller}{path}", f"/proc/{pid}/root/sys/fs/cgroup/{controller}"


def _cgroup_of(pid: int, controller: str) -> str:
    """Return the path of a process's cgroup in the hierarchy of a controller of v1, or of v2 ("")."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                return path
    return ""


def _adopt_orphans(wanted: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _reap_orphans() -> None:
    """Wait for the children that have ended and that nobody else waits for."""
    awaited = process.awaited()
    for pid in {child for child in _children(os.getpid()) if not start_time(child)} - awaited:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _find(*marks: bytes) -> set[int]:
    return {pid for pid, environment in _environments() if _has(environment, marks)} - {os.getpid()}


def _has(environment: bytes, marks: Collection[bytes]) -> bool:
    text = b"\0" + environment + b"\0"
    return any(b"\0" + mark in text for mark in marks)


def _environments() -> Iterator[tuple[int, bytes]]:
    """Yield this user's processes with their environments; those that ended or may not be read are left out."""
    with os.scandir("/proc") as entries:
        numbers = [entry.name for entry in entries if entry.name.isdigit()]
    for number in numbers:
        with suppress(OSError):
            if os.stat(f"/proc/{number}").st_uid == os.geteuid() and (environment := _environment(int(number))):
                yield int(number), environment


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
