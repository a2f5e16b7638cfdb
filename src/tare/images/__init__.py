"""Provide the images that containers start from: recipe -> root file system -> each runtime's format.

A new image is one entry in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tare.errors import UsageError
from tare.images.recipe import Recipe, debian_mpich, debian_mpich5, debian_openmpi, debian_openmpi5

DEFAULT: Final = "debian-openmpi"

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
    make = RECIPES.get(name)
    if make is None:
        raise UsageError(f"unknown image {name!r}", remedy=f"known images: {', '.join(sorted(RECIPES))}")
    return make()
