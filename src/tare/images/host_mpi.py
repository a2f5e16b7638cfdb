"""Prepare this machine's MPI to be shown inside a container in place of the image's own (by hand in papers/003).

The libraries that the MPI's daemon, its library and its plug-ins load are resolved with the dynamic loader and copied
into one folder of the cache. The C library is not copied, because it must be the image's. Plug-ins and settings are
shown at their own paths, which are compiled in. The result runs in an image whose C library is new enough
(`tare.feasibility.preflight`).
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tare.errors import InfrastructureError, MissingTool
from tare.host import wheels
from tare.host.packages import install
from tare.host.paths import cache_folder
from tare.host.process import find, need, run
from tare.images.cache import Progress, locked, silent, write_atomically
from tare.images.inside.below import open_file, open_regular
from tare.images.inside.inspect import read_overlapping
from tare.images.inside.linked import TRIPLETS
from tare.images.usage import mark_used

LIBC: Final = re.compile(
    r"(?:ld-linux.*|ld64|lib(?:c|m|pthread|dl|rt|resolv|util|anl|nsl|mvec|thread_db|BrokenLocale))\.so\.\d+"
)
"""The C library's own files: two of them in one process do not work, so the image's are used."""

GLIBC: Final = re.compile(rb"GLIBC_(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?\0")
LOADED: Final = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)
PROGRAMS: Final = {
    "openmpi": ("openmpi-bin", ("mpirun.openmpi", "mpirun"), "orted"),
    "mpich": ("mpich", ("mpiexec.hydra",), "hydra_pmi_proxy"),
}
"""Package, names of the launcher, and daemon of each MPI. A launcher expects its daemon in the folder it is started
from, so it is started from the folder that containers also see."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Version = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMpi:
    """The collected MPI: `folder` has bin/ and lib/, `shown` are all folders that a container must see.

    `launcher` is in bin/; `glibc` is the minimum version of the C library that its files need.
    """

    folder: Path
    launcher: Path
    shown: tuple[str, ...]
    glibc: Version

    @property
    def environment(self) -> tuple[str, ...]:
        """Return the variables, as `NAME=value`, with which a daemon and its ranks find the shown files."""
        return (f"PATH={self.folder}/bin:{PATH}", f"LD_LIBRARY_PATH={self.folder}/lib")


def ensure_host_mpi(mpi: str, program: Path, progress: Progress = silent) -> HostMpi:
    """Collect this machine's MPI, unless it is in the cache; `program` is one that is linked with it.

    Raises `MissingTool` if it is not installed.
    """
    if mpi in wheels.PACKAGES:
        return _wheel(mpi)
    package, launchers, name = PROGRAMS[mpi]
    daemon = Path(need(name, package=package))
    launcher = Path(
        need(next((candidate for candidate in launchers if find(candidate)), launchers[0]), package=package)
    )
    places = find_plug_ins(mpi, program)
    files = [daemon, program, *(file for place in places for file in sorted(place.glob("**/*.so")))]
    libraries = find_libraries(files)
    stamp = "".join(
        f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}\n" for path in [launcher, daemon, *libraries]
    )
    folder = cache_folder() / "host-mpi" / hashlib.sha256(stamp.encode()).hexdigest()[:32]
    mark_used(folder)
    if not folder.is_dir():
        with locked(folder, what=f"this machine's {mpi}", progress=progress):
            if not folder.is_dir():
                progress(f"this machine's {mpi}: collecting {len(libraries)} libraries")
                with write_atomically(folder) as work:
                    _collect(work, (launcher, daemon), libraries)
    return HostMpi(
        folder=folder,
        launcher=folder / "bin" / launcher.name,
        shown=(str(folder), *(str(place) for place in places)),
        glibc=max(glibc_needed(file) for file in [*files, *libraries]),
    )


def _wheel(mpi: str) -> HostMpi:
    """Return an MPI of `tools/mpis`: its own folder is complete and self-contained."""
    if reason := wheels.probe(mpi):
        raise MissingTool(reason)
    folder = wheels.folder(mpi)
    files = [file for file in folder.rglob("*") if file.is_file() and (file.parent.name == "bin" or ".so" in file.name)]
    return HostMpi(
        folder=folder,
        launcher=wheels.program(mpi, "mpirun"),
        shown=(str(folder),),
        glibc=max(glibc_needed(file) for file in files),
    )


def find_plug_ins(mpi: str, program: Path) -> tuple[Path, ...]:
    """Return the folders of plug-ins and settings whose paths are compiled into the MPI."""
    folders: list[Path] = []
    if mpi == "openmpi":
        for what in ("pkglibdir", "sysconfdir", "pkgdatadir"):
            output = run((need("ompi_info", package="openmpi-bin"), "--path", what, "--parsable"), timeout_s=20).stdout
            folders += [Path(line.split(":", 2)[2]) for line in output.splitlines() if line.startswith(f"path:{what}:")]
    for library in find_libraries([program, *(file for place in folders for file in sorted(place.glob("*.so")))]):
        beside = {"libpmix": "pmix", "libucp": "ucx"}.get(library.name.split(".")[0])
        if beside is not None:
            folders.append(library.resolve().parent / beside)
    return tuple(dict.fromkeys(place for place in folders if place.is_dir()))


def find_libraries(files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the libraries that the dynamic loader finds for files, except those of the C library."""
    if find("ldd") is None or not files:
        raise InfrastructureError(
            "ldd, which finds the libraries of the MPI, is not installed", remedy=install("libc-bin")
        )
    output = run(("ldd", *map(str, files)), check=False, timeout_s=60).stdout
    return tuple(sorted({Path(path) for name, path in LOADED.findall(output) if not LIBC.fullmatch(name)}))


def glibc_needed(file: Path) -> Version:
    """Return the newest version of the C library whose symbols a file needs; (0, 0) if it needs none."""
    try:
        with open_regular(file) as content:
            return _newest(content)
    except OSError:
        return (0, 0)


def glibc_of(rootfs: Path) -> Version | None:
    """Return the version of the C library in an image, None if it is not found."""
    triplets = (f"{root}lib/{triplet}" for triplet in TRIPLETS.values() for root in ("", "usr/"))
    for place in (*triplets, "lib64", "usr/lib64", "usr/lib", "lib"):
        with suppress(OSError), open_file(rootfs, f"{place}/libc.so.6") as library:
            return _newest(library)
    return None


def _newest(file: BinaryIO) -> Version:
    versions = (version for piece in read_overlapping(file) for version in GLIBC.findall(piece))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def _collect(work: Path, programs: Iterable[Path], libraries: Iterable[Path]) -> None:
    for name in ("bin", "lib"):
        (work / name).mkdir()
    for program in programs:
        shutil.copy2(program.resolve(), work / "bin" / program.name)
    for library in libraries:
        shutil.copy2(library.resolve(), work / "lib" / library.name)
