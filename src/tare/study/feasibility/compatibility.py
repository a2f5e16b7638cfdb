"""Check before a launch whether application, launcher, image and machine are compatible. Pure.

A rank learns its number from the daemon that starts it, through PMIx (Open MPI) or PMI (MPICH). Application and
launcher must use the same protocol; PMIx 2.1 and later versions understand each other. A launcher and its daemons must
be of one major version. The image's C library must be as new as a program from outside needs, and the machine's CPU
must have the level that the image's files were compiled for. `docs/compatibility.md` has the observed results.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tare.images.inside.inspect import TITLES

Version = tuple[int, ...]

OLDEST_PMIX: Final[Version] = (2, 1)
NOTICES_PMIX: Final[Version] = (5,)
"""From this version on, MPICH (without PMIx) stops under PMIx; earlier, each rank is alone (observed: 5.0, 4.0)."""
CPU_LEVELS: Final = {1: "x86-64", 2: "x86-64-v2", 3: "x86-64-v3", 4: "x86-64-v4"}


class JobOutcome(StrEnum):
    """The outcome of a job of two ranks."""

    WORKS = "works"
    ALONE = "each rank is alone"
    FAILS = "fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiFacts:
    """An MPI: `family` is openmpi or mpich; an empty version is unknown and not checked."""

    family: str
    version: Version = ()
    pmix: Version = ()

    def __str__(self) -> str:
        """Return the name and version for a message."""
        return f"{TITLES.get(self.family, self.family)} {_dotted(self.version[:2])}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The program that ranks run: its MPI (None: unknown), and the C library and CPU level that its files need."""

    name: str = "the application"
    mpi: MpiFacts | None = None
    glibc: Version = ()
    cpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The MPI that starts ranks: the launcher's, and that of its daemons (None: not installed where they start)."""

    mpi: MpiFacts
    daemon: MpiFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHost:
    """The place where ranks run: its C library (empty: none was found) and the CPU level that its own files need."""

    name: str = "the image"
    glibc: Version = ()
    cpu: int = 0


def fits(application: Application, launcher: Launcher, image: RankHost, cpu: int) -> str | None:
    """Return why a job cannot run as intended, in one sentence with the remedy, or None.

    `cpu` is the highest x86-64 level of the machine's CPU, 0 if unknown.
    """
    return (
        _cpu(application, image, cpu)
        or _glibc(application, image)
        or controls(launcher.mpi, launcher.daemon, image.name)
        or (starts(application.mpi, launcher.mpi, application.name)[1] if application.mpi else None)
        or None
    )


def starts(application: MpiFacts, launcher: MpiFacts, name: str = "the application") -> tuple[JobOutcome, str]:
    """Return the outcome of an application under a launcher, and why it does not run as ranks of one job."""
    if application.family == launcher.family:
        old = [each for each in (application, launcher) if each.pmix and each.pmix < OLDEST_PMIX]
        if not old or application.pmix == launcher.pmix:
            return JobOutcome.WORKS, ""
        return JobOutcome.FAILS, (
            f"{name} has PMIx {_dotted(application.pmix) or '?'} and its launcher {_dotted(launcher.pmix) or '?'}, "
            f"which are compatible from {_dotted(OLDEST_PMIX)} on: use a newer {old[0]}"
        )
    own = application.family
    remedy = (
        f"choose its own by --mpi {own} (mpi: {own} in a study), or build it for "
        f"{TITLES.get(launcher.family, launcher.family)}"
    )
    if application.family == "mpich" and application.version >= NOTICES_PMIX:
        return JobOutcome.FAILS, f"{name} is built for {application}, which stops under {launcher}'s PMIx: {remedy}"
    return JobOutcome.ALONE, (
        f"{name} is built for {application}; started by {launcher}, each rank would be alone: {remedy}"
    )


def controls(launcher: MpiFacts, daemon: MpiFacts | None, where: str = "the image") -> str | None:
    """Return why a launcher cannot work with a daemon, or None."""
    remedy = "use launch: ssh (with the launcher of the image), daemon, hybrid or host-mpi"
    if daemon is None:
        return f"{where} has no MPI whose daemon {launcher} could start: {remedy}"
    if daemon.family == launcher.family and (
        not daemon.version or not launcher.version or daemon.version[0] == launcher.version[0]
    ):
        return None
    return f"the launcher is {launcher}, which cannot work with the daemon of {daemon} in {where}: {remedy}"


def _cpu(application: Application, image: RankHost, cpu: int) -> str | None:
    needed, what = max((image.cpu, image.name), (application.cpu, application.name))
    if not cpu or needed <= cpu:
        return None
    return (
        f"{what} is compiled for {CPU_LEVELS[needed]}, but this machine's CPU is {CPU_LEVELS[cpu]}: "
        f"compile it for {CPU_LEVELS[cpu]} or lower"
    )


def _glibc(application: Application, image: RankHost) -> str | None:
    if not application.glibc or application.glibc <= (0, 0):
        return None
    if not image.glibc:
        return f"{application.name} needs the GNU C library, but {image.name} has none: use an image with glibc"
    if image.glibc >= application.glibc:
        return None
    needed, present = _dotted(application.glibc), _dotted(image.glibc)
    return (
        f"{application.name} needs glibc {needed}, but {image.name} has {present}: "
        "use a newer image, or build the program in this one"
    )


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
