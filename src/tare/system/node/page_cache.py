"""Drop the kernel's caches of files, so that a launch reads from disk.

This affects the whole machine: it slows every program that reads files for some seconds. It is done only if a study
asks for it (`startup: cold`, or `cold=1` of a mini-application that reads files of the image). Files mapped by a
running program stay in memory: the C library, for one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError

DROP: Final = Path("/proc/sys/vm/drop_caches")
ALL: Final = "3\n"
"""Page cache, dentries and inodes."""
WARM: Final = "use startup: warm, or a mini-application without cold=1"


def missing() -> str | None:
    """Return why caches cannot be dropped here, or None; nothing is dropped."""
    if not DROP.exists():
        return f"this kernel has no {DROP}: {WARM}"
    if not os.access(DROP, os.W_OK):
        return f"{DROP} cannot be written here, so caches stay warm: run as root of the machine, or {WARM}"
    return None


def drop() -> None:
    """Write dirty pages to disk, and drop everything that can be read again.

    Raises `InfrastructureError` if the kernel refuses.
    """
    os.sync()
    try:
        DROP.write_text(ALL)
    except OSError as error:
        raise InfrastructureError(
            f"the machine's page cache cannot be dropped: {error.strerror}", remedy=WARM
        ) from error
