"""Images of anybody: whatever is in one, nothing outside of the cache changes, and errors are sentences of the project.

Layers are unpacked by the same code as otherwise, in a process that is forked and not started anew, which is quicker.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import stat
import struct
import sys
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from tare import elf
from tare.errors import CommandFailed, ImageError, TareError
from tare.images import layered, sif
from tare.images.archive import architecture
from tare.images.below import inside, make_folder, open_file, write_file
from tare.images.convert import convert
from tare.images.host_mpi import glibc_of
from tare.images.inspect import mpi_of
from tare.images.layered import UNPACK
from tare.images.linked import cache_of
from tare.images.own import ensure_own
from tare.images.variables import exported, variables_of
from tare.process import Result
from tare.programs import libraries, missing_libraries

VICTIM = "VICTIM"
"""Stands in names for the path of the folder that nothing may change."""

SEGMENTS = (
    "a", "b", "c", "..", ".", "", "etc", "hosts", "ch", "environment", "lib64", "usr", "lib", "libmpi.so.40", "mnt",
    ".wh.a", ".wh..wh..opq", ".wh...", ".wh.", "d" * 300, "\x1b[2J", "\udcff", "é", "ld-linux-x86-64.so.2",
)  # fmt: skip
WHOLE = (
    VICTIM, f"{VICTIM}/file", f"../../../../../../../../..{VICTIM}/file", "/", "", "..", "ch/environment",
    "etc/hosts", ".singularity.d/env/1.sh", "/dev/zero", "/proc/self/root/etc", "l0", "l1", "c", "manifest.json",
)  # fmt: skip
PAIRS = tuple(f"{one}/{two}" for one in SEGMENTS for two in SEGMENTS)
PATHS = st.sampled_from((*WHOLE, *SEGMENTS, *PAIRS, *(f"a/{each}/c/.." for each in SEGMENTS)))
"""One draw each: what takes many is slow, and a fuzzer lives from trying much."""
NAMES = st.sampled_from((*WHOLE * 10, "ch", "etc", *SEGMENTS * 4, *PAIRS))
LINKS = st.sampled_from((VICTIM, f"{VICTIM}/file") * 20 + WHOLE * 2 + SEGMENTS)

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 2.5, 10**30, 10**400, float("nan"), "", "x", "\ud800", "\0", "amd64", [], {}, [[]], [{}],
    "sha256:" + "a" * 64, "sha256:" + "b" * 64, {"digest": "sha256:" + "a" * 64}, [{"digest": 5}], [None],
    {"manifests": []}, {"manifests": [{"digest": "sha256:" + "b" * 64}]}, {"architecture": []}, ["l0"] * 600,
    {"architecture": "arm64"}, {"Env": ["A=1", 5]}, {"config": {"Env": {}}}, "../secret", "/dev/zero",
    f"{VICTIM}/file", "../../victim/file",
)  # fmt: skip
JUNK = st.sampled_from(ODD)
RARELY: Final = 12
"""How much more often than anything odd stands what belongs there: images must get far enough to be unpacked."""


def mixed(content: bytes, changes: Sequence[tuple[int, bytes]], end: int | None) -> bytes:
    """Return bytes with some written over, and the end cut off."""
    changed = bytearray(content)
    for at, new in changes:
        place = at % max(1, len(changed))
        changed[place : place + len(new)] = new
    return bytes(changed if end is None else changed[: end % (len(changed) + 1)])


CHANGES = st.tuples(
    st.lists(
        st.tuples(
            st.integers(0, 4000),
            st.binary(min_size=1, max_size=3) | st.sampled_from([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"-1"]),
        ),
        max_size=4,
    ),
    st.none() | st.none() | st.integers(0, 20_000),
)


# --- archives and layouts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """An entry of a tar; `stated` is a size that is not that of its content."""

    name: str
    kind: bytes
    link: str
    mode: int
    content: bytes
    stated: int | None


@dataclass(frozen=True)
class Archive:
    """A tar of docker save, or of an OCI layout, or a layout in a folder, and what was done to it."""

    kind: str
    layers: tuple[tuple[Member, ...], ...]
    config: object
    manifest: object
    oci: object
    index: object
    more: tuple[Member, ...]
    layer_changes: tuple[list[tuple[int, bytes]], int | None]
    changes: tuple[list[tuple[int, bytes]], int | None]
    packed: tuple[bool, bool]


KINDS = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)
ODD_KINDS = (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME,
             tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE, b"g", b"?")  # fmt: skip
CONTENTS = st.sampled_from(
    [b"", b"x", b"export A=$A$A\n" * 9, b"A=1\nB=\0\n", b"12 path=../x\n", b"20 size=99999999999\n", b"GLIBC_2.36\0",
     b"\0004.1.4\0", b"18 mtime=1e9999\n\n", b"99999 path=x\n"]
)  # fmt: skip
MEMBERS = st.builds(
    Member,
    name=NAMES,
    kind=st.sampled_from(KINDS * 30 + ODD_KINDS),
    link=LINKS,
    mode=st.sampled_from([0o644, 0o755, 0o4755, 0o6777, 0o2755, 0, 0o1777]),
    content=CONTENTS,
    stated=st.sampled_from([None] * 100 + [0, 1, 512, -1, -512, 1 << 40, 1 << 62]),
)


PLANTED = st.builds(
    Member,
    name=st.sampled_from(("ch", "ch/environment", "etc", "etc/hosts", "mnt", "lib64", ".singularity.d/env/1.sh")),
    kind=st.just(tarfile.SYMTYPE),
    link=LINKS,
    mode=st.just(0o777),
    content=st.just(b""),
    stated=st.none(),
)
"""Links where tare itself reads and writes."""
LAYERS = st.lists(MEMBERS | MEMBERS | PLANTED, max_size=6).map(tuple)


def usually(*values: object) -> st.SearchStrategy[Any]:
    """Return one of these, and rarely something odd."""
    return st.sampled_from(values * (RARELY * len(ODD) // len(values)) + ODD)


def rarely(strategy: st.SearchStrategy[Any], otherwise: object) -> st.SearchStrategy[Any]:
    return st.sampled_from((False,) * RARELY + (True,)).flatmap(lambda now: strategy if now else st.just(otherwise))


def pointer(digit: str) -> dict[str, str]:
    return {"digest": f"sha256:{digit * 64}"}


POINTERS = usually(*(pointer(digit) for digit in "abcd"))
CONFIGS = st.fixed_dictionaries(
    {"architecture": usually(architecture())},
    optional={
        "config": st.fixed_dictionaries({"Env": usually(["A=1", "PATH=/x"], ["=", "B=\0", "C=\ud800"], [])}) | JUNK,
    },
)
DOCKER = st.lists(
    st.fixed_dictionaries({"Config": rarely(PATHS, "c"), "Layers": usually(["l0", "l1"], ["l1"], ["l0"])}),
    min_size=1,
    max_size=1,
) | usually([{"Config": "c", "Layers": ["l0", "l1"]}])
OCI = st.fixed_dictionaries({"config": usually(pointer("a")), "layers": usually([pointer("c"), pointer("d")])})
INDEX = st.fixed_dictionaries({"manifests": usually([pointer("b")], [pointer("b") | {"platform": {"os": "x"}}])})
ARCHIVES = st.builds(
    Archive,
    kind=st.sampled_from(["docker", "docker", "oci", "folder", "docker-folder"]),
    layers=st.tuples(LAYERS, LAYERS),
    config=CONFIGS,
    manifest=DOCKER,
    oci=OCI,
    index=INDEX,
    more=st.lists(MEMBERS, max_size=3).map(tuple),
    layer_changes=rarely(CHANGES, ([], None)),
    changes=rarely(CHANGES, ([], None)),
    packed=st.tuples(st.booleans(), st.booleans()),
)


def a_tar(members: Sequence[Member], victim: Path) -> bytes:
    content = b""
    for each in members:
        info = tarfile.TarInfo(each.name.replace(VICTIM, str(victim))[:2000])
        info.type, info.mode = each.kind, each.mode
        info.linkname = each.link.replace(VICTIM, str(victim))
        info.size = len(each.content) if each.stated is None else each.stated
        with suppress(ValueError, UnicodeError):
            content += info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
            content += each.content + bytes(-len(each.content) % 512)
    return content + bytes(1024)


def as_json(value: object) -> bytes:
    return json.dumps(value).replace(VICTIM, "/none").encode()


def files_of(archive: Archive, victim: Path) -> dict[str, bytes]:
    """Return the files of an image by their names."""
    layers = [mixed(a_tar(each, victim), *archive.layer_changes) for each in archive.layers]
    layers = [gzip.compress(each, 1) if archive.packed[0] else each for each in layers]
    if archive.kind.startswith("docker"):
        named = {"l0": layers[0], "l1": layers[1], "c": as_json(archive.config)}
        return {**named, "manifest.json": as_json(archive.manifest)}
    blobs = {"a": as_json(archive.config), "b": as_json(archive.oci), "c": layers[0], "d": layers[1]}
    named = {f"blobs/sha256/{name * 64}": content for name, content in blobs.items()}
    return {**named, "index.json": as_json(archive.index)}


def write(archive: Archive, work: Path, victim: Path) -> Path:
    """Write an image and return its path."""
    files = files_of(archive, victim)
    if "folder" in archive.kind:
        folder = work / "image"
        for name, content in {**files, "oci-layout": b"{}"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(mixed(content, *archive.changes) if name == "c" else content)
        if archive.more:
            (folder / "l0").unlink(missing_ok=True)
            with suppress(OSError, ValueError):
                (folder / "l0").symlink_to(archive.more[0].link.replace(VICTIM, str(victim)))
        return folder
    members = [Member(name, tarfile.REGTYPE, "", 0o644, content, None) for name, content in files.items()]
    content = mixed(a_tar((*archive.more, *members), victim), *archive.changes)
    path = work / "image.tar"
    path.write_bytes(gzip.compress(content, 1) if archive.packed[1] else content)
    return path


def forked(argv: Sequence[str], **_: Any) -> Result:
    """Unpack a layer as `unpack.py` does, in a copy of this process."""
    spec = importlib.util.spec_from_file_location("unpack", UNPACK)
    assert spec is not None
    assert spec.loader is not None
    unpack = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unpack)
    arguments = list(argv[list(argv).index(str(UNPACK)) :])
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.dup2(written, 1)
            os.dup2(written, 2)
            sys.stdout, sys.stderr, sys.argv = (
                os.fdopen(1, "w"),
                os.fdopen(2, "w", errors="backslashreplace"),
                arguments,
            )
            status = unpack.main()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(written)
    with os.fdopen(read, errors="replace") as said:
        text = said.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), f"unpack.py stopped with {status}: {text}"
    if status:
        raise CommandFailed("unpacking", argv=argv, status=status, stderr_tail=text.strip())
    return Result(argv=tuple(argv), status=0, stdout=text, stderr="", elapsed_s=0.0)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path)] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def told(action: Callable[[], Any]) -> Any:
    """Return what an action gives; an error of the project must be a sentence that can be printed."""
    try:
        return action()
    except TareError as error:
        message = error.message
    assert message.isprintable(), message
    assert len(message) < 2000
    return None


@pytest.mark.root
@pytest.mark.requires("root")
def test_any_archive_is_an_image_or_refused_and_leads_nowhere_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("as it was")
    before = snapshot(victim)
    monkeypatch.setattr(layered.process, "run", Runs(layered.process.run))

    made: list[bool] = []

    def check(archive: Archive) -> None:
        work = tmp_path / "work"
        work.mkdir()
        try:
            path = write(archive, work, victim)
            image = told(lambda: ensure_own(path, work / "cache"))
            made.append(image is not None)
            if image is not None:
                check_image(image.rootfs)
                told(lambda: convert(image, "charliecloud", work / "out"))
            left = {each.name for each in (work / "cache/images").glob("*") if not each.name.startswith(".lock")}
            assert left == ({image.digest} if image else set())
            assert {each.name for each in work.iterdir()} <= {path.name, "cache", "out"}
            assert snapshot(victim) == before
        finally:
            shutil.rmtree(work)

    fuzz(ARCHIVES, check)
    print(f"{sum(made)} of {len(made)} are images")


class Runs:
    """Runs commands, but forks for what unpacks."""

    def __init__(self, run: Callable[..., Result]) -> None:
        self._run = run

    def __call__(self, argv: Sequence[str], **more: Any) -> Result:
        return forked(argv) if str(UNPACK) in argv else self._run(argv, **more)


def check_image(rootfs: Path) -> None:
    """Check that an unpacked image gives nobody rights and can be looked into."""
    assert stat.S_IMODE(rootfs.parent.stat().st_mode) == 0o700
    for folder, folders, files in os.walk(rootfs):
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            assert not stat.S_ISCHR(mode)
            assert not stat.S_ISBLK(mode)
            assert stat.S_ISLNK(mode) or not mode & 0o6000
    mpi_of(rootfs)
    glibc_of(rootfs)
    variables_of(rootfs)


# --- files of an image ------------------------------------------------------------------------------------------------


TREES = st.lists(st.tuples(PATHS, st.sampled_from(["file", "folder", "link", "pipe"]), PATHS), max_size=10)


def test_no_path_of_any_tree_leads_outside(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("as it was")
    before = snapshot(victim)
    rootfs = tmp_path / "rootfs"

    def check(example: tuple[list[tuple[str, str, str]], str]) -> None:
        tree, path = example
        rootfs.mkdir()
        try:
            make_tree(rootfs, tree, victim)
            path = path.replace(VICTIM, str(victim))
            found = inside(rootfs, path)
            assert found is None or not found.is_symlink()
            assert found is None or found.resolve(strict=True) == found
            with suppress(OSError), open_file(rootfs, path) as file:
                assert file.read() == b"inside"
            for target in (path, "a/b/c", "ch/environment"):
                with suppress(ImageError):
                    write_file(rootfs, target, "inside")
                with suppress(ImageError):
                    make_folder(rootfs, target)
            assert snapshot(victim) == before
            assert sorted(each.name for each in tmp_path.iterdir()) == ["rootfs", "victim"]
        finally:
            shutil.rmtree(rootfs)

    fuzz(st.tuples(TREES, PATHS.filter(lambda path: "\0" not in path)), check)


def make_tree(rootfs: Path, tree: list[tuple[str, str, str]], victim: Path) -> None:
    for name, kind, target in tree:
        parts = [
            part for part in name.split("/") if part not in ("", ".", "..", VICTIM) and len(os.fsencode(part)) < 256
        ] or ["a"]
        place = rootfs
        for part in parts[:-1]:
            place /= part
            if not os.path.isdir(place) or place.is_symlink():
                break
        place = place / parts[-1] if os.path.isdir(place) and not place.is_symlink() else rootfs / parts[-1]
        with suppress(OSError, ValueError):
            match kind:
                case "file":
                    place.touch(exist_ok=False)
                    place.write_text("inside")
                case "folder":
                    place.mkdir()
                case "link":
                    place.symlink_to(target.replace(VICTIM, str(victim)))
                case _:
                    os.mkfifo(place)


SCRIPTS = st.lists(
    st.sampled_from(['export A=x\n' + 'export A="$A$A"\n' * 40,
                     'export A="$A$A"', "export B=${A:-x}", "export C='$A'", "export PATH=/x:$PATH;", "export A=",
                     "if x; then export D=1; fi", "\0", "export E=\ud800", " \t" * 200, "\n" * 500, "${a-" * 100])
    | st.text(max_size=30),
    max_size=60,
).map("\n".join)  # fmt: skip


def test_any_script_states_variables_that_can_be_set() -> None:
    def check(script: str) -> None:
        for variable in exported(script):
            assert len(os.fsencode(variable)) < 1 << 17 * 4
            assert "\0" not in variable

    fuzz(SCRIPTS, check)


# --- programs ---------------------------------------------------------------------------------------------------------


def programs() -> tuple[bytes, ...]:
    """Return small programs and libraries of this machine, and a cache of the loader."""
    found = []
    for path in ("/bin/true", "/lib/x86_64-linux-gnu/libdl.so.2", "/lib64/ld-linux-x86-64.so.2"):
        with suppress(OSError):
            found.append(Path(path).read_bytes()[:60_000])
    return tuple(found)


def test_any_program_in_an_image_is_read_or_named_as_damaged(tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs"
    names = ("lib64/ld-linux-x86-64.so.2", "usr/lib/libc.so.6", "usr/lib/libmpi.so.40")
    for name in ("bin", "lib64", "usr/lib", "etc"):
        (rootfs / name).mkdir(parents=True)
    originals = programs()
    cache = Path("/etc/ld.so.cache").read_bytes() if Path("/etc/ld.so.cache").exists() else b""

    def check(example: tuple[list[tuple[int, tuple[list[tuple[int, bytes]], int | None]]], Any]) -> None:
        pieces, changes = example
        for name, (number, each) in zip(("bin/app", *names), pieces, strict=True):
            (rootfs / name).write_bytes(mixed(originals[number % len(originals)], *each))
        (rootfs / "etc/ld.so.cache").write_bytes(mixed(cache, *changes))
        app = rootfs / "bin/app"
        assert all(name.isprintable() for name in missing_libraries(app, rootfs))
        assert all(path.is_relative_to(rootfs) for path in libraries(app, rootfs).values())
        assert 0 <= elf.level_needed([app, *(rootfs / name for name in names)]) <= 32

    near = st.tuples(
        st.lists(st.tuples(st.integers(0, 900), st.binary(min_size=1, max_size=8)), max_size=6),
        st.none() | st.none() | st.integers(0, 60_000),
    )
    fuzz(st.tuples(st.lists(st.tuples(st.integers(0, 2), near), min_size=4, max_size=4), near), check)


def test_any_bytes_are_a_cache_or_none() -> None:
    head = struct.pack("=20sII5I", b"glibc-ld.so.cache1.1", 2, 20, 0, 0, 0, 0, 0)

    def check(rest: bytes) -> None:
        for content in (rest, head + rest, b"ld.so-1.7.0\0" + rest):
            assert all(path.startswith("/") for paths in cache_of(content).values() for path in paths)

    fuzz(st.binary(max_size=200), check)


# --- SIF --------------------------------------------------------------------------------------------------------------


def test_any_sif_has_its_root_inside_or_is_refused(tmp_path: Path) -> None:
    at = sif.HEADER.size
    header = sif.HEADER.pack(b"#!run\n", sif.MAGIC, b"01\0", b"02", b"", 0, 0, 0, 1, at, 585, at + 585, 99)
    extra = sif.PARTITION.pack(sif.SQUASHFS, sif.PRIMARY_SYSTEM, b"")
    entry = sif.DESCRIPTOR.pack(sif.DATA_PARTITION, True, 1, 1, 0, at + 585, 99, 99, 0, 0, 0, 0, b"root", extra)
    path = tmp_path / "x.sif"
    changes = st.tuples(
        st.lists(
            st.tuples(
                st.integers(0, 330),
                st.binary(min_size=1, max_size=2) | st.sampled_from([b"\xff" * 8, b"\xff" * 7 + b"\x7f"]),
            ),
            max_size=3,
        ),
        st.none() | st.integers(0, 900),
    )

    def check(change: tuple[list[tuple[int, bytes]], int | None]) -> None:
        path.write_bytes(mixed(header + entry + b"hsqs" + bytes(95), *change))
        for find in (sif.root_partition, sif.squashfs_partition):
            with suppress(ImageError):
                found = find(path)
                assert 0 <= found.offset <= found.offset + found.size_bytes <= path.stat().st_size

    fuzz(changes, check)
