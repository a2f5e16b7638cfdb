"""What a program lacks in an image is found without starting anything of it, and which x86-64 level it needs."""

from __future__ import annotations

import os
import posixpath
import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tare.images.inside import elf
from tare.images.inside.dynamic_loader import (
    CACHE_ENTRY,
    CACHE_HEAD,
    CACHE_MAGIC,
    OLD_MAGIC,
    ContainerView,
    cache_of,
    find_linked,
)
from tare.images.inside.elf import FLAGS, GNU_PROPERTIES, ISA_NEEDED, level_needed, level_of_machine
from tare.study.feasibility.preflight import mpi_of_program
from tare.workloads.own_programs import lacking, libraries, missing_libraries
from unit.images.writing import link, put, root

LOADER = "/lib64/ld-linux-x86-64.so.2"
CREATES_RAN = (
    b"\xb8\x55\x00\x00\x00"  # creat
    b"\x48\x8d\x3d\x10\x00\x00\x00\xbe\xa4\x01\x00\x00\x0f\x05"  # ("/ran", 0644)
    b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05"  # exit(0)
    b"/ran\0"
)


def an_elf(*needed: str, interpreter: str = "", machine: int = 62, code: bytes = b"", **texts: str) -> bytes:
    """Return an ELF file of 64 bits with these entries in its dynamic section, or one that is code alone."""
    strings, entries = b"\0", []
    stated = [(elf.NEEDED, name) for name in needed]
    stated += [({"soname": elf.SONAME, "rpath": elf.RPATH, "runpath": elf.RUNPATH}[key], texts[key]) for key in texts]
    for tag, text in stated:
        entries.append((tag, len(strings)))
        strings += text.encode() + b"\0"
    segments = 4 if not code else 1
    base, start = 0x400000, 64 + 56 * segments
    entries += [(elf.STRINGS, base + start), (elf.STRINGS_SIZE, len(strings)), (0, 0)]
    table = b"".join(struct.pack("<QQ", *each) for each in entries)
    program = interpreter.encode() + b"\0"
    content = code or strings + table + program
    rows = [(1, 5, 0, base, base, start + len(content), start + len(content), 4096)]
    if not code:
        at = start + len(strings)
        rows.append((elf.DYNAMIC, 4, at, base + at, base + at, len(table), len(table), 8))
        at += len(table)
        kind = elf.INTERPRETER if interpreter else 0
        rows.append((kind, 4, at, base + at, base + at, len(program), len(program), 1))
        rows.append((0, 0, 0, 0, 0, 0, 0, 0))
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, base + start, 64, 0, 0, 64, 56, segments, 0, 0, 0)
    return head + b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows) + content


