"""Provide the file operations that `tare.store.writer` calls in order: create, lock, write atomically, repair.

The lock is a POSIX one (`lockf`), because a forked child does not inherit it: a pod holder that outlives a killed run
must not keep the folder locked, as it would with `flock`. The folder may be an ordinary user's while we are root, so
everything is opened by `tare.system.safe_files`, which does not follow that user's links.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare import __version__, model
from tare.errors import ResultsError
from tare.store.codec import encode
from tare.store.results import COLUMN, FORMAT, PLAN, SAMPLES, SHARED, TRIALS, TRUNCATED
from tare.system.node.owners import pid_namespace
from tare.system.safe_files import PARTIAL, exists, folder_at, open_file, replacing

if TYPE_CHECKING:
    from tare.store.results import Columns

LOCK: Final = "lock"
_OURS: Final = frozenset({PLAN, TRIALS, SHARED, TRUNCATED, SAMPLES, LOCK, PLAN + PARTIAL})
_SAMPLES_NAME: Final = re.compile(r"r\d+-b\d+-a\d+-c\d+(-n\d+)?\.npz(\.partial)?")


def make_folder(path: Path) -> None:
    """Create the folder, or check that an existing one is a results folder or empty."""
    try:
        with folder_at(path, make=True) as folder:
            _check_ours(path, folder)
    except NotADirectoryError as error:
        raise ResultsError(
            f"{error.filename or path} is a file: results need a folder", remedy="name a folder"
        ) from None


def _check_ours(path: Path, folder: int) -> None:
    if exists(folder, PLAN):
        return
    foreign = sorted(name for name in os.listdir(folder) if name not in _OURS)
    if foreign:
        raise ResultsError(
            f"{path} is not empty, and not a results folder (it contains {foreign[0]})", remedy="name another folder"
        )
    if exists(folder, TRIALS) and os.stat(TRIALS, dir_fd=folder, follow_symlinks=False).st_size:
        raise ResultsError(f"{path} has trials but no {PLAN}", remedy="restore it from a copy, or name another folder")


def make_samples(path: Path) -> None:
    """Create the folder for samples."""
    with folder_at(path / SAMPLES, make=True):
        pass


def take_lock(path: Path) -> int:
    """Return the open and locked lock file, or raise `ResultsError` naming the process that holds the lock."""
    with folder_at(path) as folder:
        number = open_file(folder, LOCK, os.O_RDWR | os.O_CREAT, place=path)
    place = f"{pid_namespace()} {os.uname().nodename}"
    try:
        fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        owner, _, where = os.pread(number, 200, 0).decode(errors="replace").strip().partition("\n")
        os.close(number)
        elsewhere = "" if where in ("", place) else f" on {where.partition(' ')[2]}, another host or container"
        raise ResultsError(
            f"another tare is writing to {path} (process {owner or 'unknown'}{elsewhere})",
            remedy="wait until it ends, or name another folder",
        ) from None
    except OSError as error:
        os.close(number)
        raise ResultsError(
            f"{path} cannot be locked, so that two runs could write to it at the same time: {error.strerror}",
            remedy="name a folder on a file system with locks (of NFS with its lock service, of Lustre with -o flock)",
        ) from None
    os.ftruncate(number, 0)
    os.pwrite(number, f"{os.getpid()}\n{place}\n".encode(), 0)
    return number


def close_file(number: int) -> None:
    """Close a file descriptor; -1 means none."""
    if number >= 0:
        os.close(number)


def archive_results(path: Path) -> None:
    """Rename the folder to the first free `NAME.previous-N`."""
    path = Path(os.path.abspath(path))
    with folder_at(path.parent) as parent:
        number = 1
        while exists(parent, aside := f"{path.name}.previous-{number}"):
            number += 1
        os.rename(path.name, aside, src_dir_fd=parent, dst_dir_fd=parent)


def open_lines(path: Path, name: str) -> int:
    """Open a file of lines for appending."""
    with folder_at(path) as folder:
        return open_file(folder, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, place=path)


class Lines:
    """An open file of lines: each write is synced, and rolled back if it fails half-way. `end` is its size."""

    def __init__(self, path: Path, name: str) -> None:
        self._number = open_lines(path, name)
        self.end = os.fstat(self._number).st_size

    def append(self, data: bytes) -> None:
        """Append lines; raise `OSError` if they cannot be written, with the file unchanged."""
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._number, rest) :]
            os.fdatasync(self._number)
        except OSError:
            os.ftruncate(self._number, self.end)
            raise
        self.end += len(data)

    def close(self) -> None:
        """Close the file; may be called more than once."""
        close_file(self._number)
        self._number = -1


def write_plan(path: Path, plan: model.Plan, header: Mapping[str, Any]) -> None:
    """Write plan.json atomically."""
    stated = dict(header) | {"format": FORMAT, "tool": f"tare {__version__}", "plan": encode(plan)}
    with folder_at(path) as folder:
        with replacing(folder, PLAN) as file:
            file.write(json.dumps(stated, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        os.fsync(folder)


def set_torn_line_aside(path: Path, offset: int, torn: bytes) -> None:
    """Save a torn last line to a separate file, then truncate the trials file."""
    note = {"unix_s": time.time(), "offset": offset, "text": torn.decode(errors="backslashreplace")}
    with folder_at(path) as folder:
        aside = open_file(folder, TRUNCATED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, place=path)
        with os.fdopen(aside, "a") as file:
            file.write(json.dumps(note) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with os.fdopen(open_file(folder, TRIALS, os.O_RDWR, place=path), "r+b") as trials:
            trials.truncate(offset)
            os.fsync(trials.fileno())


def remove_orphans(path: Path, files: Iterable[str]) -> None:
    """Remove sample files other than those of trials: tare was killed before it wrote the trial's line."""
    kept = {file.rpartition("/")[2] for file in files}
    with folder_at(path / SAMPLES) as folder:
        for name in os.listdir(folder):
            if name not in kept and _SAMPLES_NAME.fullmatch(name):
                with suppress(IsADirectoryError):  # tare has made none
                    os.unlink(name, dir_fd=folder)


def write_samples(path: Path, columns: Columns) -> None:
    """Write an .npz file atomically; `np.savez` is not used because it does not accept a column named `file`."""
    import numpy as np

    with folder_at(path.parent) as folder, replacing(folder, path.name) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, column in columns.items():
                if not COLUMN.fullmatch(name):
                    raise ValueError(f"{name!r} cannot name a column of samples")
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(column), allow_pickle=False)
        file.flush()
        os.fdatasync(file.fileno())
