"""Find a third-party program: below a folder that the study names, on PATH, or where tools/programs installs it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tare.images import to_add
from tare.images.inside.safe_paths import inside
from tare.workloads.programs.adapter import ProgramAdapter

PATH: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""The folders that are searched in an image; its own variables are not known here."""

INSTALLS: Final = re.compile(r"apt-get install (\S+)")
BELOW: Final = ("", "bin", "libexec/osu-micro-benchmarks/mpi/*", "mpi/*", "*")
"""The folders below the one that a study names in which a program is searched, as by `tare-run`."""


def found(
    adapter: ProgramAdapter, arguments: tuple[str, ...] = (), path: str = "", root: Path | None = None
) -> Path | None:
    """Return the path of a program as its ranks see it, or None.

    `path` is that of the study: the program itself or a folder above it. `root` is an image's root file system, or None
    for this machine.
    """
    name = adapter.executable(arguments)
    for place in _candidates(adapter, name, path, root):
        if _is_program(_below(root, place), root):
            return place
    return None


def missing(
    adapter: ProgramAdapter,
    arguments: tuple[str, ...] = (),
    path: str = "",
    root: Path | None = None,
    image: str = "",
) -> str | None:
    """Return why a program cannot run, with the command that installs it, or None; `root` is the system of `image`."""
    if found(adapter, arguments, path, root):
        return None
    name = adapter.executable(arguments)
    where = "in the image" if root else "here"
    if path:
        return f"{name} is neither {path} nor in a folder below it {where}: correct path: in the study"
    if root and (package := INSTALLS.fullmatch(adapter.brought_by)):
        return f"{name} is not in the image: {to_add(package[1], image)}"
    return f"{name} is not {where}: {adapter.brought_by}"


def _candidates(adapter: ProgramAdapter, name: str, path: str, root: Path | None) -> Iterator[Path]:
    if path:
        if Path(path).name == name or not _below(root, Path(path)).is_dir():
            yield Path(path)
        for folder in BELOW:
            yield from _matches(root, Path(path, folder), name)
        return
    for folder in PATH if root else os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("/"):
            yield Path(folder, name)
    for folder in adapter.places:
        yield from _matches(root, Path(folder), name)


def _matches(root: Path | None, folder: Path, name: str) -> Iterator[Path]:
    """Yield the program in a folder whose last part may be `*`, which stands for any one folder."""
    if folder.name != "*":
        yield folder / name
        return
    above = _below(root, folder.parent)
    if above.is_dir():
        for inside in sorted(above.iterdir()):
            yield folder.parent / inside.name / name


def _below(root: Path | None, path: Path) -> Path:
    return root / path.relative_to("/") if root and path.is_absolute() else path


def _is_program(path: Path, root: Path | None) -> bool:
    """Return whether a file is executable; a link in an image is followed from the image's root."""
    file = inside(root, str(path.relative_to(root))) if root and path.is_relative_to(root) else path
    return file is not None and file.is_file() and os.access(file, os.X_OK)
