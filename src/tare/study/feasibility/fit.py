"""Check a user's own image before anything starts: its MPI, its C library, the working folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from tare.images.build import Image
from tare.images.host_mpi import glibc_needed, glibc_of
from tare.images.inside.inspect import DAEMONS, LIBRARIES, TITLES, MpiInside, mpi_of
from tare.images.inside.safe_paths import inside
from tare.images.kernels import KernelBuild
from tare.model import Environment, Launching
from tare.mpi import MPIS
from tare.system.binds import bind_of

DAEMON_INSIDE: Final = (Launching.EXEC, Launching.SSH, Launching.MPIJOB)
"""Ways of launching in which the MPI's daemon comes from the image."""
SSH: Final = ("/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen")
"""What the workers and the launcher of an MPIJob run."""

BROUGHT: Final = ("/tmp", "/dev", "/proc", "/sys", "/run")
"""Provided by runtimes, whatever is in the image."""

PROGRAMS: Final = ("/opt/tare/bin/tare-kernels", "/opt/tare/bin/tare-miniapps")


@cache
def mpi_inside(rootfs: Path) -> MpiInside | None:
    """Return the MPI of an image; the search is done once."""
    return mpi_of(rootfs)


def unfit_for_launch(image: Image, environment: Environment) -> str | None:
    """Return why an environment cannot start in an image, or None; versions are checked in `tare.study.feasibility`."""
    way, family = environment.launch, MPIS[environment.mpi].family
    if way is Launching.HOST_MPI:
        return None
    found = mpi_inside(image.rootfs)
    shown = "use launch: host-mpi, which shows it this machine's"
    if found is None:
        return f"{image.name} has no MPI that launch: {way} could start: {shown}, or install one in the image"
    if found.family != family:
        has, wants = TITLES[found.family], TITLES.get(family, family)
        return f"{image.name} has {has} inside, which {wants} cannot start: use mpi: {found.family}, or {shown}"
    if way in DAEMON_INSIDE and not found.daemon:
        daemon = DAEMONS[family][0]
        return f"{image.name} has the library of {TITLES[family]} and not its daemon, {daemon}: install it, or {shown}"
    lacking = [path for path in SSH if inside(image.rootfs, path) is None] if way is Launching.MPIJOB else []
    if lacking:
        return f"{image.name} has no {lacking[0]}, and the MPI Operator starts ranks by ssh: install ssh in the image"
    return None


def no_such_workdir(image: Image, environment: Environment) -> str | None:
    """Return that the working folder is neither in an image nor bound into it, or None."""
    folder = environment.workdir
    bound = any(f"{folder}/".startswith(f"{bind_of(text).target}/") for text in environment.binds)
    if not folder or bound or folder.startswith(BROUGHT) or inside(image.rootfs, folder) is not None:
        return None
    return f"there is no {folder} in {image.name} to work in: name a folder of the image, or bind one there"


def has_kernels(image: Image) -> bool:
    """Return whether all of tare's programs are in an image."""
    return all(inside(image.rootfs, program) is not None for program in PROGRAMS)


def unfit_for_kernels(image: Image, build: KernelBuild) -> str | None:
    """Return why this machine's kernels cannot run in an image, or None."""
    files = (build.program, build.wall_library, *sorted(build.prefix.glob("bin/tare-miniapps*")))
    content = build.program.read_bytes()
    wanted = next((name for name in LIBRARIES if name.encode() + b"\0" in content), "")
    found = mpi_inside(image.rootfs)
    there = glibc_of(image.rootfs)
    needed = max(glibc_needed(file) for file in files)
    if there is None:
        return f"{image.name} has no GNU C library, which this machine's kernels need"
    if there < needed:
        versions = [".".join(map(str, version)) for version in (needed, there)]
        return (
            f"this machine's kernels need glibc {versions[0]}, and {image.name} has {versions[1]}: take a newer image"
        )
    if found is None or (wanted and found.soname != wanted):
        has = found.soname if found else "no MPI"
        return f"this machine's kernels need {wanted}, and {image.name} has {has}: build tare's kernels in the image"
    return None
