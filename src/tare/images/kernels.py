"""Build tare's programs (the kernels and the mini-applications) for the machine itself, once for each MPI."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import CommandFailed, InfrastructureError, MissingTool, UsageError
from tare.images import mpi_programs, mpi_wheels
from tare.images.cache import Progress, ensure, remove_tree, silent
from tare.images.direct_build import build_kernels, build_miniapps
from tare.images.recipe import sources_digest
from tare.images.sources import kernels_source, miniapps_source
from tare.images.usage import check_cache, mark_used
from tare.system import process
from tare.system.paths import cache_folder

COMPILERS: Final = {
    "openmpi": ("mpicc.openmpi", "libopenmpi-dev"),
    "openmpi5": ("mpicc.openmpi", "libopenmpi-dev"),
    "mpich": ("mpicc.mpich", "libmpich-dev"),
}
"""The name of each MPI's compiler wrapper in Debian, and its package; elsewhere it is called `mpicc`."""

_FAMILIES: Final = {
    "openmpi": mpi_programs.OPENMPI,
    "openmpi5": mpi_programs.OPENMPI,
    "mpich": mpi_programs.MPICH,
}
_OLDEST: Final = {"openmpi5": 5}
"""The oldest major version of an MPI that has plug-ins for several."""

_OLDEST_CMAKE: Final = (3, 25)
_LIMIT_S: Final = 3600.0
"""Only a compiler that hangs takes that long: on a busy machine the mini-applications took ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBuild:
    """tare's programs, built and installed under `prefix`."""

    prefix: Path
    digest: str

    @property
    def program(self) -> Path:
        """Return the program that runs a list of kernels."""
        return self.prefix / "bin" / "tare-kernels"

    @property
    def miniapps(self) -> Path:
        """Return the program that runs a mini-application."""
        return self.prefix / "bin" / "tare-miniapps"

    @property
    def wall_library(self) -> Path:
        """Return the library that is preloaded to time a program from the end of MPI_Init to MPI_Finalize."""
        return self.prefix / "lib" / "libtare_wall.so"


def ensure_kernels(
    mpi: str = "openmpi",
    cache_dir: Path | None = None,
    progress: Progress = silent,
    *,
    compiler: Path | None = None,
) -> KernelBuild:
    """Return tare's programs built for this machine's MPI; build them first if they are not in the cache.

    `compiler` names another wrapper than the MPI's usual one (then `mpi` is only part of the folder's name). Raises
    `UsageError` for an unknown MPI, `MissingTool` naming the package with the compiler, and `InfrastructureError` with
    the end of the compiler's output.
    """
    wrapper = compiler or _compiler(mpi)
    sources = (kernels_source(), miniapps_source())
    digest = _digest(sources_digest(*sources), wrapper)
    place = (cache_dir or cache_folder()) / "kernels" / f"{digest}-{mpi}"
    build = KernelBuild(prefix=place, digest=digest)
    mark_used(place)

    def make(work: Path) -> None:
        progress(f"kernels and mini-applications for {mpi}: compiling")
        _build(sources, wrapper, work, mpi, progress)

    what = f"kernels for {mpi}"
    return ensure(place, lambda: build if build.program.is_file() else None, make, what=what, progress=progress)


def newest_program(name: str, cache_dir: Path | None = None) -> Path | None:
    """Return a program of the newest build in the cache, None if nothing is built yet; nothing is built.

    Raises as `check_cache` does.
    """
    folder = (cache_dir or cache_folder()) / "kernels"
    check_cache(folder)
    builds = folder.glob(f"*/bin/{name}")
    return max(builds, key=lambda path: path.stat().st_mtime, default=None)


