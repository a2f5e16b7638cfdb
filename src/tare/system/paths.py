"""Locate tare's folders: the cache (kernels, images, Docker's layers) and this boot's state."""

from __future__ import annotations

import atexit
import fcntl
import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError

OTHER: Final = "remove it, or set XDG_RUNTIME_DIR to a folder that you own"
RUN_FOLDER: Final = "TARE_RUN_FOLDER"
"""Names the user's state folder for a command inside a user namespace, where everybody is root."""
_OF_ROOT: Final = (Path("/run/tare"), Path("/var/lib/tare"))
_used: Final = set[Path]()
"""The folders that this process has a shared lock on."""


def cache_folder() -> Path:
    """Return the cache folder; it is the only thing that remains after a study."""
    base = os.environ.get("TARE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "tare"
    )
    return Path(base)


def run_folder() -> Path:
    """Return the folder of this boot's state: labs that are up, launch maps.

    Raises `InfrastructureError` if another user could have made its contents: tare enters processes and starts programs
    that these files name.
    """
    folder = _run_folder()
    try:
        status = folder.lstat()
    except OSError:
        return folder  # it does not exist yet
    if not stat.S_ISDIR(status.st_mode):
        raise InfrastructureError(f"{folder} is not a folder", remedy=OTHER)
    if status.st_uid != os.geteuid():
        raise InfrastructureError(f"{folder} belongs to another user (uid {status.st_uid})", remedy=OTHER)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InfrastructureError(f"{folder} is writable by other users", remedy=f"chmod go-w {folder}")
    return folder


def made_run_folder() -> Path:
    """Return the folder of this boot's state, and create it if missing; raise as `run_folder` does.

    A user's is removed when the last process ends that has called this, if nothing is in it.
    """
    # The temporary user of podman-rootless reaches the folder of its run through root's.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    _run_folder().mkdir(mode=mode, parents=True, exist_ok=True)
    folder = run_folder()
    while folder not in (*_OF_ROOT, *_used):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(number, fcntl.LOCK_SH)
        if folder.exists() and os.path.samestat(folder.stat(), os.fstat(number)):
            _used.add(folder)
            atexit.register(_leave, folder, number)
        else:  # the last process that used it has ended meanwhile
            os.close(number)
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
    return folder


def _leave(folder: Path, number: int) -> None:
    """Remove a user's folder of state if it is empty and no other process uses it."""
    with suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.rmdir()


def state_identity() -> str:
    """Return what distinguishes the folder of this boot's state from others of the same path, "" if it does not exist.

    A container of this machine has the same paths, and its processes and cgroups are visible here. Device and inode are
    the same in all namespaces.
    """
    try:
        return _identity(run_folder())
    except FileNotFoundError:
        return ""


@cache  # a run whose folder is removed must still recognise, and remove, what it made
def _identity(folder: Path) -> str:
    found = folder.stat()
    return f"{found.st_dev:x}-{found.st_ino:x}"


def _run_folder() -> Path:
    if given := os.environ.get(RUN_FOLDER):
        return Path(given)
    if os.geteuid() == 0:
        # It holds the helper that launchers start, and many systems mount /run noexec.
        return _OF_ROOT[bool(os.statvfs("/run").f_flag & os.ST_NOEXEC)]
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "tare" if base else Path(f"/tmp/tare-{os.getuid()}")
