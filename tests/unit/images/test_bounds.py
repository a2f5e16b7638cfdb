"""What an image may take is bounded: members, bytes, depth, headers, layers, libraries, time, in every format.

The bounds are the constants of the code; SECURITY.md has them in a table, which is compared with them here.
"""

from __future__ import annotations

import ast
import bz2
import gzip
import importlib
import os
import re
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.errors import ImageError
from tare.images.inside import budget, dynamic_loader, elf, image_layers, sif, versions
from tare.images.inside.archive import architecture
from tare.images.inside.dynamic_loader import find_linked
from tare.images.inside.safe_paths import inside
from tare.images.own_images import ensure_own
from tare.workloads.own_programs import missing_libraries
from unit.images import writing
from unit.images.test_linked import an_elf
from unit.images.writing import a_sif, docker, docker_of, layout, member, pax, put, root, squashfs, tar

TREE = Path(__file__).parents[3]
SOURCES = TREE / "src/tare/images"
PAGE = (TREE / "SECURITY.md").read_text()
ROW = re.compile(r"^\| (.+?) \| ([0-9,.]+) \| `([a-z_/.]+):([A-Z_]+)` \| (.+?) \|$", re.MULTILINE)
BOUND = re.compile(r"(MOST|LONGEST|DEEPEST|LARGEST|RATIO|ALWAYS|KEPT_FREE|LIST|MEMORY|LINKS)(_\w+)?|(UNPACK|PUSH)_S")


def constants() -> dict[tuple[str, str], object]:
    """Return the bounds of all modules for images, by module and name."""
    found = {}
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES).as_posix()
        for node in ast.parse(file.read_text()).body:
            target = node.target if isinstance(node, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and BOUND.fullmatch(target.id):
                module = importlib.import_module(f"tare.images.{name.removesuffix('.py').replace('/', '.')}")
                found[name, target.id] = getattr(module, target.id)
    return found


def test_the_page_has_every_bound_with_the_value_and_the_sentence_of_the_code() -> None:
    stated = {(row[3], row[4]): float(row[2].replace(",", "")) for row in ROW.finditer(PAGE)}
    assert stated == constants()
    sources = " ".join(file.read_text() for file in sorted(SOURCES.rglob("*.py")))
    plain = re.sub(r'"\s+f?"', "", sources)  # sentences go over several lines
    for row in ROW.finditer(PAGE):
        for words in row[5].removeprefix('"').removesuffix('"').split(" ... ") if row[5].startswith('"') else ():
            assert words in plain, f"no message says {words!r} ({row[4]})"


UNBOUNDED = {
    "build.py": 3,  # tare's own record and note, and the list of packages of an image that it has built
    "cache.py": 1,  # the mounts of this process
    "convert.py": 1,
    "direct_build.py": 1,
    "host_build.py": 2,
    "check_probe.py": 1,  # tare's own sources
    "mpi_wheels.py": 1,  # tare's own note of what is installed
    "recipe.py": 2,  # tare's own sources
    "usage.py": 1,
}
"""Reads of whole files that tare or the user has written, by module. What an image or a registry says is not one.

That no module reads to the end by `read` and the like is tested in tests/unit/rules/test_bounded_reads.py.
"""


def test_nothing_that_an_image_or_a_registry_says_is_read_without_a_bound() -> None:
    found = {}
    for file in sorted(SOURCES.rglob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text()))
        whole = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in ("read_text", "read_bytes")]
        found[file.relative_to(SOURCES).as_posix()] = len(whole)
    assert {name: count for name, count in found.items() if count > UNBOUNDED.get(name, 0)} == {}


# --- members, of every format ---------------------------------------------------------------------------------------


def packed_sif(path: Path, files: Path) -> Path:
    machine = next(code for code, name in sif.MACHINES.items() if name == architecture())
    path.write_bytes(a_sif(squashfs(path.with_suffix(".squashfs"), files).read_bytes(), machine))
    return path


def a_folder(path: Path, files: Path) -> Path:
    for name in ("dev", "proc", "sys", "tmp"):
        (files / name).mkdir(exist_ok=True)
    return files.rename(path)


FORMATS = [squashfs, packed_sif, docker_of, a_folder]
MAKERS: dict[str, Callable[[Path], object]] = {
    "folders": lambda path: path.mkdir(),
    "links": lambda path: path.symlink_to("x"),
    "pipes": os.mkfifo,
    "files": lambda path: path.touch(),
}


