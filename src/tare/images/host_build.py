"""Check whether an image can use the programs that this machine has built for itself, and copy them.

The programs are identical if this machine and the image are of the same Debian, with the same C library and the same
MPI: the same compiler would compile the same sources against the same headers again. That takes half a minute, and
installing the compilers in the image's builder as long again. Otherwise an image's programs are compiled inside it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tare.errors import MissingTool
from tare.images.kernels import KernelBuild
from tare.images.recipe import PREFIX, Recipe
from tare.images.sources import kernels_source, miniapps_source
from tare.system import process

OS_RELEASE: Final = Path("/etc/os-release")


def find_versions(recipe: Recipe) -> Mapping[str, str]:
    """Return the versions of the image's packages with which this machine's programs fit it; none if they cannot.

    `recipe.same` maps packages of the image to those of this machine.
    """
    if recipe.mpi and (recipe.kernels, recipe.miniapps) != (kernels_source(), miniapps_source()):
        return {}
    if f"VERSION_CODENAME={recipe.suite}" not in _lines(OS_RELEASE) or "ID=debian" not in _lines(OS_RELEASE):
        return {}
    if not recipe.same or any(process.find(program) is None for program in ("dpkg-query", "cmake", "gcc")):
        return {}
    here = {name: _version(name) for name in recipe.same.values()}
    return {package: here[name] for package, name in recipe.same.items()} if all(here.values()) else {}


def copy_programs(build: KernelBuild, result: Path) -> None:
    """Copy this machine's programs into `result` in the image's layout, without debug information."""
    target = result / PREFIX.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(build.prefix, target, symlinks=True)
    try:
        strip = process.need("strip", package="binutils")
    except MissingTool:
        return
    for path in sorted(target.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            process.run((strip, "--strip-unneeded", str(path)), timeout_s=60.0, what=f"stripping {path.name}")


def _version(package: str) -> str:
    answer = process.run(("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", package), check=False)
    status, _, version = answer.stdout.partition(" ")
    return version.strip() if answer.status == 0 and status == "installed" else ""


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(line.strip().replace('"', "") for line in path.read_text().splitlines())
    except OSError:
        return ()
