"""Read what the kernel lets a pod's processes do and have; launches that fail have no rank that reports it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.model.text import bytes_label
from tare.system.node.kernel_files import read_text

OF_POD: Final = "pod "
"""What the names of these facts begin with."""
STATUS: Final = {"CapBnd": "capabilities", "Seccomp": "seccomp", "NoNewPrivs": "no new privileges"}
SECCOMP: Final = {"0": "off", "1": "strict", "2": "filter"}
LIMITS: Final = {
    "Max open files": "open files", "Max stack size": "stack", "Max processes": "processes per user",
    "Max locked memory": "locked memory", "Max address space": "address space",
}  # fmt: skip
OF_BYTES: Final = frozenset({"stack", "locked memory", "address space"})


def read_allowed(pid: int, groups: Iterable[Path] = (), folder: str = "") -> dict[str, str]:
    """Return what a process of a pod may do and have, in words; what cannot be read is left out. Takes below 1 ms.

    That are the capabilities that a program can get (a mask), the system call filter, the user, limits, the size of
    /dev/shm, the number of processes that its cgroup, one of `groups`, may have, and how it sees `folder`.
    """
    found = dict((*_status(pid), *_limits(pid)))
    with suppress(OSError):
        shm = os.statvfs(f"/proc/{pid}/root/dev/shm")
        found["/dev/shm"] = bytes_label(shm.f_blocks * shm.f_frsize >> 20 << 20)
    pids = next((text for group in groups if (text := read_text(str(group / "pids.max")).strip())), "")
    if pids:
        found["processes in its cgroup"] = pids
    if folder:
        found["working folder"] = _seen(f"/proc/{pid}/root{folder}")
    return {f"{OF_POD}{name}": text for name, text in found.items() if text}


def _status(pid: int) -> Iterator[tuple[str, str]]:
    for line in read_text(f"/proc/{pid}/status").splitlines():
        name, _, value = line.partition(":")
        if name in STATUS:
            yield STATUS[name], SECCOMP.get(value.strip(), "") if name == "Seccomp" else value.strip()
        elif name == "Uid":
            yield "user", value.split()[1]


def _limits(pid: int) -> Iterator[tuple[str, str]]:
    for line in read_text(f"/proc/{pid}/limits").splitlines():
        for name, words in LIMITS.items():
            if line.startswith(name):
                soft = line.removeprefix(name).split()[0]
                yield words, bytes_label(int(soft)) if words in OF_BYTES and soft.isdigit() else soft


def _seen(path: str) -> str:
    try:
        return "read-only" if os.statvfs(path).f_flag & os.ST_RDONLY else "writable"
    except FileNotFoundError:
        return "not there"
    except OSError:
        return ""
