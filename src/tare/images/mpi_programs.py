"""Find out which MPI a launcher or a compiler wrapper on PATH belongs to: `mpirun` and `mpicc` say it themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tare.system.process import find, run

OPENMPI: Final = "openmpi"
MPICH: Final = "mpich"
INTELMPI: Final = "intelmpi"
TITLES: Final = {OPENMPI: "Open MPI", MPICH: "MPICH", INTELMPI: "Intel MPI"}
_LIMIT_S: Final = 20.0
_LAUNCHERS: Final = (
    (OPENMPI, re.compile(r"\((?:Open MPI|OpenRTE)\)\s+(\S+)")),
    (INTELMPI, re.compile(r"Intel\(R\) MPI Library.*?Version (\S+)")),
    (MPICH, re.compile(r"HYDRA build details:\s+Version:\s+(\S+)")),
)
_WRAPPERS: Final = (
    (OPENMPI, "--showme:version", re.compile(r"Open MPI (\S+)")),
    (INTELMPI, "-v", re.compile(r"Intel\(R\) MPI Library (\S+)")),
    (MPICH, "-v", re.compile(r"for MPICH version (\S+)")),
)


@dataclass(frozen=True)
class MpiProgram:
    """A launcher or a compiler wrapper: its path, and family and version of its MPI, "" if it does not say."""

    path: str
    family: str = ""
    version: str = ""

    @property
    def title(self) -> str:
        """Return the MPI as in sentences: `Open MPI 4.1.4`."""
        return f"{TITLES[self.family]} {self.version}" if self.family else "an unknown MPI"

    @property
    def major(self) -> int:
        """Return the major version, 0 if it is not known."""
        match = re.match(r"\d+", self.version)
        return int(match[0]) if match else 0


@lru_cache(maxsize=64)
def launcher_at(path: str) -> MpiProgram:
    """Return which MPI a launcher belongs to."""
    done = run((path, "--version"), check=False, timeout_s=_LIMIT_S)
    for family, pattern in _LAUNCHERS:
        if match := pattern.search(done.stdout):
            return MpiProgram(path, family, match[1])
    return MpiProgram(path)


@lru_cache(maxsize=64)
def wrapper_at(path: str) -> MpiProgram:
    """Return which MPI a compiler wrapper belongs to."""
    for family, option, pattern in _WRAPPERS:
        done = run((path, option), check=False, timeout_s=_LIMIT_S)
        if match := pattern.search(done.stdout + done.stderr):
            return MpiProgram(path, family, match[1])
    return MpiProgram(path)


def find_launcher(names: Sequence[str], family: str, oldest: int = 0) -> str | None:
    """Return the first program of these names whose MPI is of a family, of major version `oldest` or newer."""
    paths = (find(name) for name in names)
    launchers = (launcher_at(path) for path in paths if path)
    return next((it.path for it in launchers if it.family == family and it.major >= oldest), None)


def mismatch(wrapper: MpiProgram, launcher: MpiProgram) -> str | None:
    """Return why programs of a compiler wrapper do not start under a launcher, None if they do or nobody knows."""
    if not wrapper.family or not launcher.family:
        return None
    same_version = not (wrapper.major and launcher.major) or wrapper.major == launcher.major
    if wrapper.family == launcher.family and same_version:
        return None
    return (
        f"{wrapper.path} compiles with {wrapper.title}, and {launcher.path} launches with {launcher.title}: "
        "load one MPI, so that both come from it"
    )


def on_path() -> str | None:
    """Return why this PATH's mpicc and mpirun do not fit each other, or None."""
    wrapper, launcher = find("mpicc"), find("mpirun")
    return mismatch(wrapper_at(wrapper), launcher_at(launcher)) if wrapper and launcher else None
