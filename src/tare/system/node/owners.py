"""Record which process keeps a lab up: a note in its state folder, by which others check whether the process lives.

A process number may have been reused, and after a reboot a start time can match by chance too, because state may
outlive its boot. So a note holds the number, the start time and the boot. Containers may share the folder but not the
numbers of processes: a note also names the PID namespace, and its process keeps it locked, which is seen from all.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from tare.system.node.kernel_files import read_text
from tare.system.node.process_stat import start_time
from tare.system.paths import made_run_folder

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
NOTE: Final = "owner.json"
NAMESPACE: Final = "pid_namespace"
HELD: Final = "held"
"""The key that `read_note` adds to the note of another PID namespace: whether its process still runs."""
LAB_NAME: Final = re.compile(r"[A-Za-z0-9]{1,32}")
"""Valid lab names, chosen by tare and by users; folders, cgroups and holders' marks are named after labs."""


def is_lab_name(text: str) -> bool:
    """Return whether a lab can have this name; anything found under another name is not tare's."""
    return LAB_NAME.fullmatch(text) is not None


@cache
def boot_id() -> str:
    """Return the ID of this boot, "" if the kernel shows none."""
    return read_text(str(BOOT_ID)).strip()


@cache
def pid_namespace() -> str:
    """Return the PID namespace in which this process sees others, "" if it is not shown."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def owner() -> dict[str, Any]:
    """Return the note for this process."""
    own = {"pid": os.getpid(), "start": start_time(os.getpid()), NAMESPACE: pid_namespace()}
    return {**own, "boot_id": boot_id(), "host": os.uname().nodename}


def write_note(folder: Path, lab: str, **more: Any) -> None:
    """Record in a state folder that this process keeps a lab up, and keep the note locked until the process ends.

    The note is complete and locked when it appears.
    """
    made = folder / f".{NOTE}"
    number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(number, fcntl.LOCK_EX)
    os.write(number, json.dumps({"lab": lab, **owner(), **more}).encode())
    made.rename(folder / NOTE)


@contextmanager
def state_folder(prefix: str, lab: str, **more: Any) -> Iterator[Path]:
    """Keep a state folder with a note on its owner, by which leftovers of a killed run are recognised."""
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=made_run_folder()))
    try:
        write_note(folder, lab, **more)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_note(file: Path) -> dict[str, Any]:
    """Return a note, empty if it is damaged."""
    with suppress(OSError, ValueError), file.open() as opened:
        note: object = json.load(opened)
        if isinstance(note, dict):
            return note if is_visible(note) else {**note, HELD: _is_locked(opened.fileno())}
    return {}


def _is_locked(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # also where there are no locks: what cannot be judged is not removed
        return True
    return False


def is_of_this_machine(note: Mapping[str, Any]) -> bool:
    """Return whether a note was written on this machine: machines may share a folder, but not their processes.

    A container has another hostname, but the same boot.
    """
    here = os.uname().nodename
    return bool(note.get("host", here) == here or note.get("boot_id", "") == boot_id() != "")


def is_visible(note: Mapping[str, Any]) -> bool:
    """Return whether a note's process, if it runs, has the same number here: it is in this PID namespace."""
    return not this_boot(note) or note.get(NAMESPACE, pid_namespace()) == pid_namespace()


def lives(note: Mapping[str, Any]) -> bool:
    """Return whether a note's process runs; raise `TypeError` or `ValueError` for a damaged note."""
    if not is_visible(note):
        return bool(note.get(HELD))
    return bool(note.get("start")) and this_boot(note) and start_time(int(note.get("pid", 0))) == note["start"]


def this_boot(note: Mapping[str, Any]) -> bool:
    """Return whether a note was written since the machine booted."""
    return bool(note.get("boot_id", boot_id()) == boot_id())
