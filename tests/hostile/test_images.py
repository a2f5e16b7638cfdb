"""A hostile image as a user names it: bombs, odd members, entries that lead outside. It is refused, or harmless."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fuzz.hostile import snapshot
from integration.live import Ended, live, tare
from unit.images import writing
from unit.images.writing import Member, folder, member, symlink

pytestmark = live()


def archive(path: Path, *members: Member) -> Path:
    return writing.layered(path, list(members))


def convert(image: Path) -> Ended:
    """Convert an image with a cache of its own; check that nothing but the outcome is left."""
    where = image.parent
    result = tare(
        "image", "convert", image, "directory", where / "out", cwd=where, env={"TARE_CACHE": str(where / "cache")}
    )
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr
    return result


def hard(name: str, target: str) -> Member:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


ODD: dict[str, tuple[Member, ...]] = {
    "a file of an exabyte": (member("x", size=1 << 60),),
    "a negative size": (member("x", size=-512),),
    "headers without end": (member("x", b"0" * 512, type=tarfile.XHDTYPE, size=1 << 40),),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_image_with_odd_members_is_refused_in_a_sentence_and_leaves_nothing(kind: str, tmp_path: Path) -> None:
    result = convert(archive(tmp_path / "evil.tar", *ODD[kind]))
    refused(result, tmp_path)


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    with gzip.open(layer, "wb", 1) as file:
        file.write(member("zeros", size=1 << 45)[0].tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(64 << 20))
    image = writing.docker(tmp_path / "evil.tar", member("l.tar", layer.read_bytes()))
    layer.unlink()
    refused(convert(image), tmp_path)


def refused(result: Ended, folder: Path) -> None:
    assert result.status == 2, result.stderr
    assert "evil.tar" in result.stderr.splitlines()[-2] + result.stderr.splitlines()[-1]
    assert not (folder / "out").exists()
    images = folder / "cache" / "images"
    assert [path for path in images.iterdir() if not path.name.startswith(".lock")] == []


def test_entries_that_lead_outside_reach_nothing_and_rights_are_not_unpacked(tmp_path: Path, victim: Path) -> None:
    before = snapshot(victim)
    up = "../" * 12
    escapes: list[Any] = [
        folder("etc"), symlink("out", victim), member("out/planted", b"x"), member("out/secret", b"x"),
        symlink("etc/hosts", victim / "secret"), member(f"{up}{victim}/up", b"x"), member(f"{victim}/absolute", b"x"),
        hard("linked", f"{up}{victim}/secret"), member("linked", b"x"), symlink("mnt", victim / "new"),
        member("out/.wh.secret"), member("out/.wh..wh..opq"), member("rights", b"x", mode=0o6755),
        member("disk", type=tarfile.BLKTYPE, devmajor=254), member("pipe", type=tarfile.FIFOTYPE),
    ]  # fmt: skip
    for number, each in enumerate((escapes, *([one] for one in escapes))):
        place = tmp_path / str(number)
        place.mkdir()
        result = convert(archive(place / "evil.tar", *each))
        assert result.status in (0, 2), result.stderr
        if result.status == 0:
            found = [path.lstat().st_mode for path in (place / "out").rglob("*") if not path.is_symlink()]
            assert not any(mode & 0o6000 for mode in found)
            assert not any(mode & 0o170000 == 0o060000 for mode in found), "no device"
        assert snapshot(victim) == before
        assert not os.path.lexists(victim / "new")
