"""Who keeps a lab up: a note in its state folder, by which others tell whether that process still lives.

A process number alone may be another process's by now, and after a reboot a start time can be, too: state may outlive
the boot that it is about. So a note holds number, start time and boot.
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
"""Labs are named so by us and by users; folders, cgroups and holders' marks are named after them."""


def is_lab_name(text: str) -> bool:
    """Tell whether a lab can have this name: what is found under any other is not ours."""
    return LAB_NAME.fullmatch(text) is not None


@cache
def boot_id() -> str:
    """Return the name of this boot, "" where the kernel shows none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks after boot; 0 when there is none, or it has ended (a zombie)."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return 0 if state in "ZX" else int(fields[18])
    except (OSError, ValueError, IndexError):
        return 0


def owner() -> dict[str, Any]:
    """Return the note on ourselves."""
    return {"pid": os.getpid(), "start": start_time(os.getpid()), "boot_id": boot_id()}


def lives(note: Mapping[str, Any]) -> bool:
    """Tell whether the process of a note runs; raise `TypeError` or `ValueError` for a damaged note."""
    return bool(note.get("start")) and this_boot(note) and start_time(int(note.get("pid", 0))) == note["start"]


def this_boot(note: Mapping[str, Any]) -> bool:
    """Tell whether a note was made since the machine was started."""
    return bool(note.get("boot_id", boot_id()) == boot_id())