def _compiler(mpi: str) -> Path:
    """Return an MPI's compiler wrapper: of tools/mpis, by its name in Debian, or the `mpicc` of PATH."""
    reason = mpi_wheels.probe(mpi) if mpi in mpi_wheels.PACKAGES else None
    if mpi in mpi_wheels.PACKAGES and reason is None:
        return mpi_wheels.program(mpi, "mpicc")
    if mpi not in COMPILERS and reason is None:
        known = ", ".join(dict.fromkeys([*COMPILERS, *mpi_wheels.PACKAGES]))
        raise UsageError(f"no compiler is known for the MPI {mpi!r}", remedy=f"known: {known}")
    name, package = COMPILERS.get(mpi, ("", ""))
    path = find_compiler(mpi)
    if path is None and reason is not None:
        raise MissingTool(reason)
    return Path(path or process.need(name, package=package))


def find_compiler(mpi: str) -> str | None:
    """Return the compiler wrapper of an MPI that is on PATH, None if there is none.

    Raises `MissingTool` if `mpicc` is of this MPI and `mpirun` of another.
    """
    if mpi not in COMPILERS:
        return None
    path = process.find(COMPILERS[mpi][0])
    if path is not None and (mpi not in _OLDEST or _belongs(path, mpi)):
        return path
    path = process.find("mpicc")
    if path is None or not _belongs(path, mpi):
        return None
    if reason := mpi_programs.on_path():
        raise MissingTool(reason)
    return path


def _belongs(path: str, mpi: str) -> bool:
    wrapper = mpi_programs.wrapper_at(path)
    return wrapper.family == _FAMILIES[mpi] and wrapper.major >= _OLDEST.get(mpi, 0)


def _digest(sources: str, wrapper: Path) -> str:
    """Return the digest of the sources and of the compiler; an upgraded MPI brings a new wrapper."""
    real = wrapper.resolve()
    stat = real.stat()
    stamp = f"{sources} {wrapper} {real} {stat.st_size} {stat.st_mtime_ns}"
    return hashlib.sha256(stamp.encode()).hexdigest()[:32]


def _build(sources: Sequence[Path], wrapper: Path, work: Path, mpi: str, progress: Progress) -> None:
    """Build and install the sources with CMake, or with the wrapper alone where CMake is missing, too old or fails.

    CMake's build takes every warning for an error, so it fails with some compilers.
    """
    if has_cmake():
        try:
            for source in sources:
                _build_with_cmake(source, wrapper, work, mpi)
        except CommandFailed:
            progress(f"kernels and mini-applications for {mpi}: CMake failed; compiling with {wrapper} alone")
            for path in work.iterdir():
                remove_tree(path)
        else:
            return
    try:
        for source, build in zip(sources, (build_kernels, build_miniapps), strict=True):
            build(source, wrapper, work)
    except CommandFailed as error:
        tail = "\n  ".join(error.stderr_tail.splitlines()[-12:])
        raise InfrastructureError(
            f"building the kernels for {mpi} failed (status {error.status}):\n  {tail}",
            remedy=f"check that {wrapper} compiles a program, then run the same command again",
        ) from error


def has_cmake() -> bool:
    """Return whether this machine's CMake can read the sources' CMakeLists.txt."""
    program = process.find("cmake")
    if program is None:
        return False
    match = re.search(r"version (\d+)\.(\d+)", process.run((program, "--version"), check=False).stdout)
    return match is not None and (int(match[1]), int(match[2])) >= _OLDEST_CMAKE


def _build_with_cmake(source: Path, wrapper: Path, work: Path, mpi: str) -> None:
    tree = work / f"build-{source.name}"
    cores = str(max(1, len(os.sched_getaffinity(0))))
    for argv in (
        ("cmake", "-S", str(source), "-B", str(tree), f"-DMPI_C_COMPILER={wrapper}"),
        ("cmake", "--build", str(tree), "--parallel", cores),
        ("cmake", "--install", str(tree), "--prefix", str(work)),
    ):
        process.run(argv, timeout_s=_LIMIT_S, what=f"building the {source.name} for {mpi}")
    remove_tree(tree)
