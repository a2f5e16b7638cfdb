"""Where things are kept: the cache (kernels, images, Docker's layers) and this boot's state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

RUN_FOLDER: Final = "TARE_RUN_FOLDER"
"""The variable that tells a command inside a user namespace where its user's state is: there, everybody is root."""


def cache_folder() -> Path:
    """Return the cache folder; it is the one thing that stays after a study."""
    base = os.environ.get("TARE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "tare"
    )
    return Path(base)


def run_folder() -> Path:
    """Return the folder of this boot's state: labs that are up, launch maps."""
    if given := os.environ.get(RUN_FOLDER):
        return Path(given)
    if os.geteuid() == 0:
        # The helper that launchers start is in it, and many systems start no program from /run.
        return Path("/var/lib/tare" if os.statvfs("/run").f_flag & os.ST_NOEXEC else "/run/tare")
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "tare" if base else Path(f"/tmp/tare-{os.getuid()}")
