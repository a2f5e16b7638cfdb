"""Binary files of anybody: programs and libraries, the loader's cache, SIF images."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.hostile import LARGE, Changes, changes, mixed
from tare.errors import ImageError
from tare.images.inside import elf, sif
from tare.images.inside.dynamic_loader import cache_of
from tare.workloads.own_programs import libraries, missing_libraries


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

    def check(example: tuple[list[tuple[int, Changes]], Changes]) -> None:
        pieces, of_cache = example
        for name, (number, each) in zip(("bin/app", *names), pieces, strict=True):
            (rootfs / name).write_bytes(mixed(originals[number % len(originals)], *each))
        (rootfs / "etc/ld.so.cache").write_bytes(mixed(cache, *of_cache))
        app = rootfs / "bin/app"
        assert all(name.isprintable() for name in missing_libraries(app, rootfs))
        assert all(path.is_relative_to(rootfs) for path in libraries(app, rootfs).values())
        assert 0 <= elf.level_needed([app, *(rootfs / name for name in names)]) <= 32

    near = changes(900, st.binary(min_size=1, max_size=8), 6)
    fuzz(st.tuples(st.lists(st.tuples(st.integers(0, 2), near), min_size=4, max_size=4), near), check)


def test_any_bytes_are_a_cache_or_none() -> None:
    head = struct.pack("=20sII5I", b"glibc-ld.so.cache1.1", 2, 20, 0, 0, 0, 0, 0)

    def check(rest: bytes) -> None:
        for content in (rest, head + rest, b"ld.so-1.7.0\0" + rest):
            assert all(path.startswith("/") for paths in cache_of(content).values() for path in paths)

    fuzz(st.binary(max_size=200), check)


def test_any_sif_has_its_root_inside_or_is_refused(tmp_path: Path) -> None:
    at = sif.HEADER.size
    header = sif.HEADER.pack(b"#!run\n", sif.MAGIC, b"01\0", b"02", b"", 0, 0, 0, 1, at, 585, at + 585, 99)
    extra = sif.PARTITION.pack(sif.SQUASHFS, sif.PRIMARY_SYSTEM, b"")
    entry = sif.DESCRIPTOR.pack(sif.DATA_PARTITION, True, 1, 1, 0, at + 585, 99, 99, 0, 0, 0, 0, b"root", extra)
    path = tmp_path / "x.sif"

    def check(change: Changes) -> None:
        path.write_bytes(mixed(header + entry + b"hsqs" + bytes(95), *change))
        for find in (sif.root_partition, sif.squashfs_partition):
            with suppress(ImageError):
                found = find(path)
                assert 0 <= found.offset <= found.offset + found.size_bytes <= path.stat().st_size

    fuzz(changes(330, st.binary(min_size=1, max_size=2) | LARGE, 3), check)
