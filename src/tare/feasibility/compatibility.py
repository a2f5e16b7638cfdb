"""Judge before a launch whether application, launcher, image and machine fit together. Pure.

A rank learns who it is from the daemon that starts it, through PMIx (Open MPI) or PMI (MPICH): application and launcher
must speak the same, and PMIx from 2.1 on understands all that follow. A launcher and its daemons must be of one major
version. The image's C library must have what a program from outside asks for, and the machine's CPU what the image's
files were compiled for. `docs/compatibility.md` has what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Version = tuple[int, ...]

OLDEST_PMIX: Final[Version] = (2, 1)
NOTICES_PMIX: Final[Version] = (5,)
"""From this version on MPICH (without PMIx) stops under PMIx; before, its ranks are alone (seen: 5.0, 4.0)."""
TITLES: Final = {"openmpi": "Open MPI", "mpich": "MPICH"}
CPU_LEVELS: Final = {1: "x86-64", 2: "x86-64-v2", 3: "x86-64-v3", 4: "x86-64-v4"}


class Outcome(StrEnum):
    """What becomes of a job of two ranks."""

    WORKS = "works"
    ALONE = "each rank is alone"
    FAILS = "fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiFacts:
    """An MPI: `family` is openmpi or mpich; an empty version is not known, and not judged."""

    family: str
    version: Version = ()
    pmix: Version = ()

    def __str__(self) -> str:
        """Return it as a user says it."""
        return f"{TITLES.get(self.family, self.family)} {_dotted(self.version[:2])}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What ranks run: its MPI (None: not known), and the C library and CPU that its files need."""

    name: str = "the application"
    mpi: MpiFacts | None = None
    glibc: Version = ()
    cpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """What starts ranks: the launcher's MPI, and that of its daemons (None: there is none where they are started)."""

    mpi: MpiFacts
    daemon: MpiFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHost:
    """Where ranks run: the C library there (empty: none was found) and the CPU that the place's own files need."""

    name: str = "the image"
    glibc: Version = ()
    cpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine: the highest x86-64 level of its CPU, 0 where that is not known."""

    cpu: int = 0


def fits(application: Application, launcher: Launcher, image: RankHost, machine: Machine) -> str | None:
    """Return why a job would not be what it should, in one sentence with what to do, or None."""
    return (
        _cpu(application, image, machine)
        or _glibc(application, image)
        or controls(launcher.mpi, launcher.daemon, image.name)
        or (starts(application.mpi, launcher.mpi, application.name)[1] if application.mpi else None)
        or None
    )


def starts(application: MpiFacts, launcher: MpiFacts, name: str = "the application") -> tuple[Outcome, str]:
    """Return what becomes of an application under a launcher, and why it is not two ranks of one job."""
    if application.family == launcher.family:
        old = [each for each in (application, launcher) if each.pmix and each.pmix < OLDEST_PMIX]
        if not old or application.pmix == launcher.pmix:
            return Outcome.WORKS, ""
        return Outcome.FAILS, (
            f"{name} has PMIx {_dotted(application.pmix) or '?'} and its launcher {_dotted(launcher.pmix) or '?'}: "
            f"from {_dotted(OLDEST_PMIX)} on they understand each other; take a newer {old[0]}"
        )
    help_ = f"build it for {TITLES.get(launcher.family, launcher.family)}, or name its own MPI with `mpi`"
    if application.family == "mpich" and application.version >= NOTICES_PMIX:
        return Outcome.FAILS, f"{name} is built for {application}, which stops under {launcher}'s PMIx: {help_}"
    return Outcome.ALONE, (
        f"{name} is built for {application}, and started by {launcher} each rank would be alone: {help_}"
    )


def controls(launcher: MpiFacts, daemon: MpiFacts | None, where: str = "the image") -> str | None:
    """Return why a launcher cannot lead a daemon, or None."""
    way_out = "use launch: ssh (with the launcher of the image), daemon, hybrid or host-mpi"
    if daemon is None:
        return f"{where} has no MPI whose daemon {launcher} could start: {way_out}"
    if daemon.family == launcher.family and (
        not daemon.version or not launcher.version or daemon.version[0] == launcher.version[0]
    ):
        return None
    return f"the launcher is {launcher}, and the daemon in {where} {daemon}, which it cannot lead: {way_out}"


def _cpu(application: Application, image: RankHost, machine: Machine) -> str | None:
    needed, what = max((image.cpu, image.name), (application.cpu, application.name))
    if not machine.cpu or needed <= machine.cpu:
        return None
    return (
        f"{what} is compiled for {CPU_LEVELS[needed]}, and this machine's CPU is {CPU_LEVELS[machine.cpu]}: "
        "take files compiled for less"
    )


def _glibc(application: Application, image: RankHost) -> str | None:
    if not application.glibc or application.glibc <= (0, 0):
        return None
    if not image.glibc:
        return f"{application.name} needs the GNU C library, and none was found in {image.name}"
    if image.glibc >= application.glibc:
        return None
    wanted, there = _dotted(application.glibc), _dotted(image.glibc)
    return (
        f"{application.name} needs glibc {wanted}, and {image.name} has {there}: "
        "take a newer image, or what was built for this one"
    )


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
