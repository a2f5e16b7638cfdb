"""Find and end the processes of a run on a real node, where an ordinary user has no cgroup: by their environment.

All processes that a run starts inherit `TARE_RUN=NAME`, those of a launch also `TARE_LAUNCH_MAP=FOLDER/...`, which is
the run's folder. A program may change its environment, so a process that did is not found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tare.node.owners import start_time

RUN: Final = "TARE_RUN"
LAUNCH: Final = "TARE_LAUNCH_MAP"
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@contextmanager
def marked(name: str) -> Iterator[None]:
    """Mark all processes that this one starts while the block runs as those of a run."""
    before = os.environ.get(RUN)
    os.environ[RUN] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[RUN]
        else:
            os.environ[RUN] = before


def pids_of_run(name: str, folder: Path) -> set[int]:
    """Return the processes of this user that belong to a run with this name and folder, besides this one."""
    return _find(f"{RUN}={name}\0".encode(), f"{LAUNCH}={folder}/".encode())


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


def end_launches(folder: Path, spare: Collection[int] = ()) -> None:
    """Kill what remains of the launches of a run, except the processes in `spare`."""
    end(pids_of_launches(folder) - set(spare), (f"{LAUNCH}={folder}/".encode(),))


def end_run(name: str, folder: Path) -> None:
    """Kill all processes of a run."""
    end(pids_of_run(name, folder), (f"{RUN}={name}\0".encode(), f"{LAUNCH}={folder}/".encode()))


def end_with_variable(name: str, value: str) -> None:
    """Kill the processes of this user that have a variable with this value in their environment."""
    mark = f"{name}={value}\0".encode()
    end(_find(mark), (mark,))


def usage_s(pids: Collection[int]) -> float:
    """Return the CPU time of processes and of their children that have ended, in seconds."""
    return sum(map(_usage_s, pids))


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
