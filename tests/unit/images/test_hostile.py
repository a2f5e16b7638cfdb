"""An image of anybody neither reaches files of the host nor fills its disk; what is wrong is told in a sentence.

Everything here happens below the test's own folder, in which `victim` stands for the host.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tare.errors import ImageError, UsageError
from tare.images.build import Image, list_images
from tare.images.convert import convert
from tare.images.inside import budget
from tare.images.inside.archive import architecture
from tare.images.inside.image_layers import UNPACK
from tare.images.own_images import ensure_own, kind_of
from unit.images import writing
from unit.images.writing import SECRET, Member, docker, folder, layout, link, member, pax, put, root, symlink, tar

EXABYTE = 1 << 60
SPARSE = struct.pack(">Q", EXABYTE).ljust(512, b"\0")
POINTER = {"digest": f"sha256:{'a' * 64}"}


@pytest.fixture(autouse=True)
def nothing_left(cache: Path, victim: Path) -> Iterator[None]:
    """Check that no image that was refused leaves a folder in the cache, and that the host is as it was."""
    yield
    folders = [path for path in (cache / "images").glob("*") if not path.name.startswith(".lock")]
    assert {path.name for path in folders} == {image.digest for image in list_images(cache)}
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"secret": SECRET}


def image_at(tmp_path: Path, rootfs: Path, **more: Any) -> Image:
    tarred = rootfs.parent / "rootfs.tar"
    return Image(name="x", digest="0123", rootfs=rootfs, tar=tarred, packages={}, cache=tmp_path, **more)


@pytest.mark.parametrize("linked", ["ch", "ch/environment"])
def test_a_copy_for_charliecloud_is_not_written_through_its_links(linked: str, tmp_path: Path, victim: Path) -> None:
    rootfs = tmp_path / "own/images/0123/rootfs"
    link(rootfs, linked, victim / ("secret" if "/" in linked else "."))
    image = image_at(tmp_path, rootfs, variables=("A=1",))
    if linked == "ch":
        with pytest.raises(ImageError, match="ch is a symbolic link"):
            convert(image, "charliecloud", tmp_path / "out")
    else:
        convert(image, "charliecloud", tmp_path / "out")
        assert (tmp_path / "out/ch/environment").read_text() == "A=1\n"
    assert {path.name for path in tmp_path.iterdir()} == {"own", "victim"} | ({"out"} if linked != "ch" else set())


@root
def test_what_runtimes_mount_over_is_not_made_through_links(tmp_path: Path, cache: Path, victim: Path) -> None:
    linked = [folder("etc"), symlink("etc/hosts", victim / "secret"), symlink("mnt", victim / "new")]
    image = ensure_own(writing.layered(tmp_path / "x.tar", linked), cache)
    assert (image.rootfs / "etc/hosts").read_text() == "127.0.0.1 localhost\n"
    assert not (image.rootfs / "etc/hosts").is_symlink()


@pytest.mark.parametrize(
    "stated",
    [
        *({"Config": name} for name in ("../secret", "/dev/zero", "linked", "blobs", "pipe")),
        *({"Layers": [name]} for name in ("/dev/zero", "../../victim/secret", "a/../../victim/secret", "linked")),
    ],
)
def test_a_manifest_names_no_file_outside(stated: dict[str, Any], tmp_path: Path, cache: Path, victim: Path) -> None:
    image = layout(tmp_path / "image", {})
    put(tmp_path, "secret", b"{}")
    link(image, "linked", victim / "secret")
    put(image, "c.json", b"{}")
    os.mkfifo(image / "pipe")
    put(image, "manifest.json", json.dumps([{"Config": "c.json", "Layers": ["l.tar"], **stated}]).encode())
    with pytest.raises(ImageError, match=r"names an invalid file|it lacks|damaged: .*regular"):
        ensure_own(image, cache)


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", "a/../../x", "", 5])
def test_a_name_that_leads_outside_is_told_as_such(name: object, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ImageError, match="names an invalid file"):
        ensure_own(docker(tmp_path / "x.tar", member("../secret", b"{}"), Config=name), cache)


@pytest.mark.parametrize(
    ("target", "words"),
    [("l.tar", r"l\.tar is not a regular file"), ("../../etc/passwd", r"it lacks \.\./\.\./etc/passwd")],
)
def test_links_in_an_archive_lead_to_its_members_and_end(target: str, words: str, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ImageError, match=words):
        ensure_own(docker(tmp_path / "x.tar", symlink("l.tar", target)), cache)


@root
def test_a_layer_that_is_a_link_to_the_same_one_is_taken(tmp_path: Path, cache: Path) -> None:
    packed = tar(tmp_path / "l", member("name", b"x")).read_bytes()
    members = member("a/l.tar", packed), symlink("b/l.tar", "../a/l.tar")
    archive = docker(tmp_path / "x.tar", *members, Layers=["b/l.tar", "a/l.tar"])
    assert (ensure_own(archive, cache).rootfs / "name").read_text() == "x"


def modes(rootfs: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_mode for path in rootfs.rglob("*") if path.name in ("su", "zero", "group")}


@root
@pytest.mark.parametrize("made", [writing.squashfs, writing.docker_of])
def test_an_unpacked_image_gives_nobody_rights_on_this_machine(
    made: Callable[[Path, Path], Path], tmp_path: Path, cache: Path
) -> None:
    files = tmp_path / "files"
    put(files, "su", mode=0o4755)
    put(files, "group", mode=0o2755)
    os.mknod(files / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    image = ensure_own(made(tmp_path / "x", files), cache)
    assert modes(image.rootfs) == {"su": stat.S_IFREG | 0o755, "group": stat.S_IFREG | 0o755}
    assert stat.S_IMODE(image.rootfs.parent.stat().st_mode) == 0o700
    image.rootfs.parent.chmod(0o755)  # as versions before left it
    ensure_own(tmp_path / "x", cache)
    assert stat.S_IMODE(image.rootfs.parent.stat().st_mode) == 0o700


@root
def test_a_copy_of_an_image_has_no_rights_on_this_machine(tmp_path: Path) -> None:
    rootfs = tmp_path / "own/images/0123/rootfs"
    put(rootfs, "su", mode=0o6755)
    os.setxattr(rootfs / "su", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
    os.mknod(rootfs / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    convert(image_at(tmp_path, rootfs), "directory", tmp_path / "out")
    assert (modes(tmp_path / "out"), os.listxattr(tmp_path / "out/su")) == ({"su": stat.S_IFREG | 0o755}, [])
    assert os.listxattr(rootfs / "su") == ["security.capability"]


def test_code_of_the_image_is_not_imported_while_it_is_unpacked(tmp_path: Path) -> None:
    put(tmp_path, "hostile.py", f"open({str(tmp_path / 'ran')!r}, 'w')".encode())
    script = f"""
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("unpack", {str(UNPACK)!r})
unpack = importlib.util.module_from_spec(spec); spec.loader.exec_module(unpack)
os.chroot = lambda _: sys.path.insert(0, {str(tmp_path)!r})
unpack.enter("/")
import hostile
"""
    done = subprocess.run((sys.executable, "-IS", "-c", script), capture_output=True, text=True, check=False)
    assert "No module named 'hostile'" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_an_index_that_leads_to_itself_ends_and_a_long_manifest_is_not_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImageError, match="its indexes are nested more than 8 deep"):
        ensure_own(layout(tmp_path / "image", {"manifests": [POINTER]}, _a={"manifests": [POINTER]}), cache)
    monkeypatch.setattr(budget, "MOST_TEXT_BYTES", 1000)
    with pytest.raises(ImageError, match=r"c\.json has more than 1000 bytes"):
        ensure_own(docker(tmp_path / "x.tar", config={"x": "y" * 2000}), cache)


INDEXES = [
    [], 5, "x", None, {}, {"manifests": 5}, {"manifests": [5]}, {"manifests": [{"platform": 5}]},
    {"manifests": [{"platform": {"architecture": ["x"]}}]}, {"config": 5, "layers": []},
    {"config": {"digest": "x"}}, b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"",
]  # fmt: skip
DIGESTS = ["sha256:../../../victim/file", "sha256:" + "A" * 64, 5, None, ["x"]]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        *((index, "image") for index in INDEXES),
        *(({"config": {"digest": digest}, "layers": []}, "invalid digest") for digest in DIGESTS),
    ],
)
def test_an_index_of_wrong_types_or_digests_is_told(index: object, words: str, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ImageError, match=words):
        ensure_own(layout(tmp_path / "image", index), cache)


@pytest.mark.parametrize(
    "stated",
    [
        {"config": []}, {"config": 5}, {"config": {"architecture": ["x"]}}, {"config": {"config": 5}},
        {"config": {"config": {"Env": 5}}}, {"config": {"config": {"Env": [5]}}},
        {"config": {"config": {"Env": {"A": 1}}}}, {"config": {"architecture": "\x1b[2J"}},
        {"Layers": 5}, {"Layers": [5]}, {"Layers": [{}]}, {"Config": 5}, {"Config": None}, {"Layers": ["l.tar"] * 600},
    ],
)  # fmt: skip
def test_a_manifest_of_wrong_types_is_told_and_shown_as_text(stated: Any, tmp_path: Path, cache: Path) -> None:
    more = {"config": {"architecture": architecture()}, **stated}
    archive = docker(tmp_path / "x.tar", member("l.tar", tar(tmp_path / "l").read_bytes()), **more)
    with pytest.raises(ImageError) as refused:
        ensure_own(archive, cache)
    assert str(archive) in refused.value.message
    assert len(refused.value.message) < 500
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    "hostile",
    [
        [member("big", b"x", size=EXABYTE)],
        [member("sparse", SPARSE, size=512, type=b"S")],
        [member("././@LongLink", b"x", size=EXABYTE, type=tarfile.GNUTYPE_LONGNAME), member("a")],
        [member("pax", b"x", size=EXABYTE, type=tarfile.XHDTYPE), member("a")],
        [member("/".join("d" * 400))],
        [member("a", type=tarfile.LNKTYPE, linkname="a"), member("b", b"", size=-512)],
        [member("a\0b"), member("c", pax(path="d\0e"), type=tarfile.XHDTYPE), member("c")],
        [member("c", pax(mtime="1e400"), type=tarfile.XHDTYPE), member("c")],
        [member("c", pax(size="x"), type=tarfile.XHDTYPE), member("c")],
    ],
    ids=["big", "sparse", "long name", "pax", "deep", "negative", "zero byte", "late", "no size"],
)
@root
def test_a_layer_that_states_what_cannot_be_is_refused(hostile: list[Member], tmp_path: Path, cache: Path) -> None:
    with suppress(ImageError):  # tarfile passes over some of these
        rootfs = ensure_own(writing.layered(tmp_path / "x.tar", hostile), cache).rootfs
        assert sum(path.lstat().st_size for path in rootfs.rglob("*") if path.is_file()) < 10_000


@pytest.mark.parametrize("size", [EXABYTE, 1 << 33, -512])
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
@pytest.mark.parametrize("before", [[], [member("plain", b"x")]], ids=["first", "second"])
def test_an_impossible_header_is_refused(
    size: int, kind: bytes, before: list[Member], tmp_path: Path, cache: Path
) -> None:
    archive = docker(tmp_path / "x.tar", *before, member("odd", b"x", size=size, type=kind))
    with pytest.raises(UsageError) as refused:
        ensure_own(archive, cache)
    assert str(archive) in refused.value.message


@root
@pytest.mark.parametrize("kind", ["archive", "layer", "zstd", "squashfs"])
def test_compressed_zeros_are_not_unpacked(
    kind: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ALWAYS_BYTES", 1 << 20)
    monkeypatch.setattr(budget, "RATIO", 2 if kind in ("archive", "layer") else budget.RATIO)
    archive, words = tmp_path / "x.tar", "it would need more than|it has more than"
    zeros = tar(tmp_path / "l", member("zeros", bytes(8 << 20))).read_bytes()
    match kind:
        case "archive":
            archive.write_bytes(gzip.compress(docker(archive, member("l.tar", zeros)).read_bytes()))
        case "layer":
            docker(archive, member("l.tar", gzip.compress(zeros)))
        case "zstd":
            if shutil.which("zstd") is None:
                pytest.skip("this machine cannot: it has no zstd")
            put(tmp_path, "z", bytes(16 << 20))
            subprocess.run(("zstd", "-q", tmp_path / "z"), check=True)
            docker(archive, member("l.tar", (tmp_path / "z.zst").read_bytes()))
            words = "cannot be decompressed"
        case "squashfs":
            put(tmp_path, "files/a\n-rw-r--r-- 0 -999999999999999 x", b"")
            os.truncate(put(tmp_path, "files/zeros"), 128 << 20)
            writing.squashfs(archive, tmp_path / "files")
            words = "was not unpacked"
    assert kind in ("layer", "zstd") or archive.stat().st_size < 1 << 20
    with pytest.raises(ImageError, match=words):
        ensure_own(archive, cache)


@root
def test_files_of_a_layer_that_is_listed_again_count_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MOST_MEMBERS", 60)
    packed = [member(str(each)) for each in range(50)]
    archive = writing.layered(tmp_path / "x.tar", packed, [], Layers=["l0.tar", "l1.tar", "l0.tar"])
    with pytest.raises(ImageError, match="more than 10 files"):
        ensure_own(archive, cache)


def test_what_is_neither_a_file_nor_a_folder_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(UsageError, match="is neither a file nor a folder"):
            kind_of(path)
    os.truncate(put(tmp_path, "endless", b"hsqs"), budget.MOST_BYTES + 1)
    with pytest.raises(ImageError, match=r"was not unpacked: it would need more than 500\.0 GB"):  # before it is read
        kind_of(tmp_path / "endless")
