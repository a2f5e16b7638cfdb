"""What an image is made of, and the digest of exactly that.

The digest covers the commands that are run, the text of the scripts they call and the sources of our programs, so an
image is rebuilt when, and only when, one of them changes. What differs between machines (mirrors, folders, the
date) is not in it; the versions of the packages that came are written to the image's `image.json`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tare.errors import MissingTool
from tare.images import mpi_wheels
from tare.images.sources import kernels_source, miniapps_source

SCRIPTS: Final = Path(__file__).parent / "scripts"
PREFIX: Final = "/opt/tare"
"""Where our programs are in every image: `/opt/tare/bin/tare-kernels`, `/opt/tare/lib/libtare_wall.so`, ..."""

MOUNT_POINTS: Final = ("dev", "proc", "sys", "tmp", "run", "tare", "root", "mnt", "home")
"""Folders that runtimes mount over; an image is often read-only when they would have to be made."""

MOUNT_FILES: Final = {"etc/hosts": "127.0.0.1 localhost\n", "etc/hostname": "", "etc/resolv.conf": ""}
"""Files that runtimes mount over, and what is in them otherwise: mmdebstrap copies the building machine's own."""

_SOURCE_SUFFIXES: Final = frozenset({".c", ".h", ".cmake", ".in", ".sh", ".txt"})

_TOOLS: Final = ("iperf3", "iproute2", "iputils-ping", "openssh-server", "procps", "util-linux")
"""What runtimes, networks, ways of launching and programs of others call inside a container."""

_LANGUAGES: Final = ("libgfortran5", "libgomp1", "libstdc++6")
"""What programs in Fortran, C++ and with OpenMP need that are built on Debian."""

PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
"""The form of a Debian package's name."""
_ADDED: Final = re.compile(r"(?<!\+)\+(?!\+)")
"""What stands between the name of an image and the packages that it has besides; `libstdc++6` is a package."""

