"""Provide the images that containers start from: recipe -> root file system -> each runtime's format.

A new image is one entry in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Final

from tare.errors import UsageError
from tare.images.recipe import (
    PACKAGE,
    Recipe,
    debian_mpich,
    debian_mpich5,
    debian_openmpi,
    debian_openmpi5,
    service,
    split_name,
    with_packages,
)

DEFAULT: Final = "debian-openmpi"
SERVICE: Final = "tare-node"
"""The image of the container beside the ranks in a pod: registries have it, and no study starts from it."""

RECIPES: Final[Mapping[str, Callable[[], Recipe]]] = {
    DEFAULT: debian_openmpi,
    "debian-mpich": debian_mpich,
    "debian-openmpi5": debian_openmpi5,
    "debian-mpich5": debian_mpich5,
}

MPI_OF: Final[Mapping[str, str]] = {
    DEFAULT: "openmpi",
    "debian-mpich": "mpich",
    "debian-openmpi5": "openmpi5",
    "debian-mpich5": "mpich5",
}
"""The MPI inside each image, for readers of a study: a recipe itself needs the kernels' sources."""


def is_known(name: str, images: Collection[str] = RECIPES) -> bool:
    """Return whether an image is one of tare's, also one with packages: `debian-openmpi+python3-numpy`."""
    base, packages = split_name(name)
    return base in images and all(map(PACKAGE.fullmatch, packages))


def to_add(packages: str, image: str) -> str:
    """Return what to do so that an image has packages of Debian."""
    if is_known(image):
        return f"make an image that has it by `tare image add {image} {packages}`"
    return f"install {packages} of Debian, or what has it there, in the image"


def with_mpi(name: str, mpi: str) -> str:
    """Return the image of tare's that contains an MPI and the packages of another one; that one if there is none."""
    base, packages = split_name(name)
    found = next((each for each, inside in MPI_OF.items() if inside == mpi), base)
    return "+".join((found, *packages))


def find_recipe(name: str = DEFAULT) -> Recipe:
    """Return the recipe of this name; raise `UsageError` naming the known ones."""
    known = {**RECIPES, SERVICE: service}
    base, packages = split_name(name)
    if base not in known:
        close = get_close_matches(base, known, n=1)
        raise UsageError(
            f"unknown image {base!r}",
            remedy=f"{f'did you mean {close[0]}? ' if close else ''}known images: {', '.join(sorted(known))}",
        )
    if odd := next((each for each in packages if not PACKAGE.fullmatch(each)), None):
        raise UsageError(f"{odd!r} is no name of a Debian package", remedy="`apt-cache search WORD` finds packages")
    return with_packages(known[base](), packages)
