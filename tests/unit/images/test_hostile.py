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
from tare.images import own
from tare.images.build import Image, list_images
from tare.images.convert import convert
from tare.images.inside import budget, layered
from tare.images.inside.archive import architecture
from tare.images.inside.layered import UNPACK
from tare.images.own import ensure_own, kind_of

EXABYTE = 1 << 60
root = pytest.mark.requires("root")


def member(name: str, content: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """Return an entry of a tar with its content; `more` are fields of its header."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in more.items():
        setattr(info, field, value)
    return info, content


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """Write a tar; a size that is not the content's is only stated."""
    with path.open("wb") as file:
        for info, content in members:
            file.write(info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
        file.write(bytes(1024))
    return path


def text(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def docker(path: Path, *members: tuple[tarfile.TarInfo, bytes], **stated: Any) -> Path:
    """Write an archive of docker save; `stated` are parts of its manifest, and `config`."""
    config = stated.pop("config", {"architecture": architecture()})
    manifest = [{"Config": "c.json", "Layers": ["l.tar"], **stated}]
    return tar(path, *members, member("c.json", text(config)), member("manifest.json", text(manifest)))


def layout(folder: Path, index: object, **blobs: object) -> Path:
    """Write an OCI layout as a folder; blobs are named by a digit that is repeated."""
    (folder / "blobs/sha256").mkdir(parents=True)
    (folder / "oci-layout").write_text("{}")
    (folder / "index.json").write_bytes(text(index))
    for name, content in blobs.items():
        (folder / "blobs/sha256" / (name[1:] * 64)).write_bytes(text(content))
    return folder


def pointer(digit: str) -> dict[str, str]:
    return {"digest": f"sha256:{digit * 64}"}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder that stands for the host; nothing in it may be another afterwards."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("as it was")
    yield folder
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"file": "as it was"}


@pytest.fixture(autouse=True)
def nothing_left(cache: Path) -> Iterator[None]:
    """Check that no image that was refused leaves a folder in the cache."""
    yield
    folders = [path for path in (cache / "images").glob("*") if not path.name.startswith(".lock")]
    assert {path.name for path in folders} == {image.digest for image in list_images(cache)}


# --- nothing is written through links (B3) ----------------------------------------------------------------------------


@pytest.mark.parametrize("linked", ["ch", "ch/environment"])
def test_a_copy_for_charliecloud_is_not_written_through_links_of_the_image(
    linked: str, tmp_path: Path, victim: Path
) -> None:
    rootfs = tmp_path / "own/images/0123/rootfs"
    (rootfs / linked).parent.mkdir(parents=True)
    (rootfs / linked).symlink_to(victim / ("file" if "/" in linked else "."))
    image = Image(name="x", digest="0123", rootfs=rootfs, tar=rootfs.parent / "rootfs.tar", packages={}, cache=tmp_path,
                  variables=("A=1",))  # fmt: skip
    if linked == "ch":
        with pytest.raises(ImageError, match="ch is a symbolic link"):
            convert(image, "charliecloud", tmp_path / "out")
        assert not (tmp_path / "out").exists()
    else:
        convert(image, "charliecloud", tmp_path / "out")
        assert (tmp_path / "out/ch/environment").read_text() == "A=1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["own", "victim", *(["out"] if linked != "ch" else [])]
    )


@root
def test_what_runtimes_mount_over_is_not_made_through_links_of_the_image(
    tmp_path: Path, cache: Path, victim: Path
) -> None:
    packed = tar(
        tmp_path / "l", member("etc", type=tarfile.DIRTYPE, mode=0o755),
        member("etc/hosts", type=tarfile.SYMTYPE, linkname=str(victim / "file")),
        member("mnt", type=tarfile.SYMTYPE, linkname=str(victim / "new")),
    )  # fmt: skip
    image = ensure_own(docker(tmp_path / "x.tar", member("l.tar", packed.read_bytes())), cache)
    assert (image.rootfs / "etc/hosts").read_text() == "127.0.0.1 localhost\n"
    assert not (image.rootfs / "etc/hosts").is_symlink()


# --- manifests name files of the image (B6) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stated",
    [
        {"Config": "../secret"},
        {"Config": "/dev/zero"},
        {"Layers": ["/dev/zero"]},
        {"Layers": ["../../victim/file"]},
        {"Layers": ["a/../../victim/file"]},
        {"Layers": ["linked"]},
        {"Config": "linked"},
        {"Config": "blobs"},
        {"Config": "pipe"},
    ],
)
def test_a_manifest_names_no_file_outside_of_its_layout(
    stated: dict[str, Any], tmp_path: Path, cache: Path, victim: Path
) -> None:
    folder = layout(tmp_path / "image", {})
    (tmp_path / "secret").write_text("{}")
    (folder / "linked").symlink_to(victim / "file")
    (folder / "c.json").write_text("{}")
    os.mkfifo(folder / "pipe")
    (folder / "manifest.json").write_text(json.dumps([{"Config": "c.json", "Layers": ["l.tar"], **stated}]))
    with pytest.raises(ImageError, match=r"names an invalid file|it lacks|damaged: .*regular"):
        ensure_own(folder, cache)


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", "a/../../x", "", 5])
def test_a_name_that_leads_outside_is_told_as_such(name: object, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ImageError, match="names an invalid file"):
        ensure_own(docker(tmp_path / "x.tar", member("../secret", b"{}"), Config=name), cache)


