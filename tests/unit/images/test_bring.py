"""The image of a bundle comes to the cache complete, or not at all."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tare.errors import ImageError, UsageError
from tare.images import bring
from tare.images.bring import bring_image
from tare.images.build import list_images
from tare.images.inside.archive import sha256_of

DIGEST = "0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.requires("root")


class Recipe:
    digest = DIGEST


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an image of a bundle, which this tare would make under the same digest."""
    monkeypatch.setattr(bring, "find_recipe", lambda _name: Recipe)
    folder = tmp_path / "brought"
    (folder / "files/bin").mkdir(parents=True)
    (folder / "files/bin/sh").write_text("a shell")
    with tarfile.open(folder / "rootfs.tar", "w") as archive:
        archive.add(folder / "files", ".")
    write(folder)
    return folder


def write(folder: Path, **more: Any) -> None:
    record = {"name": "debian-openmpi", "digest": DIGEST, "tar_digest": f"sha256:{sha256_of(folder / 'rootfs.tar')}"}
    (folder / "image.json").write_text(json.dumps(record | more))


def test_it_is_found_as_if_it_had_been_built_here(brought: Path, tmp_path: Path) -> None:
    image = bring_image(brought, tmp_path / "cache")
    assert (image.rootfs / "bin/sh").read_text() == "a shell"
    assert image.tar.read_bytes() == (brought / "rootfs.tar").read_bytes()
    assert list_images(tmp_path / "cache") == (image,)
    assert bring_image(brought, tmp_path / "cache") == image


def test_a_folder_that_its_record_names_is_not_taken_for_its_files(brought: Path, tmp_path: Path) -> None:
    write(brought, rootfs="/etc", sif="/etc/passwd")
    image = bring_image(brought, tmp_path / "cache")
    assert image.rootfs == tmp_path / "cache/images" / DIGEST / "rootfs"
    assert image.sif is None


def test_names_that_lead_outside_stay_inside(brought: Path, tmp_path: Path) -> None:
    with tarfile.open(brought / "rootfs.tar", "w") as archive:
        archive.add(brought / "files/bin/sh", "../../../../victim")
    write(brought)
    image = bring_image(brought, tmp_path / "cache")
    assert (image.rootfs / "victim").is_file()
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"digest": DIGEST[::-1]}, UsageError, "another version of tare"),
        ({"digest": "../../x"}, ImageError, "not the record of an image"),
        ({"name": 7}, ImageError, "not the record of an image"),
        ({"source": "/etc"}, ImageError, "not the record of an image"),
        ({"tar_digest": "sha256:0"}, ImageError, "is damaged"),
        ({"tar_digest": None}, ImageError, "is damaged"),
    ],
)
def test_a_wrong_record_is_refused_and_leaves_nothing(
    more: dict[str, Any], error: type[Exception], words: str, brought: Path, tmp_path: Path
) -> None:
    write(brought, **more)
    with pytest.raises(error, match=words):
        bring_image(brought, tmp_path / "cache")
    assert list_images(tmp_path / "cache") == ()


def test_a_damaged_root_file_system_leaves_nothing(brought: Path, tmp_path: Path) -> None:
    (brought / "rootfs.tar").write_bytes(b"no tar")
    write(brought)
    with pytest.raises(ImageError, match="cannot be unpacked"):
        bring_image(brought, tmp_path / "cache")
    assert list_images(tmp_path / "cache") == ()
    assert not list((tmp_path / "cache/images").glob(".unfinished*"))
