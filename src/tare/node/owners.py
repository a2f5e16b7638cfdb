"""Record which process keeps a lab up: a note in its state folder, by which others check whether the process lives.

A process number may have been reused, and after a reboot a start time can match by chance too, because state may
outlive its boot. So a note holds the number, the start time and the boot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
LAB_NAME: Final = re.compile(r"[A-Za-z0-9]{1,32}")
"""Valid lab names, chosen by tare and by users; folders, cgroups and holders' marks are named after labs."""


def is_lab_name(text: str) -> bool:
    """Return whether a lab can have this name; anything found under another name is not tare's."""
    return LAB_NAME.fullmatch(text) is not None


@cache
def boot_id() -> str:
    """Return the ID of this boot, "" if the kernel shows none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks after boot; 0 if it does not exist or has ended (a zombie)."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return 0 if state in "ZX" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return 0


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if it has none in our pid namespace, or does not exist."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def owner() -> dict[str, Any]:
    """Return the note for this process."""
    return {"pid": os.getpid(), "start": start_time(os.getpid()), "boot_id": boot_id(), "host": os.uname().nodename}


def is_of_this_machine(note: Mapping[str, Any]) -> bool:
    """Return whether a note was written on this machine: machines may share a folder, but not their processes."""
    return bool(note.get("host", os.uname().nodename) == os.uname().nodename)


def lives(note: Mapping[str, Any]) -> bool:
    """Return whether a note's process runs; raise `TypeError` or `ValueError` for a damaged note."""
    return bool(note.get("start")) and this_boot(note) and start_time(int(note.get("pid", 0))) == note["start"]


def this_boot(note: Mapping[str, Any]) -> bool:
    """Return whether a note was written since the machine booted."""
    return bool(note.get("boot_id", boot_id()) == boot_id())
