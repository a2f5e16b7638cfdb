"""Say why this machine cannot take part in a job of the head, as far as that is known before the first launch."""

from __future__ import annotations

import os
from pathlib import Path

from tare.mpi import MPIS


def unfit(mpi: str, head_version: str, folders: tuple[str, ...]) -> str | None:
    """Return what differs from the head's MPI, or which of the folders for programs forbids to start them, or None."""
    version = MPIS[mpi].version()
    if version and version != head_version:
        return f"its {version} is not the head's {head_version or 'MPI'}, and one job needs one version"
    return next((f"{folder} is mounted noexec: no program can be started from it" for folder in folders
                 if forbids_programs(Path(folder))), None)  # fmt: skip


def forbids_programs(folder: Path) -> bool:
    """Return whether a folder, or what it will be made in, is in a file system that is mounted noexec."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)
    except OSError:
        return False