_OMITTED_FILES: Final = ("/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/doc/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One image: a Debian suite, packages on top of the smallest system, and our programs built against its MPI.

    Without an `mpi` there are none of our programs in it.

    `build_packages` are there while `kernels` and `miniapps` (folders of sources) are compiled, not in the image;
    `mpi` is the MPI's name in the registry of MPIs. `debian` names a Debian part that recipes share, "" where it is the
    recipe's own; `brought` is a folder of this machine that is in the image at the same path, and `brought_stamp` says
    which build of it. `same` are the packages of the image, each with the one of this machine, whose versions must be
    the same for programs that are built here to fit it (`tare.images.host_build`).
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    mpi: str = ""
    build_packages: tuple[str, ...] = ()
    mpi_compiler: str = ""
    kernels: Path = Path()
    miniapps: Path = Path()
    debian: str = ""
    brought: Path | None = None
    brought_stamp: str = ""
    same: Mapping[str, str] = field(default_factory=dict)

    @property
    def debian_digest(self) -> str:
        """Return the digest of the Debian part, without our programs; changing a kernel does not change it."""
        commands = [
            debian_argv(self, base=Path("base.tar"), target=Path("root.tar")),
            [self.debian or self.name, *self.packages, *self.build_packages],
        ]
        return _digest(json.dumps(commands).encode(), _script("debian.sh"))

    @property
    def digest(self) -> str:
        """Return the digest of all that the image is made of."""
        inside = [MOUNT_POINTS, MOUNT_FILES, self.mpi_compiler, PREFIX]
        brought = [str(self.brought), self.brought_stamp] if self.brought else []
        return _digest(
            self.debian_digest.encode(),
            json.dumps([*inside, *brought]).encode(),
            _script("compile.sh"),
            self.sources_digest.encode(),
        )

    @property
    def sources_digest(self) -> str:
        """Return the digest of the sources of our programs."""
        return sources_digest(self.kernels, self.miniapps) if self.mpi else ""


def debian_openmpi() -> Recipe:
    """Return Debian 12 with its own Open MPI, the image of the quick-start study."""
    return Recipe(
        name="debian-openmpi",
        suite="bookworm",
        mpi="openmpi",
        packages=("openmpi-bin", "libopenmpi3", "hpcc", "libopenblas0-serial", "python3-mpi4py", *_LANGUAGES, *_TOOLS),
        build_packages=("gcc", "libc6-dev", "make", "cmake", "libopenmpi-dev"),
        mpi_compiler="mpicc.openmpi",
        kernels=kernels_source(),
        miniapps=miniapps_source(),
        same={"libc6": "libc6-dev", "libopenmpi3": "libopenmpi-dev"},
    )


def debian_mpich() -> Recipe:
    """Return Debian 12 with its own MPICH."""
    return Recipe(
        name="debian-mpich",
        suite="bookworm",
        mpi="mpich",
        packages=("mpich", "libmpich12", *_LANGUAGES, *_TOOLS),
        build_packages=("gcc", "libc6-dev", "make", "cmake", "libmpich-dev"),
        mpi_compiler="mpicc.mpich",
        kernels=kernels_source(),
        miniapps=miniapps_source(),
        same={"libc6": "libc6-dev", "libmpich12": "libmpich-dev"},
    )


def debian_openmpi5() -> Recipe:
    """Return Debian 12 with Open MPI 5 of the Python package index (tools/mpis)."""
    return _with_wheel("openmpi5")


def debian_mpich5() -> Recipe:
    """Return Debian 12 with MPICH 5 of the Python package index (tools/mpis)."""
    return _with_wheel("mpich5")


def service() -> Recipe:
    """Return Debian 12 with what a node's service needs: the image of the container beside the ranks in a pod."""
    return Recipe(name="tare-node", suite="bookworm", packages=("python3", "iproute2"), same={"libc6": "libc6"})


def _with_wheel(mpi: str) -> Recipe:
    """Return Debian 12 with an MPI of tools/mpis at the path that it has on this machine; raises `MissingTool`."""
    if reason := mpi_wheels.probe(mpi):
        raise MissingTool(reason)
    return Recipe(
        name=f"debian-{mpi}",
        suite="bookworm",
        mpi=mpi,
        packages=("zlib1g", *_LANGUAGES, *_TOOLS),
        build_packages=("gcc", "libc6-dev", "make", "cmake"),
        mpi_compiler=str(mpi_wheels.program(mpi, "mpicc")),
        kernels=kernels_source(),
        miniapps=miniapps_source(),
        debian="debian-wheels",
        brought=mpi_wheels.folder(mpi),
        brought_stamp=mpi_wheels.stamp(mpi),
        same={"libc6": "libc6-dev"},
    )


def with_packages(recipe: Recipe, packages: tuple[str, ...]) -> Recipe:
    """Return a recipe with more packages of Debian; its name has them, as `debian-openmpi+python3-numpy`."""
    if not packages:
        return recipe
    name = "+".join((recipe.name, *packages))
    debian = "+".join((recipe.debian, *packages)) if recipe.debian else ""
    return replace(recipe, name=name, debian=debian, packages=(*recipe.packages, *packages))


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the recipe that an image's name begins with, and the packages that are added, sorted."""
    base, *packages = _ADDED.split(name)
    return base, tuple(sorted(set(packages)))


PROBE: Final = "check"


def source_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a CMake project that decide what it builds, in order, leaving build folders out.

    The probe of `tare check` lies beside the kernels, whose files it shares, and is no part of their build.
    """
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        hidden = any(part.startswith((".", "build")) for part in inside[:-1]) or path.name.startswith(".")
        hidden = hidden or inside[0] == PROBE
        if not hidden and path.suffix in _SOURCE_SUFFIXES and path.is_file():
            yield path


def sources_digest(*folders: Path) -> str:
    """Return the digest of the sources in some folders: their names and their contents."""
    named = (
        part for folder in folders for path in source_files(folder) for part in (_name(path, folder), path.read_bytes())
    )
    return _digest(*named)


def debian_argv(recipe: Recipe, *, base: Path, target: Path) -> tuple[str, ...]:
    """Return the mmdebstrap command, without what differs between machines.

    It writes the image's base to `base` and the root with the compilers to `target`, both tar files.
    """
    hook = " ".join(('sh "$TARE_SCRIPTS/debian.sh" "$1"', shlex.quote(str(base)), *recipe.build_packages))
    return (
        "mmdebstrap",
        "--variant=minbase",
        "--format=tar",
        f"--include={','.join(recipe.packages)}",
        "--aptopt=APT::Install-Recommends false",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _OMITTED_FILES),
        f"--customize-hook={hook}",
        recipe.suite,
        str(target),
    )


def compile_argv(recipe: Recipe, *, root: Path, result: Path, as_root: bool) -> tuple[str, ...]:
    """Return the command that compiles our programs inside `root` and puts `opt/tare` into the folder `result`.

    An ordinary user gets the rights for it inside a user namespace.
    """
    return (
        "unshare",
        *(() if as_root else ("--map-root-user",)),
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        str(SCRIPTS / "compile.sh"),
        str(root),
        str(recipe.kernels),
        str(recipe.miniapps),
        str(result),
        recipe.mpi_compiler,
        PREFIX,
        *((str(recipe.brought),) if recipe.brought else ()),
    )


def _script(name: str) -> bytes:
    return (SCRIPTS / name).read_bytes()


def _name(path: Path, folder: Path) -> bytes:
    return path.relative_to(folder).as_posix().encode()


def _digest(*parts: bytes) -> str:
    """Return a SHA-256 over parts, each with its length, so that moving bytes between them changes it."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()[:32]
