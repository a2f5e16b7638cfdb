"""A cache, an image's folder and a folder that stands for the host, all below the test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.images.writing import SECRET


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
