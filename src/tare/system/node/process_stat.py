"""Read what the kernel says of one process in /proc/PID/stat (proc(5)): whether it runs, since when, below which."""

from __future__ import annotations

import os
from typing import Final

from tare.system.node.kernel_files import read_text

PF_EXITING: Final = 0x4
"""From linux/sched.h: set on an exiting process, such as a namespace's init that waits for all others in it."""
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
LAST_FIELD: Final = 19
"""The start time; what has fewer fields is not of a process."""


def stat_fields(process: int | str) -> list[str]:
    """Return the fields of a process, or of a thread by its folder, from its state on (field 3 of the manual).

    Empty if there is none. The name before them may contain blanks and brackets.
    """
    folder = process if isinstance(process, str) else f"/proc/{process}"
    return fields_of(read_text(f"{folder}/stat"))


def fields_of(stat: str) -> list[str]:
    """Return the fields in the text of such a file, from the state on; empty if it is not whole."""
    fields = stat.rpartition(")")[2].split()
    return fields if len(fields) > LAST_FIELD else []


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks after boot; 0 if it does not exist or has ended (a zombie)."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields and not _has_ended(fields) else 0


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if it has none in our pid namespace, or does not exist."""
    return int((stat_fields(pid) or "00")[1])


def process_usage_s(pid: int) -> float:
    """Return the CPU time of a process and of its children that it has waited for, in seconds."""
    return sum(map(int, stat_fields(pid)[11:15])) / TICKS_PER_S


def runs(pid: int) -> bool:
    """Return whether a process is still running; a zombie is not, unless one of its threads is."""
    return is_running(stat_fields(pid))


def is_running(fields: list[str]) -> bool:
    """Return whether a process runs, from its fields."""
    return bool(fields) and not _has_ended(fields) and (fields[0] == "Z" or not int(fields[6]) & PF_EXITING)


def _has_ended(fields: list[str]) -> bool:
    """Return whether a process is over.

    A process whose first thread has ended is shown as a zombie, too, while its other threads run on.
    """
    return fields[0] in "ZX" and int(fields[17]) < 2