@root
@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_of_member_counts_in_every_format(
    made: Callable[[Path, Path], Path], kind: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for number in range(40):
        MAKERS[kind](files / f"m{number}")
    image = made(tmp_path / "image", files)
    monkeypatch.setattr(budget, "MOST_MEMBERS", 39)
    with pytest.raises(ImageError, match="more than 39 files, folders and links") as refused:
        ensure_own(image, cache)
    assert str(image) in refused.value.message
    assert list((cache / "images").glob("[0-9a-f]*")) == []
    monkeypatch.setattr(budget, "MOST_MEMBERS", 50)
    ensure_own(image, cache)


@root
@pytest.mark.parametrize("made", FORMATS)
def test_folders_are_nested_in_bounds_in_every_format(
    made: Callable[[Path, Path], Path], tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    put(files, "/".join("d" * 12) + "/x")
    image = made(tmp_path / "image", files)
    monkeypatch.setattr(budget, "DEEPEST", 9)
    with pytest.raises(ImageError, match=r"nested more than 9 deep|more than 9 folders"):
        ensure_own(image, cache)
    monkeypatch.setattr(budget, "DEEPEST", 14)
    ensure_own(image, cache)


@root
def test_inodes_and_blocks_stay_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = os.statvfs(tmp_path)
    fields = {name: getattr(free, name) for name in dir(free) if name.startswith("f_")}
    image = tmp_path / "image"
    for changed, left in (
        ({"f_files": 10**6, "f_favail": budget.KEPT_FREE_MEMBERS + 7}, 7),
        ({"f_files": 0, "f_favail": 0, "f_bavail": 10**12}, budget.MOST_MEMBERS),
        ({"f_bavail": budget.KEPT_FREE_BYTES // free.f_frsize}, 0),
    ):
        stated = type("Disk", (), {**fields, **changed})
        monkeypatch.setattr(budget.os, "statvfs", lambda _, stated=stated: stated)
        assert budget.UnpackBudget(image, tmp_path, 0).left_members == left


@root
def test_a_squashfs_whose_files_cannot_be_listed_is_not_unpacked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "files/x")
    image = squashfs(tmp_path / "image", tmp_path / "files")
    with monkeypatch.context() as patch:
        patch.setattr(budget, "UNPACK_S", 0.0)
        with pytest.raises(ImageError, match="was not unpacked: it takes more than 0 minutes"):
            ensure_own(image, cache)
    monkeypatch.setattr(budget, "LIST_BYTES", 10)
    with pytest.raises(ImageError, match="the list of its files has more than 10 bytes"):
        ensure_own(image, cache)


# --- headers of an archive ------------------------------------------------------------------------------------------


def test_long_headers_of_an_archive_are_refused_before_they_are_read(tmp_path: Path, cache: Path) -> None:
    long = pax(comment="x" * 20_000_000)
    members = [each for n in range(5) for each in (member("h", long, type=tarfile.XHDTYPE), member(f"f{n}"))]
    archive = tmp_path / "x.tar.bz2"
    archive.write_bytes(bz2.compress(tar(tmp_path / "x.tar", *members).read_bytes()))
    assert archive.stat().st_size < 20_000
    del members, long
    tracemalloc.start()
    try:
        with pytest.raises(ImageError, match=rf"{archive} is truncated or damaged: a header has more than 65536 bytes"):
            ensure_own(archive, cache)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_headers_of_an_archive_are_bounded_together_and_none_is_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = pax(**{f"k{number}": "v" for number in range(4000)})
    archive = tar(tmp_path / "x", member("g", records, type=tarfile.XGLTYPE), *(member(f"f{n}") for n in range(300)))
    tracemalloc.start()
    try:
        with pytest.raises(ImageError, match=r"it lacks index\.json"):
            ensure_own(archive, cache)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000, "each member has a copy of the headers"
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(budget, "MOST_HEADERS_BYTES", 100_000)
    with pytest.raises(ImageError, match="its headers have more than 100000 bytes together"):
        ensure_own(archive, cache)
    monkeypatch.setattr(budget, "MOST_HEADERS_BYTES", 1 << 20)
    monkeypatch.setattr(budget, "MOST_ARCHIVE_MEMBERS", 299)
    with pytest.raises(ImageError, match="it has more than 299 members"):
        ensure_own(archive, cache)


# --- layers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the layers that were unpacked, by their first words."""
    seen: list[str] = []
    unpack = image_layers._unpack_layer

    def noted(layer: Any, *arguments: Any) -> int:
        seen.append(layer.read(2).decode())
        layer.seek(0)
        return unpack(layer, *arguments)

    monkeypatch.setattr(image_layers, "_unpack_layer", noted)
    return seen


@root
def test_a_layer_that_is_listed_many_times_in_a_row_is_written_once(
    tmp_path: Path, cache: Path, unpacked: list[str]
) -> None:
    layers = [member("aa", b"1")], [member("bb", b"2")]
    order = ["l0.tar"] * 200 + ["l1.tar"] * 200
    image = ensure_own(writing.layered(tmp_path / "x.tar", *layers, Layers=order), cache)
    assert unpacked == ["aa", "bb"]
    assert (image.rootfs / "aa").read_text() + (image.rootfs / "bb").read_text() == "12"


@root
@pytest.mark.parametrize("kind", ["archive", "layout"])
def test_layers_that_are_listed_again_are_bounded_together(
    kind: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, unpacked: list[str]
) -> None:
    layers = [member("aa", b"1" * 1000)], [member("bb", b"2" * 1000)]
    size_bytes = tar(tmp_path / "l", *layers[0]).stat().st_size
    if kind == "archive":
        image = writing.layered(tmp_path / "x.tar", *layers, Layers=["l0.tar", "l1.tar"] * 3)
    else:
        image = layout(tmp_path / "image", {"config": {"digest": f"sha256:{'c' * 64}"}, "layers": [
            {"digest": f"sha256:{each * 64}"} for each in "abab"
        ]}, _c={"architecture": architecture()})  # fmt: skip
        for name, each in zip("ab", layers, strict=True):
            tar(image / f"blobs/sha256/{name * 64}", *each)
    monkeypatch.setattr(budget, "MOST_REPEATED_BYTES", 2 * size_bytes - 1)
    with pytest.raises(ImageError, match="its manifest lists layers again that have more than"):
        ensure_own(image, cache)
    assert unpacked == ["aa", "bb", "aa"]
    monkeypatch.setattr(budget, "MOST_REPEATED_BYTES", 4 * size_bytes)
    ensure_own(image, cache)


@root
def test_all_layers_together_have_the_size_that_the_image_s_file_may_have(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ALWAYS_BYTES", 1 << 20)
    zeros = [bz2.compress(tar(tmp_path / "l", member(f"z{n}", bytes(900_000))).read_bytes()) for n in range(3)]
    members = [member(f"{n}.tar", each) for n, each in enumerate(zeros)]
    archive = docker(tmp_path / "x.tar", *members, Layers=[f"{n}.tar" for n in range(3)])
    archive.write_bytes(bz2.compress(archive.read_bytes()))
    assert archive.stat().st_size * budget.RATIO < 1 << 20, "each layer alone may be as large"
    with pytest.raises(ImageError, match=r"it has more than|it would need more than"):
        ensure_own(archive, cache)


@root
def test_what_takes_long_is_announced_and_ends(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = writing.layered(tmp_path / "x.tar", [member("aa", b"1")], [member("bb", b"2")])
    said: list[str] = []
    monkeypatch.setattr(budget, "SAY_EVERY_S", 0.0)
    ensure_own(archive, cache, said.append)
    assert said[1:] == [f"image x.tar: unpacking layer {n} of 2" for n in (1, 2)]
    monkeypatch.setattr(budget, "UNPACK_S", 0.0)
    with pytest.raises(ImageError, match="it takes more than 0 minutes"):
        ensure_own(archive, tmp_path / "other")


@root
def test_what_stands_behind_the_end_of_a_layer_counts_though_it_is_not_unpacked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "ALWAYS_BYTES", 1 << 20)
    monkeypatch.setattr(budget, "MOST_REPEATED_BYTES", 3 << 20)
    parts = [gzip.compress(tar(tmp_path / "l", member(f"z{n}", b"1")).read_bytes() + bytes(900_000)) for n in range(2)]
    members = [member(f"{n}.tar", each) for n, each in enumerate(parts)]
    archive = docker(tmp_path / "x.tar", *members, Layers=[f"{n % 2}.tar" for n in range(6)])
    with pytest.raises(ImageError, match="it would need more than"):
        ensure_own(archive, cache)
    monkeypatch.setattr(budget.UnpackBudget, "read", lambda *_: None)
    with pytest.raises(ImageError, match="its manifest lists layers again that have more than"):
        ensure_own(archive, tmp_path / "other")


# --- ELF files ------------------------------------------------------------------------------------------------------


def test_a_program_that_asks_for_thousands_of_libraries_is_told_before_one_is_looked_for(
    rootfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"l{number}" for number in range(elf.MOST_NEEDED + 1)]
    program = put(rootfs, "bin/app", an_elf(*names, rpath=":".join(f"/{n}" for n in range(256))))
    monkeypatch.setattr(dynamic_loader._Search, "_open", lambda *_: pytest.fail("a library was looked for"))
    (told,) = missing_libraries(program, rootfs)
    assert told == f"app (cannot be read: it asks for more than {elf.MOST_NEEDED} libraries)"


def test_the_paths_that_are_tried_for_a_program_and_its_libraries_are_bounded_together(
    rootfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_loader, "MOST_LOOKUPS", 3000)
    folders = ":".join(f"/{n}" for n in range(100))
    for number in range(20):  # each of them is found, and asks for libraries of its own
        needed = [f"m{number}-{each}" for each in range(50)]
        put(rootfs, f"usr/lib/l{number}", an_elf(*needed, runpath=folders))
    program = put(rootfs, "bin/app", an_elf(*(f"l{number}" for number in range(20))))
    tried: list[str] = []
    opened = dynamic_loader._Search._open
    monkeypatch.setattr(
        dynamic_loader._Search, "_open", lambda self, place: (tried.append(place), opened(self, place))[1]
    )
    result = find_linked(program, rootfs)
    assert len(tried) == 3000
    assert "more than 1024 libraries, or 3000 paths of them" in result.damaged["app"]


def test_a_path_is_no_longer_than_its_bound_whatever_its_links_say(
    rootfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rootfs / "a").mkdir()
    for number in range(10):
        (rootfs / f"l{number}").symlink_to(f"{'a/../' * 100}l{number + 1}")
    put(rootfs, "l10/libx.so", an_elf())
    assert inside(rootfs, "/l6/libx.so") == rootfs / "l10/libx.so"
    assert inside(rootfs, "/l0/libx.so") is None
    program = put(rootfs, "bin/app", an_elf("libx.so", "liby.so", runpath=":".join(f"/l{n}" for n in range(5, 9))))
    assert find_linked(program, rootfs).missing == ("liby.so",)
    monkeypatch.setattr(dynamic_loader, "MOST_STEPS", 5000)
    assert "more than 1024 libraries, or" in find_linked(program, rootfs).damaged["app"]


def test_names_and_versions_of_an_elf_file_are_bounded(rootfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = put(rootfs, "long", an_elf("l" * (elf.LONGEST_NAME + 1)))
    assert "does not end" in missing_libraries(long, rootfs)[0]
    entry = struct.pack("=iIIIQ", 1, 0, 0, 0, 0)
    head = dynamic_loader.CACHE_HEAD.pack(dynamic_loader.CACHE_MAGIC, 200_000, 0, 0, 0, 0, 0, 0)
    asked: list[int] = []
    monkeypatch.setattr(dynamic_loader, "_text_at", lambda _, at: asked.append(at) or "")
    dynamic_loader.cache_of(head + entry * 200_000)
    assert len(asked) == 2 * dynamic_loader.MOST_CACHE_ENTRIES


def test_a_chain_of_versions_that_leads_everywhere_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def read_at(_file: object, at: int, size: int, **_: object) -> bytes:
        read.append(at)
        return (
            struct.pack("<HHIII", 1, 65535, 0, 16, 16)
            if size == 16 and len(read) % 2
            else struct.pack("<IHHII", 1, 0, 0, 0, 1)
        )

    monkeypatch.setattr(elf, "read_at", read_at)
    monkeypatch.setattr(versions, "_name", lambda *_: "x")
    entries = {versions.NEEDED[0]: [0], versions.NEEDED[1]: [1 << 31], elf.STRINGS: [0], elf.STRINGS_SIZE: [1]}
    everything = elf.Segment(kind=elf.LOAD, offset=0, address=0, length=1 << 40)
    made = elf.ElfLayout(order="<", machine=62, segments=(everything,), entries=entries)
    with pytest.raises(elf.DamagedError, match="needs more than"):
        list(versions._needed(None, made))  # type: ignore[arg-type]
    assert len(read) < 3 * versions.MOST_VERSIONS