@pytest.mark.parametrize("digest", ["sha256:../../../victim/file", "sha256:" + "A" * 64, 5, None, ["x"]])
def test_a_digest_that_is_none_is_told(digest: object, tmp_path: Path, cache: Path) -> None:
    folder = layout(tmp_path / "image", {"config": {"digest": digest}, "layers": []})
    with pytest.raises(ImageError, match="invalid digest"):
        ensure_own(folder, cache)


def test_links_in_an_archive_lead_to_its_members_and_end(tmp_path: Path, cache: Path) -> None:
    archive = docker(tmp_path / "x.tar", member("l.tar", type=tarfile.SYMTYPE, linkname="l.tar"))
    with pytest.raises(ImageError, match=r"l\.tar is not a regular file"):
        ensure_own(archive, cache)
    archive = docker(tmp_path / "y.tar", member("l.tar", type=tarfile.SYMTYPE, linkname="../../etc/passwd"))
    with pytest.raises(ImageError, match=r"it lacks \.\./\.\./etc/passwd"):
        ensure_own(archive, cache)


@root
def test_a_layer_that_is_a_link_to_the_same_one_is_taken(tmp_path: Path, cache: Path) -> None:
    packed = tar(tmp_path / "l", member("name", b"x")).read_bytes()
    links = member("b/l.tar", type=tarfile.SYMTYPE, linkname="../a/l.tar")
    archive = docker(tmp_path / "x.tar", member("a/l.tar", packed), links, Layers=["b/l.tar", "a/l.tar"])
    assert (ensure_own(archive, cache).rootfs / "name").read_text() == "x"


# --- rights on the host (B7) ------------------------------------------------------------------------------------------


def modes(rootfs: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_mode for path in rootfs.rglob("*") if path.name in ("su", "zero", "group")}


