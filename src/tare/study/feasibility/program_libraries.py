"""Check whether the program of a cell finds its libraries where its ranks run, as the dynamic loader would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tare.images import to_add
from tare.images.inside.dynamic_loader import ContainerView
from tare.images.inside.inspect import LIBRARIES, TITLES
from tare.images.inside.safe_paths import inside
from tare.model import Cell, Environment, Launching
from tare.mpi import MPIS
from tare.runtimes.containers.deployment import Files
from tare.system.binds import bind_of
from tare.system.packages import OS_RELEASE, release
from tare.workloads.own_programs import SEARCH, MissingLibrary, lacking, missing_libraries, own_folders
from tare.workloads.program_places import command_file, is_of_system, program_file

HERE: Final = f"install what has it, or pass the folder that has it by -x {SEARCH}=FOLDER (env: in a study)"
"""Ranks do not get the caller's own LD_LIBRARY_PATH."""


def misfit(cell: Cell, files: Files) -> str | None:
    """Return which libraries of a cell's program are missing where it runs, and what to do, or None."""
    rootfs = files.rootfs if cell.environment.image else None
    program = _file(cell, rootfs)
    if program is None:
        return None
    if rootfs is None:
        search = _variables(cell.environment, ()).get(SEARCH, "")
        missing = missing_libraries(program, None, search=search)
        return f"{program.name} needs {', '.join(missing)}, which this machine lacks: {HERE}" if missing else None
    found = lacking(program, rootfs, seen_by(cell.environment, files))
    if not found:
        return None
    if reason := _for_other_mpi(program, found, cell.environment):
        return reason
    names = ", ".join(each.name + (f" (cannot be read: {each.damage})" if each.damage else "") for each in found)
    remedies = "; ".join(_remedies(found, cell.environment.image, rootfs))
    return f"{program.name} needs {names}, which the image lacks: {remedies}"


def folders_of(cells: Iterable[Cell], programs: Mapping[str, Path]) -> list[str]:
    """Return the folders that programs of this machine need besides their own; `programs` are files by command."""
    wanted = {
        (programs[name].absolute(), _variables(cell.environment, ()).get(SEARCH, ""))
        for cell in cells
        for name in cell.workload.command[:1]
        if name in programs
    }
    return sorted({folder for program, search in wanted for folder in own_folders(program, search)})


def seen_by(environment: Environment, files: Files) -> ContainerView:
    """Return what containers of an environment see of this machine, and the LD_LIBRARY_PATH in them."""
    host_mpi = files.host_mpi if environment.launch is Launching.HOST_MPI else None
    folders = (*files.shown, *([files.cwd] if files.cwd else []), *(host_mpi.shown if host_mpi else ()))
    binds = ((bind.target, Path(bind.source)) for bind in map(bind_of, environment.binds))
    search = _variables(environment, files.variables).get(SEARCH, "").split(":")
    first = (str(host_mpi.folder / "lib"),) if host_mpi else ()
    return ContainerView(
        places=(*((folder, Path(folder)) for folder in folders), *binds),
        search=(*first, *(folder for folder in search if folder.startswith("/"))),
    )


def _variables(environment: Environment, of_image: tuple[str, ...]) -> dict[str, str]:
    return dict(text.partition("=")[::2] for text in (*of_image, *environment.env))


def _file(cell: Cell, rootfs: Path | None) -> Path | None:
    """Return the file that a cell's ranks run, of this machine or of the image; an image has the system's itself."""
    file = program_file(cell.workload, rootfs)
    if file is None and cell.workload.command and "/" not in (name := cell.workload.command[0]):
        file = command_file(name)
    return None if file is None or (rootfs is not None and is_of_system(file)) else file.absolute()


def _remedies(missing: tuple[MissingLibrary, ...], image: str, rootfs: Path) -> list[str]:
    """Return what to do: take an image with the packages, show the folders, or what is missing here, too."""
    packages = sorted({each.package for each in missing if each.package})
    folders = sorted({str(each.file.parent) for each in missing if each.file and not each.package})
    unknown = [each.name for each in missing if not each.file and not each.damage]
    said = []
    if packages:
        said.append(to_add(" ".join(packages), image) + _if_there(rootfs))
    if folders:
        binds = " ".join(f"--bind {folder}:{folder}" for folder in folders)
        said.append(f"show it inside by {binds} -x {SEARCH}={':'.join(folders)} (binds: and env: in a study)")
    if unknown:
        said.append(f"{', '.join(unknown)} is not found on this machine either")
    return said or ["use another image, or link the program statically"]


def _if_there(rootfs: Path) -> str:
    """Return the condition that another release has a package of this machine's; empty if the image's is the same."""
    file = inside(rootfs, "/etc/os-release")
    of_image, here = (release(file) if file else ""), release(OS_RELEASE)
    if not of_image or of_image == here:
        return ""
    return f", if {of_image}, of which the image is, has the package too; otherwise compile the program in the image"


def _for_other_mpi(program: Path, missing: tuple[MissingLibrary, ...], environment: Environment) -> str | None:
    """Return that a program lacks the library of another MPI than the environment's, which is why it is missing."""
    family = next((LIBRARIES[each.name] for each in missing if each.name in LIBRARIES), None)
    if family is None or family == MPIS[environment.mpi].family:
        return None
    own = MPIS[environment.mpi].title
    choose = f"choose its MPI by --mpi {family} (mpi: {family} in a study)"
    return f"{program.name} is built for {TITLES[family]}, and the MPI of the environment is {own}: {choose}"
