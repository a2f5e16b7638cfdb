"""A cache, an image's folder and a folder that stands for the host, all below the test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.images.recipe import Recipe
from unit.images.writing import SECRET, put


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    folder = tmp_path / "rootfs"
    (folder / "etc").mkdir(parents=True)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder that stands for the host, with a file that nobody may read or write."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Return a recipe with sources of its own."""
    for name in ("kernels/CMakeLists.txt", "kernels/main.c", "kernels/common/clock.h", "miniapps/main.c"):
        put(tmp_path, name, b"text\n")
    return Recipe(
        name="test", suite="bookworm", mpi="openmpi", packages=("a", "b"), build_packages=("gcc",),
        mpi_compiler="mpicc", kernels=tmp_path / "kernels", miniapps=tmp_path / "miniapps",
    )  # fmt: skip
