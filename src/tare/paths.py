"""Where things are kept: the cache (kernels, images, Docker's layers) and this boot's state."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder; it is the one thing that stays after a study."""
    base = os.environ.get("TARE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "tare"
    )
    return Path(base)


def run_folder() -> Path:
    """Return the folder of this boot's state: labs that are up, launch maps."""
    base = Path("/run") if os.geteuid() == 0 else Path(os.environ.get("XDG_RUNTIME_DIR", f"/tmp/tare-{os.getuid()}"))
    return base / "tare"
