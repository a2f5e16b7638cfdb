"""Provide the images that containers start from: recipe -> root file system -> each runtime's format.

A new image is one entry in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tare.errors import UsageError
from tare.images.recipe import Recipe, debian_mpich, debian_mpich5, debian_openmpi, debian_openmpi5, service

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


def find_recipe(name: str = DEFAULT) -> Recipe:
    """Return the recipe of this name; raise `UsageError` naming the known ones."""
    known = {**RECIPES, SERVICE: service}
    if name not in known:
        raise UsageError(f"unknown image {name!r}", remedy=f"known images: {', '.join(sorted(known))}")
    return known[name]()
