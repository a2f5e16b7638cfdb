"""Recognise the MPI of the user's environment: whose `mpirun` or `mpiexec` is on PATH, and which version it has.

MVAPICH and Cray MPICH are MPICH inside. MVAPICH has MPICH's launcher, which states the version of that launcher, so
tare asks `mpichversion` or `mpiname` in the same folder. Cray MPICH has no launcher: its module sets
CRAY_MPICH_VERSION, and the batch system starts its ranks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Final

from tare.images import mpi_programs
from tare.system.process import find, run

LAUNCHERS: Final = ("mpirun", "mpiexec", "mpiexec.hydra")
CRAY: Final = "CRAY_MPICH_VERSION"
LIMIT_S: Final = 20.0
VERSIONS: Final = (
    re.compile(r"^(MVAPICH[\w-]*) Version:\s+(\S+)", re.MULTILINE),
    re.compile(r"^(MVAPICH[\w-]*) (\d\S*)", re.MULTILINE),
)
"""What `mpichversion` and `mpiname -a` of MVAPICH print."""
NEWEST_ORTE: Final = 4
"""The last major version of Open MPI with its own launcher; later ones have PRRTE's."""


class LauncherKind(Enum):
    """The kinds of launchers, which differ in their options."""

    OPEN_MPI_4 = "Open MPI up to 4"
    OPEN_MPI_5 = "Open MPI from 5 on"
    HYDRA = "MPICH's Hydra"
    INTEL = "Intel MPI's Hydra"
    NONE = "started by the batch system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """An MPI: the kind of its launcher, its name and version for users, and the path of the launcher ("": none)."""

    kind: LauncherKind
    name: str
    version: str = ""
    launcher: str = ""

    @property
    def major(self) -> int:
        """Return the major version, 0 if it is not known."""
        match = re.match(r"\d+", self.version)
        return int(match[0]) if match else 0

    @property
    def title(self) -> str:
        """Return name and version in one line."""
        return f"{self.name} {self.version}".strip()


def recognise(environment: Mapping[str, str]) -> Recognised | None:
    """Return the MPI of an environment, None if there is none that tare knows."""
    program = find_launcher()
    if program is None:
        return cray_mpich(environment)
    stated = mpi_programs.launcher_at(program)
    if stated.family == mpi_programs.OPENMPI:
        kind = LauncherKind.OPEN_MPI_4 if stated.major <= NEWEST_ORTE else LauncherKind.OPEN_MPI_5
        return Recognised(kind=kind, name="Open MPI", version=stated.version, launcher=program)
    if stated.family == mpi_programs.INTELMPI:
        return Recognised(kind=LauncherKind.INTEL, name="Intel MPI", version=stated.version, launcher=program)
    if stated.family == mpi_programs.MPICH:
        name, version = mvapich_beside(program) or ("MPICH", stated.version)
        return Recognised(kind=LauncherKind.HYDRA, name=name, version=version, launcher=program)
    return cray_mpich(environment)


def find_launcher() -> str | None:
    """Return the launcher on PATH, as the file behind links: it looks for its daemons in that file's folder."""
    path = next((path for name in LAUNCHERS if (path := find(name))), None)
    return None if path is None else os.path.realpath(path)


def cray_mpich(environment: Mapping[str, str]) -> Recognised | None:
    """Return Cray MPICH if its module is loaded."""
    version = environment.get(CRAY)
    return Recognised(kind=LauncherKind.NONE, name="Cray MPICH", version=version) if version else None


@lru_cache(maxsize=16)
def mvapich_beside(launcher: str) -> tuple[str, str] | None:
    """Return name and version of the MVAPICH that a launcher belongs to, None if it is another MPI's."""
    for name, arguments in (("mpichversion", ()), ("mpiname", ("-a",))):
        program = Path(launcher).parent / name
        if not os.access(program, os.X_OK):
            continue
        stated = run((str(program), *arguments), check=False, timeout_s=LIMIT_S).stdout
        if match := next((match for pattern in VERSIONS if (match := pattern.search(stated))), None):
            return match[1], match[2]
    return None
