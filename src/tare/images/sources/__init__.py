"""Find the C sources of the kernels and the mini-applications, which are compiled for each MPI and image.

`kernels` and `miniapps` beside this file are links to the folders of the repository; a wheel and an sdist have the
files themselves in their place (`pyproject.toml`). So one path serves a clone and an installed package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError

FOLDER: Final = Path(__file__).resolve().parent


def kernels_source() -> Path:
    """Return the folder of the kernels' sources; raises as `miniapps_source`."""
    return _source("kernels")


def miniapps_source() -> Path:
    """Return the folder of the mini-applications' sources.

    Raises `InfrastructureError` where the package was installed without them.
    """
    return _source("miniapps")


def _source(name: str) -> Path:
    folder = (FOLDER / name).resolve()
    if not (folder / "CMakeLists.txt").is_file():
        raise InfrastructureError(
            f"the sources of the {name} are not at {FOLDER / name}",
            remedy="install tare again from its wheel, or from a clone whose symbolic links are kept (make setup)",
        )
    return folder