@root
@pytest.mark.parametrize("kind", ["squashfs", "docker"])
def test_an_unpacked_image_gives_nobody_rights_on_this_machine(kind: str, tmp_path: Path, cache: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for name, mode in (("su", 0o4755), ("group", 0o2755)):
        (files / name).write_text("x")
        (files / name).chmod(mode)
    os.mknod(files / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    if kind == "squashfs":
        subprocess.run(("mksquashfs", files, tmp_path / "x", "-quiet", "-no-progress"), check=True)
    else:
        with tarfile.open(tmp_path / "l", "w") as packed:
            packed.add(files, ".")
        docker(tmp_path / "x", member("l.tar", (tmp_path / "l").read_bytes()))
    image = ensure_own(tmp_path / "x", cache)
    assert modes(image.rootfs) == {"su": stat.S_IFREG | 0o755, "group": stat.S_IFREG | 0o755}
    assert stat.S_IMODE(image.rootfs.parent.stat().st_mode) == 0o700
    image.rootfs.parent.chmod(0o755)  # as versions before left it
    ensure_own(tmp_path / "x", cache)
    assert stat.S_IMODE(image.rootfs.parent.stat().st_mode) == 0o700


@root
def test_a_copy_of_an_image_has_no_rights_on_this_machine(tmp_path: Path) -> None:
    rootfs = tmp_path / "own/images/0123/rootfs"
    rootfs.mkdir(parents=True)
    (rootfs / "su").write_text("x")
    (rootfs / "su").chmod(0o6755)
    capability = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
    os.setxattr(rootfs / "su", "security.capability", capability)
    os.mknod(rootfs / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    image = Image(name="x", digest="0123", rootfs=rootfs, tar=rootfs.parent / "r.tar", packages={}, cache=tmp_path)
    convert(image, "directory", tmp_path / "out")
    assert modes(tmp_path / "out") == {"su": stat.S_IFREG | 0o755}
    assert os.listxattr(tmp_path / "out/su") == []
    assert os.listxattr(rootfs / "su") == ["security.capability"]


def test_code_of_the_image_is_not_imported_while_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
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


# --- loops, wrong types, sizes (B12) ----------------------------------------------------------------------------------


def test_an_index_that_leads_to_itself_ends(tmp_path: Path, cache: Path) -> None:
    folder = layout(tmp_path / "image", {"manifests": [pointer("a")]}, _a={"manifests": [pointer("a")]})
    with pytest.raises(ImageError, match="its indexes are nested more than 8 deep"):
        ensure_own(folder, cache)


@pytest.mark.parametrize(
    "index",
    [
        [], 5, "x", None, {}, {"manifests": 5}, {"manifests": [5]}, {"manifests": [{"platform": 5}]},
        {"manifests": [{"platform": {"architecture": ["x"]}}]}, {"config": 5, "layers": []},
        {"config": {"digest": "x"}}, b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"",
    ],
)  # fmt: skip
def test_an_index_of_wrong_types_is_told(index: object, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ImageError, match="image"):
        ensure_own(layout(tmp_path / "image", index), cache)


@pytest.mark.parametrize(
    "stated",
    [
        {"config": []}, {"config": 5}, {"config": {"architecture": ["x"]}}, {"config": {"config": 5}},
        {"config": {"config": {"Env": 5}}}, {"config": {"config": {"Env": [5]}}},
        {"config": {"config": {"Env": {"A": 1}}}},
        {"Layers": 5}, {"Layers": [5]}, {"Layers": [{}]}, {"Config": 5}, {"Config": None}, {"Layers": ["l.tar"] * 600},
    ],
)  # fmt: skip
def test_a_manifest_or_configuration_of_wrong_types_is_told(stated: Any, tmp_path: Path, cache: Path) -> None:
    more = {"config": {"architecture": architecture()}, **stated}
    archive = docker(tmp_path / "x.tar", member("l.tar", tar(tmp_path / "l").read_bytes()), **more)
    with pytest.raises(ImageError) as refused:
        ensure_own(archive, cache)
    assert str(archive) in refused.value.message
    assert len(refused.value.message) < 500


def test_a_name_that_a_terminal_would_obey_is_shown_as_text(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ImageError) as refused:
        ensure_own(docker(tmp_path / "x.tar", config={"architecture": "\x1b[2J"}), cache)
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    "hostile",
    [
        lambda: [member("big", b"x", size=EXABYTE)],
        lambda: [member("sparse", sparse_header(EXABYTE), size=512, type=b"S")],
        lambda: [member("././@LongLink", b"x", size=EXABYTE, type=tarfile.GNUTYPE_LONGNAME), member("a")],
        lambda: [member("pax", b"x", size=EXABYTE, type=tarfile.XHDTYPE), member("a")],
        lambda: [member("/".join("d" * 400))],
        lambda: [member("a", type=tarfile.LNKTYPE, linkname="a"), member("b", b"", size=-512)],
        lambda: [member("a\0b"), member("c", pax(path="d\0e"), type=tarfile.XHDTYPE), member("c")],
        lambda: [member("c", pax(mtime="1e400"), type=tarfile.XHDTYPE), member("c")],
        lambda: [member("c", pax(size="x"), type=tarfile.XHDTYPE), member("c")],
    ],
)
@root
def test_a_layer_that_states_what_cannot_be_is_refused_quickly(
    hostile: Callable[[], list[tuple[tarfile.TarInfo, bytes]]], tmp_path: Path, cache: Path
) -> None:
    packed = tar(tmp_path / "l", *hostile()).read_bytes()
    archive = docker(tmp_path / "x.tar", member("l.tar", packed))
    with suppress(ImageError):  # tarfile passes over some of these
        rootfs = ensure_own(archive, cache).rootfs
        assert sum(path.lstat().st_size for path in rootfs.rglob("*") if path.is_file()) < 10_000


@pytest.mark.parametrize("size", [EXABYTE, 1 << 33, -512])
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
@pytest.mark.parametrize("first", [True, False])
def test_an_outer_header_that_states_what_cannot_be_is_refused(
    size: int, kind: bytes, first: bool, tmp_path: Path, cache: Path
) -> None:
    before = [] if first else [member("plain", b"x")]
    archive = docker(tmp_path / "x.tar", *before, member("odd", b"x", size=size, type=kind))
    with pytest.raises(UsageError) as refused:
        ensure_own(archive, cache)
    assert str(archive) in refused.value.message


def sparse_header(size: int) -> bytes:
    """Return a header's worth of nothing; the size that a sparse file has is in its own header."""
    return struct.pack(">Q", size).ljust(512, b"\0")


def pax(**fields: str) -> bytes:
    records = b""
    for name, value in fields.items():
        length = len(name) + len(value) + 3
        length += len(str(length + len(str(length))))
        records += f"{length} {name}={value}\n".encode()
    return records


@root
@pytest.mark.parametrize("kind", ["archive", "layer"])
def test_compressed_zeros_are_refused_before_they_are_unpacked(
    kind: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ALWAYS_BYTES", 1 << 20)
    monkeypatch.setattr(budget, "RATIO", 2)
    zeros = member("zeros", bytes(8 << 20))
    archive = docker(tmp_path / "x.tar", member("l.tar", tar(tmp_path / "l", zeros).read_bytes()))
    if kind == "archive":
        archive.write_bytes(gzip.compress(archive.read_bytes()))
    else:
        packed = gzip.compress((tmp_path / "l").read_bytes())
        archive = docker(tmp_path / "x.tar", member("l.tar", packed))
    with pytest.raises(ImageError, match=r"it would need more than|it has more than"):
        ensure_own(archive, cache)


@root
def test_a_layer_of_zstd_that_grows_too_large_is_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("this machine cannot: it has no zstd")
    monkeypatch.setattr(budget, "ALWAYS_BYTES", 1 << 20)
    (tmp_path / "l").write_bytes(bytes(16 << 20))
    subprocess.run(("zstd", "-q", tmp_path / "l"), check=True)
    archive = docker(tmp_path / "x.tar", member("l.tar", (tmp_path / "l.zst").read_bytes()))
    with pytest.raises(ImageError, match="cannot be decompressed"):
        ensure_own(archive, cache)


@root
def test_a_squashfs_of_zeros_is_refused_before_it_is_unpacked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ALWAYS_BYTES", 1 << 20)
    files = tmp_path / "files"
    files.mkdir()
    (files / "a\n-rw-r--r-- 0 -999999999999999 x").touch()
    (files / "zeros").touch()
    os.truncate(files / "zeros", 128 << 20)
    subprocess.run(("mksquashfs", files, tmp_path / "x", "-quiet", "-no-progress"), check=True)
    assert (tmp_path / "x").stat().st_size < 1 << 20
    with pytest.raises(ImageError, match="was not unpacked"):
        ensure_own(tmp_path / "x", cache)


@root
def test_a_layer_with_too_many_files_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tar(tmp_path / "l", *(member(str(each)) for each in range(50))).read_bytes()
    archive = docker(tmp_path / "x.tar", member("l.tar", packed))
    monkeypatch.setattr(budget, "MOST_MEMBERS", 40)
    with pytest.raises(ImageError, match="more than 40 files"):
        ensure_own(archive, cache)
    archive = docker(tmp_path / "y.tar", member("l.tar", packed), Layers=["l.tar"] * 2)
    monkeypatch.setattr(budget, "MOST_MEMBERS", 60)
    with pytest.raises(ImageError, match="more than 10 files"):
        ensure_own(archive, cache)


def test_what_is_neither_a_file_nor_a_folder_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(UsageError, match="is neither a file nor a folder"):
            kind_of(path)
    (tmp_path / "endless").write_bytes(b"hsqs")
    os.truncate(tmp_path / "endless", own.MOST_BYTES + 1)
    with pytest.raises(ImageError, match="was not unpacked"):  # before anything of it is read
        kind_of(tmp_path / "endless")


def test_a_manifest_that_is_too_long_is_not_read(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered, "MOST_TEXT_BYTES", 1000)
    archive = docker(tmp_path / "x.tar", config={"x": "y" * 2000})
    with pytest.raises(ImageError, match=r"c\.json has more than 1000 bytes"):
        ensure_own(archive, cache)
