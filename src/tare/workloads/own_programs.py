"""Check whether the user's program finds its libraries, on this machine and inside an image.

On this machine the dynamic loader is asked. In an image nothing is started: its loader is a program of whoever made the
image, and would have the rights of the caller, who is often root.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tare.images.inside.dynamic_loader import ContainerView, find_linked
from tare.images.inside.inspect import LIBRARIES, plain
from tare.system.process import run
from tare.workloads.program_places import OWN_FOLDERS, SHORTEST, SYSTEM

FOUND: Final = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)
SEARCH: Final = "LD_LIBRARY_PATH"
OF_SYSTEM: Final = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/opt/tare")
"""Folders with libraries that images have themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLibrary:
    """A library that a program does not find where it is to run: `file` is the one that it finds here, if any.

    `package` is the package of Debian that has this file, "" if none has; `damage` why a file of the image is no
    library.
    """

    name: str
    file: Path | None = None
    package: str = ""
    damage: str = ""


def missing_libraries(
    program: Path, root: Path | None, seen: ContainerView | None = None, search: str = ""
) -> list[str]:
    """Return the libraries that a program does not find, on this machine or inside an image's root file system.

    `seen` is what a container sees of this machine, `search` the LD_LIBRARY_PATH of this machine's ranks. A program
    that is not dynamically linked, or a script, lacks none. A file of an image that cannot be read as a library is
    listed with the reason.
    """
    if root is not None:
        resolved = find_linked(program, root, seen)
        damaged = (f"{name} (cannot be read: {reason})" for name, reason in resolved.damaged.items())
        return sorted(map(plain, (*resolved.missing, *damaged)))
    output = _ldd_output(program, search)
    missing = [line.split("=>")[0].strip() for line in output.splitlines() if "not found" in line and "=>" in line]
    missing += re.findall(r"([^\s:]+): cannot open shared object file", output)
    return sorted(set(missing))


def libraries(program: Path, root: Path | None, seen: ContainerView | None = None) -> dict[str, Path]:
    """Return the libraries that the dynamic loader finds for a program, by the names that the program asks for.

    The paths are those on this machine, also for libraries in an image. Without `seen`, an image sees the folder of the
    program, or the prefix that contains its `bin` (`located.shown_folder`).
    """
    if root is not None:
        installed = program.parent.name == "bin" and len(program.parents) > SHORTEST
        return dict(
            find_linked(program, root, seen or (ContainerView.of(program.parents[1]) if installed else None)).found
        )
    return {name: Path(path) for name, path in FOUND.findall(_ldd_output(program))}


def own_folders(program: Path, search: str = "") -> tuple[str, ...]:
    """Return the folders of this machine that a program of this machine needs besides its own, to be shown inside.

    They are those of its libraries by its own search paths, and by `search`, the LD_LIBRARY_PATH that ranks get, and
    the whole of a virtual environment of Python. Folders of the system, and of an MPI, are an image's own.
    """
    files = [Path(os.path.normpath(path)) for _, path in FOUND.findall(_ldd_output(program, search))]
    of_mpi = {file.parent for file in files if file.name in LIBRARIES}
    environment = program.parent.parent
    own = environment if (environment / "pyvenv.cfg").is_file() else program.parent
    folders = {file.parent for file in files} - of_mpi | {own}
    beside = (folder for folder in folders if not folder.is_relative_to(program.parent) and not _is_of_system(folder))
    return tuple(sorted(map(str, beside)))


def _is_of_system(folder: Path) -> bool:
    return str(folder) in OWN_FOLDERS or folder in SYSTEM or any(map(folder.is_relative_to, OF_SYSTEM))


def lacking(program: Path, rootfs: Path, seen: ContainerView) -> tuple[MissingLibrary, ...]:
    """Return the libraries that a program does not find in an image, with where this machine has them."""
    resolved = find_linked(program, rootfs, seen)
    if not resolved.missing and not resolved.damaged:
        return ()
    here = libraries(program, None) if not program.is_relative_to(rootfs) else {}
    missing = (_missing(name, here.get(name)) for name in resolved.missing)
    return (*missing, *(MissingLibrary(name=plain(name), damage=why) for name, why in resolved.damaged.items()))


def _missing(name: str, file: Path | None) -> MissingLibrary:
    return MissingLibrary(name=plain(name), file=file, package=package_of(file) if file else "")


@lru_cache
def package_of(file: Path) -> str:
    """Return the package of Debian that has a file of this machine, "" if none has or this is no Debian."""
    for path in (file, Path(str(file.resolve()).removeprefix("/usr"))):  # dpkg knows a file by the name in its package
        told = run(("dpkg-query", "--search", str(path)), check=False, timeout_s=20).stdout if _has_dpkg() else ""
        if told:
            return told.partition(":")[0].strip()
    return ""


def _has_dpkg() -> bool:
    return Path("/var/lib/dpkg/status").is_file()


def _ldd_output(program: Path, search: str = "") -> str:
    """Return what `ldd` on this machine prints about a program that has only `search` as LD_LIBRARY_PATH."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    result = run(
        ("ldd", str(program)), check=False, timeout_s=20, env={**variables, **({SEARCH: search} if search else {})}
    )
    return result.stdout + result.stderr
