"""Find and end the processes of a run on a real node, where an ordinary user has no cgroup: by their environment.

All processes that a run starts inherit `TARE_RUN=NAME`, those of a launch also `TARE_LAUNCH_MAP=FOLDER/...`, which is
the run's folder. A program may change its environment, so a process that did is not found.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tare.host import process
from tare.host.namespaces import processes_beside
from tare.node.owners import start_time

RUN: Final = "TARE_RUN"
LAUNCH: Final = "TARE_LAUNCH_MAP"
PODMAN: Final = "XDG_RUNTIME_DIR"
"""What marks the monitor of a container in a run's folder: Podman starts it with few of its own variables."""
PR_SET_CHILD_SUBREAPER: Final = 36
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
READINGS: Final = 5
"""How often the time of processes is read until none ended meanwhile."""


@contextmanager
def marked(name: str) -> Iterator[None]:
    """Mark all processes that this one starts while the block runs as those of a run, and adopt their orphans.

    An MPI's daemon leaves its parent. If another process waited for it, its CPU time would be lost.
    """
    before = os.environ.get(RUN)
    os.environ[RUN] = name
    _adopt_orphans(True)
    try:
        yield
    finally:
        _reap_orphans()
        _adopt_orphans(False)
        if before is None:
            del os.environ[RUN]
        else:
            os.environ[RUN] = before


def pids_of_run(name: str, folder: Path) -> set[int]:
    """Return the processes of this user that belong to a run with this name and folder, besides this one."""
    monitors = _find(f"{PODMAN}={folder}/".encode())
    return _find(f"{RUN}={name}\0".encode(), f"{LAUNCH}={folder}/".encode()) | monitors | _below(monitors)


def pids_of_launches(folder: Path) -> set[int]:
    """Return the processes of this user that belong to the launches of the run with this folder."""
    return _find(f"{LAUNCH}={folder}/".encode())


def runs_of_user() -> dict[str, set[int]]:
    """Return the processes of this user that carry the mark of a run, by the run's name."""
    runs: dict[str, set[int]] = {}
    for pid, environment in _environments():
        entries = environment.split(b"\0")
        name = next((entry.partition(b"=")[2] for entry in entries if entry.startswith(f"{RUN}=".encode())), b"")
        if name:
            runs.setdefault(os.fsdecode(name), set()).add(pid)
    return runs


def end(pids: Collection[int], marks: Collection[bytes] = ()) -> None:
    """Kill processes; one whose number has been reused since it was found is left alone.

    With `marks`, one of them must still be in the environment when the process is killed.
    """
    for pid in pids:
        started = start_time(pid)
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                if started and start_time(pid) == started and (not marks or _has(_environment(pid), marks)):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _below(pids: Collection[int]) -> set[int]:
    """Return the processes that these have started, and those that they started in turn."""
    parents = {}
    for entry in os.scandir("/proc"):
        if pids and entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parents[int(entry.name)] = int(Path(f"{entry.path}/stat").read_text().rsplit(")", 1)[1].split()[1])
    found, new = set[int](), set(pids)
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def end_launches(folder: Path, spare: Collection[int] = ()) -> None:
    """Kill what remains of the launches of a run, except the processes in `spare`."""
    end(pids_of_launches(folder) - set(spare), (f"{LAUNCH}={folder}/".encode(),))


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
        running_s = sum(map(_usage_s, pids_of_launches(folder)))
        _reap_orphans()
        before_s, ended_s = ended_s, _ended_s()
        if before_s == ended_s:
            break
    return ended_s + running_s


def _ended_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def container_usage_s(pid: int) -> float:
    """Return the CPU time of a container, by its first process: of its cgroup, or of its processes if it has none.

    Its cgroup is read where this process sees it, or where the container itself does, if that is another one beside us.
    """
    for name, file, per_s in (("cpuacct", "cpuacct.usage", 1e9), ("", "cpu.stat", 1e6)):
        path = _cgroup_of(pid, name)
        if path and path != _cgroup_of(os.getpid(), name):
            for folder in (f"/sys/fs/cgroup/{name}{path}", f"/proc/{pid}/root/sys/fs/cgroup/{name}"):
                with suppress(OSError, ValueError, IndexError):
                    text = Path(f"{folder}/{file}").read_text()
                    return int(text.split("usage_usec", 1)[1].split()[0] if name == "" else text) / per_s
    return sum(map(_usage_s, processes_beside(pid)))


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
    for pid in _children_that_ended() - awaited:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _children_that_ended() -> set[int]:
    ended = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            for word in (task / "children").read_text().split():
                if Path(f"/proc/{word}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    ended.add(int(word))
    return ended


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


def _usage_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / TICKS_PER_S
    except (OSError, ValueError, IndexError):
        return 0.0
