"""Check before a launch whether this machine's MPI and fabric libraries can be loaded in an image.

They are loaded together with the image's C library, and in place of the image's libraries of the same names. So each
version that they need of a library that stays the image's must be there, and so must each version and symbol that the
image's program needs of a library that is replaced. The dynamic loader would find that out in every rank, and stop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tare.images.host_mpi import HostMpi, glibc_release, library_of
from tare.images.inside.dynamic_loader import ContainerView, find_linked
from tare.images.inside.inspect import LIBRARIES, plain
from tare.images.inside.safe_paths import inside
from tare.images.inside.versions import symbols_of, versions_of

NUMBERS: Final = re.compile(r"\d+")
NEWER: Final = "use an image of a newer distribution, or the image's own MPI (launch: exec)"
OWN: Final = "use the image's own MPI (launch: exec)"
MOST_NAMED: Final = 3
KNOWN: Final = ("libmpi", "libuc", "libfabric", "libibverbs", "libopen-", "libpmix")
"""Libraries that a sentence names first, in this order, because users know them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVersion:
    """A version that a file needs, and that the library which would be loaded does not define."""

    file: str
    version: str
    library: str


def misfit(mpi: HostMpi, title: str, rootfs: Path, program: Path | None = None) -> str | None:
    """Return why an MPI of this machine cannot be loaded in an image, in one sentence with the remedy, or None.

    `program` is the image's program that the ranks run, None if it is this machine's.
    """
    if reason := too_old(mpi, rootfs):
        return reason
    if program is None or not program.is_relative_to(rootfs):
        return None
    return other_abi(mpi, title, rootfs, program) or replaced(mpi, title, rootfs, program)


def too_old(mpi: HostMpi, rootfs: Path) -> str | None:
    """Return which version the image's C library lacks for a library of the MPI, or None."""
    lacking = _lacking_of_image(mpi, rootfs)
    if not lacking:
        return None
    first = min(
        sorted(lacking, key=lambda each: _numbers(each.version), reverse=True), key=lambda each: _rank(each.file)
    )
    newest = max((each.version for each in lacking), key=_numbers)
    others = len({each.file for each in lacking}) - 1
    more = f", and {others} more of this machine's libraries need versions up to {newest}" if others else ""
    release = glibc_release(rootfs) if first.version.startswith("GLIBC_") else ""
    has = f"the image has glibc {release}" if release else f"the image's {first.library} lacks it"
    return f"{first.file} needs {first.version}, and {has}{more}: {NEWER}"


def _rank(file: str) -> int:
    """Return the place of a library among those that users know."""
    return next((place for place, name in enumerate(KNOWN) if file.startswith(name)), len(KNOWN))


@lru_cache(maxsize=64)
def _lacking_of_image(mpi: HostMpi, rootfs: Path) -> tuple[MissingVersion, ...]:
    return tuple(_missing_versions(mpi, rootfs))


def _missing_versions(mpi: HostMpi, rootfs: Path) -> Iterator[MissingVersion]:
    brought = {file.name for file in (mpi.folder / "lib").glob("*")}
    defined: dict[str, frozenset[str] | None] = {}
    for file in mpi.files:
        for library, versions in versions_of(file).needed.items():
            if library in brought or (file.parent / library).exists():
                continue
            if library not in defined:
                there = library_of(rootfs, library)
                defined[library] = versions_of(there).defined if there else None
            has = defined[library]
            if has is None:  # preflight says that the image has no C library
                continue
            missing = (each for each in versions if each not in has)
            yield from (MissingVersion(file=file.name, version=each, library=library) for each in missing)


def other_abi(mpi: HostMpi, title: str, rootfs: Path, program: Path) -> str | None:
    """Return that a program of the image is built for an MPI with another binary interface, or None."""
    loaded = find_linked(program, rootfs, _seen(mpi, program, rootfs)).found
    for name in LIBRARIES:
        if name in loaded and not loaded[name].is_relative_to(mpi.folder):
            if (mpi.folder / "lib" / name).exists():
                why = f"has a path in it (DT_RPATH) by which it loads the image's {name}"
            else:
                brought = ", ".join(each for each in LIBRARIES if (mpi.folder / "lib" / each).exists())
                why = f"is built for {name}, and {title} here is {brought or 'none of the known libraries'}"
            return f"{plain(program.name)} {why}: {OWN}"
    return None


def replaced(mpi: HostMpi, title: str, rootfs: Path, program: Path) -> str | None:
    """Return what a program of the image, or one of its libraries, needs of a library that is replaced, or None."""
    loaded = find_linked(program, rootfs, _seen(mpi, program, rootfs)).found
    own = [program, *(path for path in loaded.values() if path.is_relative_to(rootfs))]
    for file in (_real(path, rootfs) for path in own):
        for library, versions in versions_of(file).needed.items():
            provider = loaded.get(library)
            if provider is None or not provider.is_relative_to(mpi.folder):
                continue
            missing = [each for each in versions if each not in versions_of(provider).defined]
            if missing:
                newest, name = max(missing, key=_numbers), plain(file.name)
                return f"{name} of the image needs {newest} of {library}, and this machine's is older: {OWN}"
    missing_symbols = _unresolved(_real(program, rootfs), (_real(path, rootfs) for path in loaded.values()))
    if missing_symbols:
        named = ", ".join(map(plain, missing_symbols[:MOST_NAMED]))
        return f"{plain(program.name)} of the image needs {named}, which {title} here does not define: {OWN}"
    return None


def _seen(mpi: HostMpi, program: Path, rootfs: Path) -> ContainerView:
    """Return what a container sees: this machine's MPI first of all, and the folder of a program of this machine."""
    folder = mpi.folder / "lib"
    own = () if program.is_relative_to(rootfs) else (program.parent,)
    return replace(ContainerView.of(folder, *own), search=(str(folder),))


def _unresolved(program: Path, libraries: Iterable[Path]) -> list[str]:
    _, wanted = symbols_of(program)
    defined = frozenset[str]().union(*(symbols_of(path)[0] for path in libraries))
    return sorted(wanted - defined) if defined else []


def _real(path: Path, rootfs: Path) -> Path:
    """Return the file behind a name of the image, whose links are followed inside it."""
    if not path.is_relative_to(rootfs):
        return path
    return inside(rootfs, f"/{path.relative_to(rootfs)}") or path


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, NUMBERS.findall(version)))