def a_cache(*entries: tuple[str, str, int], old: bool = False) -> bytes:
    before = OLD_MAGIC.ljust(12, b"\0") + struct.pack("=I", 1) + bytes(12) if old else b""
    before += bytes(-len(before) % 8)
    at = CACHE_HEAD.size + CACHE_ENTRY.size * len(entries)
    strings, rows = b"", b""
    for name, path, hardware in entries:
        texts = name.encode() + b"\0" + path.encode() + b"\0"
        rows += CACHE_ENTRY.pack(0x303, at + len(strings), at + len(strings) + len(name) + 1, 0, hardware)
        strings += texts
    return before + CACHE_HEAD.pack(CACHE_MAGIC, len(entries), len(strings), 0, 0, 0, 0, 0) + rows + strings


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return an image with a loader and the program /bin/app, which needs libc.so.6 and liba.so.1."""
    root = tmp_path / "image"
    put(root, LOADER, an_elf(soname="ld-linux-x86-64.so.2"))
    put(root, "/usr/lib/libc.so.6", an_elf("ld-linux-x86-64.so.2", soname="libc.so.6"))
    put(root, "/bin/app", an_elf("libc.so.6", "liba.so.1", interpreter=LOADER))
    return root


@root
def test_the_loader_of_an_image_is_not_started(tmp_path: Path) -> None:
    root = tmp_path / "image"
    hostile = put(root, LOADER, an_elf(code=CREATES_RAN))
    put(root, "/bin/sh", hostile.read_bytes())
    (root / "mnt").mkdir()
    program = tmp_path / "app"
    shutil.copy("/bin/true", program)
    missing_libraries(program, root)
    libraries(program, root)
    mpi_of_program(program, root)
    assert not (root / "ran").exists()
    assert not Path("/ran").exists()


def test_what_is_missing_is_named_and_only_the_own_loader_is_asked(
    image: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = image / "bin/app"
    with monkeypatch.context() as patched:
        patched.setattr("tare.workloads.own_programs.run", lambda *_, **__: pytest.fail("a process was started"))
        assert missing_libraries(app, image) == ["liba.so.1"]
    put(image, "/usr/lib/liba.so.1", an_elf("libb.so.1", soname="liba.so.1"))
    assert missing_libraries(app, image) == ["libb.so.1"]
    put(image, "/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libb.so.1", an_elf())
    assert missing_libraries(app, image) == []
    put(tmp_path, "run.sh", b"#!/bin/sh\n")
    put(tmp_path, "static", an_elf(code=CREATES_RAN))
    assert missing_libraries(tmp_path / "run.sh", None) == []
    assert missing_libraries(tmp_path / "run.sh", image) == missing_libraries(tmp_path / "static", image) == []
    (image / LOADER.lstrip("/")).unlink()
    (lost, *_) = lacking(Path(shutil.copy("/bin/true", tmp_path / "app")), image, ContainerView())
    assert lost.name == LOADER


@pytest.mark.parametrize(
    "program",
    ["bash", "cat", "cp", "grep", "sed", "tar", "gzip", "find", "sort", "ls", "mount", "ps", "ip", "perl",
     "openssl", "apt-get", "dpkg", "ssh", "curl", "git", "gdb", "ld", "as", "gcc", "cmake", "mpirun.openmpi",
     "mpirun.mpich"],
)  # fmt: skip
def test_a_program_of_this_machine_has_the_libraries_that_ldd_names(program: str) -> None:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"this machine cannot: it has no {program}")
    file = Path(found).resolve()
    with file.open("rb") as content:
        if content.read(4) != b"\x7fELF":
            pytest.skip(f"this machine cannot: its {program} is a script")
    told = {name: path.resolve() for name, path in libraries(file, None).items()}
    here = {name: path.resolve() for name, path in libraries(file, Path("/")).items()}
    assert {name: here.get(name) for name in told} == told
    assert {posixpath.basename(name) for name in here} - set(told) <= {"ld-linux-x86-64.so.2"}
    assert missing_libraries(file, Path("/")) == missing_libraries(file, None) == []


@pytest.mark.parametrize(
    ("stated", "place"),
    [
        ({"runpath": "/opt/lib"}, "/opt/lib/liba.so.1"),
        ({"rpath": "/nowhere:/opt/lib"}, "/opt/lib/liba.so.1"),
        ({"runpath": "$ORIGIN/../lib/own"}, "/lib/own/liba.so.1"),
        ({"runpath": "/opt/${LIB}"}, "/opt/lib/x86_64-linux-gnu/liba.so.1"),
    ],
)
def test_search_paths_of_a_program_are_followed(stated: dict[str, str], place: str, image: Path) -> None:
    app = put(image, "/bin/app", an_elf("liba.so.1", interpreter=LOADER, **stated))
    assert missing_libraries(app, image) == ["liba.so.1"]
    put(image, place, an_elf())
    assert missing_libraries(app, image) == []
    assert libraries(app, image)["liba.so.1"] == image / place.lstrip("/")


@pytest.mark.parametrize(("kind", "missing"), [("rpath", []), ("runpath", ["libb.so.1"])])
def test_rpath_holds_for_libraries_of_libraries_runpath_does_not(kind: str, missing: list[str], image: Path) -> None:
    app = put(image, "/bin/app", an_elf("liba.so.1", **{kind: "/opt"}))
    put(image, "/opt/liba.so.1", an_elf("libb.so.1"))
    put(image, "/opt/libb.so.1", an_elf())
    assert missing_libraries(app, image) == missing


@pytest.mark.parametrize("old", [False, True])
def test_the_cache_of_the_loader_is_read(old: bool, image: Path) -> None:
    put(image, "/opt/deep/liba.so.1", an_elf())
    assert missing_libraries(image / "bin/app", image) == ["liba.so.1"]
    told = a_cache(("liba.so.1", "/opt/fast/liba.so.1", 1 << 62), ("liba.so.1", "/opt/deep/liba.so.1", 0), old=old)
    put(image, "/etc/ld.so.cache", told)
    assert missing_libraries(image / "bin/app", image) == []
    assert cache_of(told) == {"liba.so.1": ("/opt/deep/liba.so.1", "/opt/fast/liba.so.1")}


def test_links_of_an_image_lead_to_its_own_libraries_that_are_whole(image: Path, tmp_path: Path) -> None:
    victim = put(tmp_path, "host/liba.so.1", an_elf())
    link(image, "usr/lib/liba.so.1", victim)
    assert missing_libraries(image / "bin/app", image) == ["liba.so.1"]
    put(image, "/opt/liba.so.1.2", an_elf())
    link(image, "usr/lib/liba.so.1", "/opt/liba.so.1.2")
    assert missing_libraries(image / "bin/app", image) == []
    (image / "usr/lib/liba.so.1").unlink()
    put(image, "/lib/x86_64-linux-gnu/liba.so.1", an_elf(machine=183))
    assert missing_libraries(image / "bin/app", image) == ["liba.so.1 (cannot be read: it is for another CPU)"]
    put(image, "/lib/x86_64-linux-gnu/liba.so.1", an_elf()[:80])
    assert missing_libraries(image / "bin/app", image) == ["liba.so.1 (cannot be read: it is truncated)"]
    put(image, "/usr/lib/liba.so.1", an_elf())
    assert missing_libraries(image / "bin/app", image) == []


def test_what_stands_beside_a_program_that_is_shown_is_found(image: Path, tmp_path: Path) -> None:
    needed = an_elf("libown.so", "libmpi.so.40", interpreter=LOADER, runpath="$ORIGIN:$ORIGIN/../lib")
    app = put(tmp_path, "app/bin/app", needed)
    put(tmp_path, "app/bin/libown.so", an_elf())
    put(tmp_path, "app/lib/libmpi.so.40", an_elf(soname="libmpi.so.40") + b"\0004.1.4\0")
    assert missing_libraries(app, image) == ["libmpi.so.40"], "of `tare quick -- ./bin/app` only bin is shown"
    assert libraries(app, image)["libmpi.so.40"] == tmp_path / "app/lib/libmpi.so.40"
    found = mpi_of_program(app, image)
    assert found is not None
    assert found.version == (4, 1, 4)


def test_what_a_container_is_shown_hides_the_images_files(image: Path, tmp_path: Path) -> None:
    app = put(tmp_path, "app/bin/app", an_elf("libown.so", interpreter=LOADER))
    library = put(tmp_path, "libs/libown.so.1", an_elf())
    (tmp_path / "libs/libown.so").symlink_to("libown.so.1")
    bound = ContainerView(places=(("/srv/own", tmp_path / "libs"),), search=("/srv/own",))
    assert [each.name for each in lacking(app, image, ContainerView.of(app.parent))] == ["libown.so"]
    assert lacking(app, image, bound) == ()
    assert libraries(app, image, bound)["libown.so"].resolve() == library
    assert [each.name for each in lacking(app, image, ContainerView(places=bound.places))] == ["libown.so"]
    put(image, "/srv/own/libother.so", an_elf())
    other = put(tmp_path, "app/bin/other", an_elf("libother.so", interpreter=LOADER))
    assert lacking(other, image, ContainerView(search=("/srv/own",))) == ()
    assert [each.name for each in lacking(other, image, bound)] == ["libother.so"], "the bind hides it"
    one = ContainerView(places=(("/usr/lib/libown.so", library),))
    assert lacking(app, image, one) == ()


def test_a_link_out_of_what_is_shown_leads_to_the_images_file(image: Path, tmp_path: Path) -> None:
    app = put(tmp_path, "app/app", an_elf("libown.so", interpreter=LOADER, runpath="$ORIGIN"))
    put(tmp_path, "elsewhere/libown.so", an_elf())
    (tmp_path / "app/libown.so").symlink_to(tmp_path / "elsewhere/libown.so")
    assert missing_libraries(app, image) == ["libown.so"]
    put(image, str(tmp_path / "elsewhere/libown.so"), an_elf())
    assert missing_libraries(app, image) == []


def test_names_that_a_terminal_would_obey_are_text_and_libraries_that_need_each_other_end(image: Path) -> None:
    odd = put(image, "/bin/odd", an_elf("lib\x1b[2Ja.so"))
    assert missing_libraries(odd, image) == ["lib\\x1b[2Ja.so"]
    put(image, "/usr/lib/liba.so.1", an_elf("libb.so.1", "liba.so.1"))
    put(image, "/usr/lib/libb.so.1", an_elf("liba.so.1", "libpipe.so"))
    os.mkfifo(image / "usr/lib/libpipe.so")
    assert missing_libraries(image / "bin/app", image) == ["libpipe.so"]


def test_a_header_that_states_a_million_segments_is_damaged_and_quickly_told(tmp_path: Path) -> None:
    whole = bytearray(an_elf("libc.so.6", interpreter=LOADER))
    struct.pack_into("<HH", whole, 54, 0, 65535)
    note = put(tmp_path, "app", bytes(whole) + bytes(1 << 16))
    assert elf.level_needed([note]) == 0
    assert dict(find_linked(note, tmp_path).damaged) == {"app": "its table of segments is invalid"}
    struct.pack_into("<HH", whole, 54, 56, 65535)
    note.write_bytes(bytes(whole))
    assert dict(find_linked(note, tmp_path).damaged) == {"app": "it claims 65535 segments"}


def padded(content: bytes, to: int = 8) -> bytes:
    return content + b"\0" * (-len(content) % to)


def note(kind: int, content: bytes, name: bytes = b"GNU\0") -> bytes:
    return struct.pack("<III", len(name), len(content), kind) + padded(name, 4) + content


def properties(*pairs: tuple[int, int]) -> bytes:
    return b"".join(padded(struct.pack("<III", kind, 4, value)) for kind, value in pairs)


def of_segments(*segments: tuple[int, bytes]) -> bytes:
    """Return an ELF file of 64 bits with these segments, after its header and their table."""
    start = 64 + 56 * len(segments)
    table, contents = b"", b""
    for kind, content in segments:
        table += struct.pack("<IIQQQQQQ", kind, 4, start + len(contents), 0, 0, len(content), len(content), 8)
        contents += content
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    return head + table + contents


@pytest.mark.parametrize(("bits", "level"), [(0b1, 1), (0b11, 2), (0b101, 3), (0b1000, 4), (0, 0)])
@pytest.mark.parametrize("segment", [4, 0x6474E553])
def test_the_highest_level_that_is_needed_counts(bits: int, level: int, segment: int, tmp_path: Path) -> None:
    content = note(GNU_PROPERTIES, properties((0xC0000002, 3), (ISA_NEEDED, bits)))
    (tmp_path / "a").write_bytes(of_segments((1, b"code"), (segment, content)))
    assert level_needed([tmp_path / "a"]) == level


def test_of_several_files_and_notes_the_most_demanding_counts_and_no_other_maker_s(tmp_path: Path) -> None:
    build_id = note(3, b"\x12" * 20)
    (tmp_path / "a").write_bytes(of_segments((4, build_id + note(GNU_PROPERTIES, properties((ISA_NEEDED, 0b11))))))
    (tmp_path / "b").write_bytes(of_segments((4, build_id)))
    assert level_needed([tmp_path / "b"]) == 0
    assert level_needed([tmp_path / "b", tmp_path / "a", tmp_path / "none"]) == 2
    (tmp_path / "a").write_bytes(of_segments((4, note(GNU_PROPERTIES, properties((ISA_NEEDED, 8)), b"Foo\0"))))
    assert level_needed([tmp_path / "a"]) == 0


@given(st.binary(max_size=300), st.integers(0, 250))
@example(bytes(8) + b"\x80" + bytes(24), 71)
def test_what_is_cut_off_or_no_elf_says_nothing_and_breaks_nothing(rest: bytes, cut: int) -> None:
    whole = of_segments((4, note(GNU_PROPERTIES, properties((ISA_NEEDED, 4)))))
    with tempfile.NamedTemporaryFile() as file:
        for content in (rest, whole[:cut], whole[: max(cut, 64)] + rest):
            Path(file.name).write_bytes(content)
            assert level_needed([Path(file.name)]) >= 0


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_machine_has_a_level_when_it_has_all_flags_up_to_it_and_one_that_is_not_x86_64_has_none(level: int) -> None:
    flags = "fpu lm " + " ".join(FLAGS[below] for below in range(2, level + 1))
    assert level_of_machine(f"processor\t: 0\nflags\t\t: {flags}\n") == level
    if level > 1:
        assert level_of_machine(f"flags : {flags.rsplit(' ', 1)[0]}") == level - 1
    assert (level_of_machine("Features\t: fp asimd\n"), level_of_machine("")) == (0, 0)
