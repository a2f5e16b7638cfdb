"""Find the programs that a study names, on this machine and in images, before anything is launched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.host import process
from tare.images.inside.below import inside
from tare.model import Cell, Environment, Placement, Study, Workload
from tare.runtimes import RUNTIMES
from tare.workloads.program import adapter_of
from tare.workloads.programs import locate

SYSTEM: Final = tuple(map(Path, locate.PATH))
"""Folders that an image has its own of: what is in them is not shown inside, an image must have it itself."""

OWN_FOLDERS: Final = frozenset(
    {
        "/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/lib", "/lib64", "/opt", "/opt/tare", "/proc", "/run",
        "/sbin", "/sys", "/tare", "/tmp", "/usr", "/var",
    }
)  # fmt: skip
"""Folders that every node or container has of its own: shown inside as a whole, this machine's would hide theirs."""

SHORTEST: Final = 3
"""The parts of a prefix that may be shown whole: `/opt/osu`, and not a home folder with a `bin`."""


def located(study: Study) -> Study:
    """Return the study with the file of each program of others that is found outside of the system's folders.

    What is not found stays as it is stated, and is refused or looked for in the image by those who know where.
    """
    return replace(study, workloads=tuple(_located(workload, study.placements) for workload in study.workloads))


def _located(workload: Workload, placements: Iterable[Placement]) -> Workload:
    if not workload.program or all(adapter_of(workload).refuse(workload.arguments, each) for each in placements):
        return workload
    found = locate.found(adapter_of(workload), workload.arguments, workload.path)
    if found is None or (found.parent in SYSTEM and not workload.path):
        return workload
    return replace(workload, path=str(found.absolute()))


def cannot_run(workload: Workload, environment: Environment) -> str | None:
    """Return why a program of others cannot be where an environment's ranks are, or None; no image is looked into."""
    if not workload.program or environment.image or RUNTIMES[environment.runtime].is_fake:
        return None
    return locate.missing(adapter_of(workload), workload.arguments, workload.path)


def is_shown(workload: Workload) -> bool:
    """Tell whether a program of others is in a folder of this machine that pods are to be shown."""
    file = Path(workload.path)
    return bool(workload.program and workload.path) and file.parent not in SYSTEM and file.is_file()


def shown_folder(workload: Workload) -> str:
    """Return the folder to show: the one that the program is in, or what it and its libraries are installed below."""
    folder = Path(workload.path).parent
    prefix = folder.parent
    return str(prefix if folder.name == "bin" and len(prefix.parts) >= SHORTEST else folder)


def not_in_image(workload: Workload, rootfs: Path, search: Sequence[str] = locate.PATH) -> str | None:
    """Return that an image lacks a program that it must have itself, or None.

    `search` are the folders in which a command that is named without its folder is looked for.
    """
    if workload.command:
        return _command_not_in_image(workload.command[0], rootfs, search)
    if not workload.program or is_shown(workload):
        return None
    return locate.missing(adapter_of(workload), workload.arguments, workload.path, rootfs)


def _command_not_in_image(name: str, rootfs: Path, search: Sequence[str]) -> str | None:
    file = command_file(name)
    if file is not None and not is_of_system(file):
        return None  # its folder is shown
    places = [name] if "/" in name else [f"{folder}/{name}" for folder in search]
    if any(inside(rootfs, place) is not None for place in places):
        return None
    return f"{name} is not in the image: name an image that has it (--image, or image: in a study)"


def commands_of(cells: Iterable[Cell]) -> dict[str, bool]:
    """Return the commands of the user's that cells start, each with whether all of these cells have an image."""
    found: dict[str, bool] = {}
    for cell in cells:
        for name in cell.workload.command[:1]:
            found[name] = found.get(name, True) and bool(cell.environment.image)
    return found


def command_file(name: str) -> Path | None:
    """Return the file of this machine that a command starts, None where there is none.

    As a shell finds it: by its path if it has one, else on PATH; else in the current folder, as mpirun does.
    """
    on_path = None if "/" in name else process.find(name)
    path = Path(on_path or name).absolute()
    return path if path.is_file() else None


def check_executable(file: Path) -> None:
    """Raise `RefusedError` for a file of this machine that cannot be executed."""
    if not os.access(file, os.X_OK):
        raise RefusedError(f"{file} is not executable", remedy=f"chmod +x {file}")


def no_such_program(name: str) -> RefusedError:
    """Return the error that says that a command is not on this machine."""
    if Path(name).is_dir():
        return RefusedError(f"{name} is a folder, not a program", remedy="name the program in it")
    if "/" in name:
        return RefusedError(f"there is no program {name}", remedy="check the path")
    return RefusedError(
        f"there is no program {name} on PATH or in the current folder",
        remedy="name the program with its path, as ./app",
    )


def is_of_system(file: Path) -> bool:
    """Tell whether a program is in a folder that every image has of its own, so that this one cannot be shown there."""
    return file.parent in SYSTEM


def check_can_be_shown(folder: str, what: str) -> None:
    """Raise `RefusedError` where this machine's folder cannot be shown on nodes and in containers at the same path."""
    if folder in OWN_FOLDERS:
        example = f"{folder.rstrip('/')}/study"
        raise RefusedError(
            f"{what} is {folder}, and every node or container has a {folder} of its own",
            remedy=f"use a folder below it, such as {example}" if folder in ("/tmp", "/opt") else "use another folder",
        )


def program_file(workload: Workload, rootfs: Path | None) -> Path | None:
    """Return the file of this machine that is a workload's program, inside an image's root file system if it is there.

    None where there is none: what only an image has is not looked into if the study names it by a path of its own.
    """
    if not workload.program:
        name = workload.executable
        return Path(name) if "/" in name and Path(name).is_file() else None
    if is_shown(workload):
        return Path(workload.path)
    found = locate.found(adapter_of(workload), workload.arguments, workload.path, rootfs)
    return found if found is None or rootfs is None else inside(rootfs, str(found))
