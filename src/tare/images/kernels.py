"""Build tare's programs (the kernels and the mini-applications) for the machine itself, once for each MPI."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import CommandFailed, InfrastructureError, MissingTool, UsageError
from tare.host import process, wheels
from tare.host.paths import cache_folder
from tare.images.cache import Progress, locked, silent, write_atomically
from tare.images.recipe import sources_digest
from tare.images.usage import mark_used
from tare.sources import kernels_source, miniapps_source

_COMPILERS: Final = {
    "openmpi": ("mpicc.openmpi", "libopenmpi-dev"),
    "mpich": ("mpicc.mpich", "libmpich-dev"),
}
_LIMIT_S: Final = 300.0


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
    if build.program.is_file():
        return build
    process.need("cmake", package="cmake")
    with locked(place, what=f"kernels for {mpi}", progress=progress):
        if not build.program.is_file():
            progress(f"kernels and mini-applications for {mpi}: compiling")
            with write_atomically(place) as work:
                for source in sources:
                    _build(source, wrapper, work, mpi)
    return build


def _compiler(mpi: str) -> Path:
    if mpi in wheels.PACKAGES:
        if reason := wheels.probe(mpi):
            raise MissingTool(reason)
        return wheels.program(mpi, "mpicc")
    if mpi not in _COMPILERS:
        known = ", ".join([*_COMPILERS, *wheels.PACKAGES])
        raise UsageError(f"no compiler is known for the MPI {mpi!r}", remedy=f"known: {known}")
    program, package = _COMPILERS[mpi]
    return Path(process.need(program, package=package))


def _digest(sources: str, wrapper: Path) -> str:
    """Return the digest of the sources and of the compiler; an upgraded MPI brings a new wrapper."""
    real = wrapper.resolve()
    stat = real.stat()
    stamp = f"{sources} {wrapper} {real} {stat.st_size} {stat.st_mtime_ns}"
    return hashlib.sha256(stamp.encode()).hexdigest()[:32]


def _build(source: Path, wrapper: Path, work: Path, mpi: str) -> None:
    tree = work / f"build-{source.name}"
    cores = str(max(1, len(os.sched_getaffinity(0))))
    steps = (
        ("cmake", "-S", str(source), "-B", str(tree), f"-DMPI_C_COMPILER={wrapper}"),
        ("cmake", "--build", str(tree), "--parallel", cores),
        ("cmake", "--install", str(tree), "--prefix", str(work)),
    )
    for argv in steps:
        try:
            process.run(argv, timeout_s=_LIMIT_S, what=f"building the {source.name} for {mpi}")
        except CommandFailed as error:
            tail = "\n  ".join(error.stderr_tail.splitlines()[-12:])
            raise InfrastructureError(
                f"building the {source.name} for {mpi} failed (status {error.status}):\n  {tail}",
                remedy=f"check that {wrapper} compiles a program, then run the same command again",
            ) from error
    for path in sorted(tree.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    tree.rmdir()
