"""Inspect an image without starting anything in it: which MPI it has, and where its C library is.

Links in an image are followed as inside it: an absolute link begins at the image's root directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from tare.images.inside.safe_paths import inside, open_regular

LIBRARY_PLACES: Final = ("lib", "lib64", "usr/lib", "usr/lib64", "usr/local", "opt")
PROGRAM_PLACES: Final = ("usr/local/bin", "usr/bin", "bin", "usr/local/sbin", "usr/sbin", "sbin")
DEEPEST: Final = 6
"""The depth of the search below one of the places: /opt/NAME/VERSION/lib, /usr/lib/TRIPLET/openmpi/lib."""

LARGEST_BYTES: Final = 1 << 30
PIECE_BYTES: Final = 1 << 20
OVERLAP_BYTES: Final = 256
"""How much of a file is searched, and the size of the pieces: an image may have a file of any length."""

LIBRARIES: Final = {
    "libmpi.so.40": "openmpi",
    "libmpi.so.20": "openmpi",
    "libmpi.so.12": "mpich",
    "libmpich.so.12": "mpich",
}
"""The file names by which programs request their MPI, in search order: the name in MPICH's common ABI (MPICH, Intel
MPI, MVAPICH) counts as mpich."""

TITLES: Final = {"openmpi": "Open MPI", "mpich": "MPICH"}
"""What people call each family."""

LAUNCHERS: Final = {"openmpi": ("mpirun.openmpi", "mpirun", "prterun"), "mpich": ("mpiexec.hydra", "mpirun.mpich")}
DAEMONS: Final = {"openmpi": ("orted", "prted"), "mpich": ("hydra_pmi_proxy",)}
VERSIONS: Final = {
    "openmpi": re.compile(rb"\0(\d+\.\d+\.\d+)(?:rc\d+|a\d+)?\0"),
    "mpich": re.compile(rb"\0((?:[2-9]|20\d\d)\.\d+(?:\.\d+)?)(?:rc\d+|[ab]\d+)?\0"),
}
PMIX: Final = re.compile(rb"PMIx (\d+\.\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiInside:
    """The MPI of an image. Paths are those inside it; "" means not found.

    `soname` is the name by which programs request the library, `pmix` the version of its PMIx library.
    """

    family: str
    soname: str
    library: str
    version: str = ""
    pmix: str = ""
    launcher: str = ""
    daemon: str = ""


def mpi_of(rootfs: Path) -> MpiInside | None:
    """Return the MPI in a root file system, or None; if there are several, the first of `LIBRARIES`."""
    wanted = {*LIBRARIES, "libpmix.so.2"}
    versions: dict[str, str] = {}
    for path in _libraries(rootfs):
        name = path.name
        if name in wanted:
            versions.setdefault(name, str(path))
    soname = next((name for name in LIBRARIES if name in versions), None)
    if soname is None:
        return None
    family = LIBRARIES[soname]
    prefix = _prefix_of(versions[soname])
    pmix = _first(PMIX, inside(rootfs, versions["libpmix.so.2"])) if "libpmix.so.2" in versions else ""
    return MpiInside(
        family=family,
        soname=soname,
        library=versions[soname],
        version=_first(VERSIONS[family], inside(rootfs, versions[soname])),
        pmix=pmix,
        launcher=_program(rootfs, LAUNCHERS[family], prefix),
        daemon=_program(rootfs, DAEMONS[family], prefix),
    )


def version_of(family: str, library: Path) -> str:
    """Return the version of an MPI's library, or ""."""
    return _first(VERSIONS[family], library)


def pmix_of(library: Path) -> str:
    """Return the version of a PMIx library, or ""."""
    return _first(PMIX, library)


def _libraries(rootfs: Path) -> Iterator[PurePosixPath]:
    """Yield the files, and links to files, below the library folders, as paths inside the image."""
    for place in LIBRARY_PLACES:
        top = rootfs / place
        if inside(rootfs, place) != top or not top.is_dir():  # /lib is often /usr/lib, which is searched separately
            continue
        for folder, folders, files in os.walk(top):
            relative = PurePosixPath("/", Path(folder).relative_to(rootfs).as_posix())
            if len(relative.parts) - len(PurePosixPath(place).parts) > DEEPEST:
                folders.clear()
            folders.sort()
            yield from (relative / name for name in sorted(files))


def _prefix_of(library: str) -> str:
    """Return the parent of a library's `lib` folder: its programs are there, if not with all others."""
    parts = PurePosixPath(library).parts
    below = next((number for number in range(len(parts) - 1, 0, -1) if parts[number] in ("lib", "lib64")), 1)
    return str(PurePosixPath(*parts[:below]))


def _program(rootfs: Path, names: tuple[str, ...], prefix: str) -> str:
    """Return the first of the programs that an image has, as a path inside it, or ""."""
    folders = dict.fromkeys((str(PurePosixPath(prefix) / "bin"), *(f"/{place}" for place in PROGRAM_PLACES)))
    for name in names:
        for folder in folders:
            program = inside(rootfs, f"{folder}/{name}")
            if program is not None and program.is_file():
                return f"{folder}/{name}"
    return ""


def plain(text: str) -> str:
    """Return a text of an image in printable form: it may contain terminal escapes."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def contains(file: Path, text: bytes) -> bool:
    """Return whether a file contains a short text."""
    try:
        with open_regular(file) as content:
            return any(text in piece for piece in read_overlapping(content))
    except OSError:
        return False


def read_overlapping(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file in pieces, each preceded by the end of the previous one, to search for short texts."""
    end, left = b"", LARGEST_BYTES
    while left > 0 and (piece := file.read(min(left, PIECE_BYTES))):
        yield end + piece
        end, left = piece[-OVERLAP_BYTES:], left - len(piece)


def _first(pattern: re.Pattern[bytes], file: Path | None) -> str:
    """Return the first match of a pattern in a file, or ""."""
    if file is None:
        return ""
    try:
        with open_regular(file) as content:
            hit = next((match for piece in read_overlapping(content) if (match := pattern.search(piece))), None)
    except OSError:
        return ""
    return hit.group(1).decode() if hit else ""
