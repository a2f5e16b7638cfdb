"""Find the programs of others that a study names, on this machine and in images, before anything is launched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.images.below import inside
from tare.model import Environment, Placement, Study, Workload
from tare.workloads.program import adapter_of
from tare.workloads.programs import locate

SYSTEM: Final = tuple(map(Path, locate.PATH))
"""Folders that an image has its own of: what is in them is not shown inside, an image must have it itself."""

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
    if not workload.program or environment.image or environment.runtime == "fake":
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


def not_in_image(workload: Workload, rootfs: Path) -> str | None:
    """Return that an image lacks a program that it must have itself, or None."""
    if not workload.program or is_shown(workload):
        return None
    return locate.missing(adapter_of(workload), workload.arguments, workload.path, rootfs)


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
