"""Where things are kept: the cache (kernels, images, Docker's layers) and this boot's state."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError

OTHER: Final = "remove it, or name a folder of yours with XDG_RUNTIME_DIR"
RUN_FOLDER: Final = "TARE_RUN_FOLDER"
"""The variable that tells a command inside a user namespace where its user's state is: there, everybody is root."""


def cache_folder() -> Path:
    """Return the cache folder; it is the one thing that stays after a study."""
    base = os.environ.get("TARE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "tare"
    )
    return Path(base)


def run_folder() -> Path:
    """Return the folder of this boot's state: labs that are up, launch maps.

    Raises `InfrastructureError` where another user could have made what is in it: we enter processes and start programs
    by what it says.
    """
    folder = _run_folder()
    try:
        found = folder.lstat()
    except OSError:
        return folder  # it is not there yet
    if not stat.S_ISDIR(found.st_mode):
        raise InfrastructureError(f"{folder} is not a folder", remedy=OTHER)
    if found.st_uid != os.geteuid():
        raise InfrastructureError(f"{folder} belongs to another user (number {found.st_uid})", remedy=OTHER)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InfrastructureError(f"{folder} can be written to by other users", remedy=f"chmod go-w {folder}")
    return folder


def made_run_folder() -> Path:
    """Return the folder of this boot's state, made where it is not; raise as `run_folder` does."""
    # The made-up user of podman-rootless passes through root's to the folder of its run.
    _run_folder().mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    return run_folder()


def _run_folder() -> Path:
    if given := os.environ.get(RUN_FOLDER):
        return Path(given)
    if os.geteuid() == 0:
        # The helper that launchers start is in it, and many systems start no program from /run.
        return Path("/var/lib/tare" if os.statvfs("/run").f_flag & os.ST_NOEXEC else "/run/tare")
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "tare" if base else Path(f"/tmp/tare-{os.getuid()}")
