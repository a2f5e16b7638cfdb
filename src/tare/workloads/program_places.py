"""Find the programs that a study names, on this machine and in images, before anything is launched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.images.inside.safe_paths import inside
from tare.model import Cell, Environment, Placement, Study, Workload
from tare.runtimes import RUNTIMES
from tare.system import process
from tare.system.binds import absolute
from tare.workloads.file_form import check_form, check_source
from tare.workloads.program import adapter_of
from tare.workloads.programs import locate

SYSTEM: Final = tuple(map(Path, locate.PATH))
"""Folders that every image has itself: programs in them are not shown inside, so an image must contain them."""

OWN_FOLDERS: Final = frozenset(
    {
        "/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/lib", "/lib64", "/opt", "/opt/tare", "/proc", "/run",
        "/sbin", "/sys", "/tare", "/tmp", "/usr", "/var",
    }
)  # fmt: skip
"""Folders that every node or container has itself: if this machine's were shown inside, they would hide those."""

EXECUTABLE: Final = 0o111
"""The bits of a file's mode that let somebody execute it."""
SHORTEST: Final = 3
"""Number of path parts from which a prefix may be shown whole: `/opt/osu`, but not a home folder with a `bin`."""
IN_IMAGES: Final = tuple((name,) for name in ("bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr"))
"""Top folders of which images have their own."""
MOST_LINKS: Final = 40
MOST_ENTRIES: Final = 10_000
"""So many entries of a folder are examined for links."""
LAUNCHERS: Final = frozenset(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun"))


def located(study: Study) -> Study:
    """Return the study with the file of each third-party program that is found outside of the system's folders.

    A program that is not found stays as stated: it is refused, or looked for in the image, later.
    """
    return replace(study, workloads=tuple(_located(workload, study.placements) for workload in study.workloads))


def _located(workload: Workload, placements: Iterable[Placement]) -> Workload:
    if not workload.program or all(adapter_of(workload).refuse(workload.arguments, each) for each in placements):
        return workload
    file = locate.found(adapter_of(workload), workload.arguments, workload.path)
    if file is None or (file.parent in SYSTEM and not workload.path):
        return workload
    return replace(workload, path=str(file.absolute()))


def cannot_run(workload: Workload, environment: Environment) -> str | None:
    """Return why a third-party program is missing where an environment's ranks run, or None; images are not read."""
    if not workload.program or environment.image or RUNTIMES[environment.runtime].is_fake:
        return None
    return locate.missing(adapter_of(workload), workload.arguments, workload.path)


def is_shown(workload: Workload) -> bool:
    """Return whether a third-party program is in a folder of this machine that pods are to be shown."""
    file = Path(workload.path)
    return bool(workload.program and workload.path) and file.parent not in SYSTEM and file.is_file()


def shown_folder(workload: Workload) -> str:
    """Return the folder to show: that of the program, or the prefix of the program and its libraries."""
    folder = Path(workload.path).parent
    prefix = folder.parent
    return str(prefix if folder.name == "bin" and len(prefix.parts) >= SHORTEST else folder)


def not_in_image(workload: Workload, rootfs: Path, search: Sequence[str] = locate.PATH, image: str = "") -> str | None:
    """Return the reason if an image lacks a program that it must contain, or None; `image` is its name.

    `search` lists the folders in which a command without a folder is looked for.
    """
    if workload.command:
        return _command_not_in_image(workload.command[0], rootfs, search)
    if not workload.program or is_shown(workload):
        return None
    return locate.missing(adapter_of(workload), workload.arguments, workload.path, rootfs, image)


def _command_not_in_image(name: str, rootfs: Path, search: Sequence[str]) -> str | None:
    file = command_file(name)
    if file is not None and not is_of_system(file):
        return None  # its folder is shown
    places = [name] if "/" in name else [f"{folder}/{name}" for folder in search]
    if any(inside(rootfs, place) is not None for place in places):
        return None
    return f"{name} is not in the image: use an image that contains it (--image, or image: in a study)"


def commands_of(cells: Iterable[Cell]) -> dict[str, bool]:
    """Return the user's commands that cells start, each with whether all of these cells have an image."""
    images_only: dict[str, bool] = {}
    for cell in cells:
        for name in cell.workload.command[:1]:
            images_only[name] = images_only.get(name, True) and bool(cell.environment.image)
    return images_only


def command_file(name: str) -> Path | None:
    """Return the file of this machine that a command starts, or None.

    It is found as by a shell: by its path if it has one, else on PATH; else in the current folder, as mpirun does.
    """
    on_path = None if "/" in name else process.find(name)
    path = Path(on_path or name).absolute()
    return path if path.is_file() else None


def check_no_launcher(name: str) -> None:
    """Raise `RefusedError` for a command that is the launcher of an MPI: tare starts the ranks itself."""
    if Path(name).name in LAUNCHERS:
        raise RefusedError(
            f"{name} would start a job of its own in every rank",
            remedy=f"leave {name} and its options out: tare starts the ranks",
        )


def check_executable(file: Path, name: str = "", *, in_images: bool = False) -> None:
    """Raise `RefusedError` for a file of this machine that cannot be executed, with what forbids it.

    `name` is what the user calls it; `in_images` as in `check_form`.
    """
    called = name or str(file)
    if os.access(file, os.X_OK):
        check_form(file, called, in_images=in_images)
        return
    check_source(file, called)
    if not file.stat().st_mode & EXECUTABLE:
        raise RefusedError(f"{called} is not executable", remedy=f"chmod +x {called}")
    if os.statvfs(file).f_flag & os.ST_NOEXEC:
        raise RefusedError(
            f"{called} is on a file system that is mounted noexec",
            remedy="copy it to a folder of another file system: `findmnt -O noexec` lists those that do not allow it",
        )
    raise RefusedError(f"{called} may not be executed by this user", remedy=f"ask its owner for chmod o+x {called}")


def no_such_program(name: str) -> RefusedError:
    """Return the error for a command that is not on this machine."""
    if Path(name).is_dir():
        return RefusedError(f"{name} is a folder, not a program", remedy="name the program in it")
    if "/" in name:
        path, here = Path(name), Path.cwd()
        called, place = (path.name, path.parent) if path.is_absolute() else (name, here)
        return RefusedError(f"there is no program {called} in {place}", remedy="check the path of the program")
    return RefusedError(
        f"there is no program {name} on PATH or in the current folder",
        remedy="give the path of the program, such as ./app",
    )


def is_of_system(file: Path) -> bool:
    """Return whether a program is in a folder that every image has itself, so that this one cannot be shown there."""
    return file.parent in SYSTEM


def folders_of(file: Path) -> tuple[str, ...]:
    """Return the folders that a program's pods are to be shown: its own, and those to which links lead."""
    found: dict[str, None] = {}
    while not is_of_system(file) and str(file) not in found and len(found) < MOST_LINKS:
        found[str(file)] = None
        if file.is_symlink():
            file = Path(absolute(str(file.readlink()), file.parent))
    return tuple(dict.fromkeys(str(Path(name).parent) for name in found))


def links_out_of(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the links in folders that lead to what pods with an image are not shown, each with what it leads to."""
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                links = [entry.path for entry in islice(entries, MOST_ENTRIES) if entry.is_symlink()]
        except OSError:
            continue
        for link in sorted(links):
            target = os.path.realpath(link)
            if not os.path.exists(target) or Path(target).parts[1:2] in IN_IMAGES:
                continue
            if not any(Path(target).is_relative_to(os.path.realpath(f)) for f in folders):
                yield link, target


def check_can_be_shown(folder: str, what: str) -> None:
    """Raise `RefusedError` for a folder that cannot be shown on nodes and in containers at the same path."""
    if folder in OWN_FOLDERS:
        example = f"{folder.rstrip('/')}/study"
        raise RefusedError(
            f"{what} is {folder}, but every node or container has a {folder} of its own",
            remedy=f"use a folder below it, such as {example}" if folder in ("/tmp", "/opt") else "use another folder",
        )


def program_file(workload: Workload, rootfs: Path | None) -> Path | None:
    """Return the file on this machine of a workload's program, which may be inside an image's root file system.

    None if there is none: a program that only an image has is not read if the study gives its path.
    """
    if not workload.program:
        name = workload.executable
        return Path(name) if "/" in name and Path(name).is_file() else None
    if is_shown(workload):
        return Path(workload.path)
    file = locate.found(adapter_of(workload), workload.arguments, workload.path, rootfs)
    return file if file is None or rootfs is None else inside(rootfs, str(file))
