"""Read the ELF file of a program or library: its x86-64 level and the libraries that it needs.

Files are untrusted, so every count and size in them is bounded and every offset is checked before it is read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tare.images.inside.safe_paths import open_regular

NOTES: Final = (4, 0x6474E553)
"""The types of note segments: PT_NOTE and PT_GNU_PROPERTY."""
GNU_PROPERTIES: Final = 5
ISA_NEEDED: Final = 0xC0008002
LARGEST: Final = 1 << 16
MOST_SEGMENTS: Final = 256
"""Programs have some ten segments; a file with more is damaged or hostile."""

LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS, STRINGS_SIZE, SONAME, RPATH, RUNPATH = 1, 5, 10, 14, 15, 29
MOST_ENTRIES: Final = 1 << 14
MOST_NEEDED: Final = 1024
"""The libraries that one file asks for; real ones ask for some dozens."""
LONGEST_NAME: Final = 256
LONGEST_TEXT: Final = 1 << 14
"""The longest name of a library, version or symbol, and the longest list of folders."""
MOST_NOTES: Final = 16

FLAGS: Final = {
    2: "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    3: "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    4: "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""The flags of /proc/cpuinfo that each x86-64 level adds to the previous one (x86-64 psABI, table 3.1)."""


def level_of_machine(cpuinfo: str) -> int:
    """Return the x86-64 level of the CPU in /proc/cpuinfo, 0 if it is not x86-64."""
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    flags = set(line.partition(":")[2].split())
    if "lm" not in flags:
        return 0
    return max(
        (
            level
            for level in range(1, 5)
            if all(flags.issuperset(FLAGS[below].split()) for below in range(2, level + 1))
        ),
        default=1,
    )


def level_needed(files: Iterable[Path]) -> int:
    """Return the highest x86-64 level that one of the files requires; 0 if none states one."""
    return max((_level(file) for file in files), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamic:
    """A program's or library's requests to the dynamic loader; missing texts are empty."""

    machine: int
    interpreter: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str = ""
    runpath: str = ""


class DamagedError(ValueError):
    """A file begins as an ELF file but cannot be parsed as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a file, and the memory address to which it is loaded."""

    kind: int
    offset: int
    address: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfLayout:
    """An ELF file's byte order (as in `struct`), machine, segments, and the values of its dynamic section by tag."""

    order: str
    machine: int
    segments: tuple[Segment, ...]
    entries: Mapping[int, list[int]]

    @property
    def strings(self) -> tuple[int, int]:
        """Return offset and size of its names."""
        return self.offset_of(STRINGS), self.entries.get(STRINGS_SIZE, [0])[0]

    def offset_of(self, tag: int) -> int:
        """Return the file offset of what an entry of the dynamic section points to."""
        return place_of(self.entries.get(tag, [0])[0], self.segments)


def layout_of(file: BinaryIO) -> ElfLayout | None:
    """Return the layout of a 64-bit ELF file; None for any other file. Raises `DamagedError`."""
    head = file.read(64)
    if head[:5] != b"\x7fELF\x02":
        return None
    if len(head) < 64 or head[5] not in (1, 2):
        raise DamagedError("its header is truncated")
    order = "<>"[head[5] - 1]
    (machine,) = struct.unpack_from(f"{order}H", head, 18)
    segments = _segments(file, head, order)
    dynamic = next((segment for segment in segments if segment.kind == DYNAMIC), None)
    table = read_at(file, dynamic.offset, min(dynamic.length, MOST_ENTRIES * 16)) if dynamic else b""
    return ElfLayout(order=order, machine=machine, segments=segments, entries=_entries(table, order))


def dynamic_of(file: BinaryIO) -> Dynamic | None:
    """Return the dynamic section of a 64-bit ELF file; None for any other file, such as a script.

    Raises `DamagedError`.
    """
    layout = layout_of(file)
    if layout is None:
        return None
    interpreter = next((segment for segment in layout.segments if segment.kind == INTERPRETER), None)
    program = text_at(file, interpreter.offset, interpreter.length) if interpreter else ""
    if not layout.entries:
        return Dynamic(machine=layout.machine, interpreter=program)
    start, size = layout.strings

    if len(layout.entries.get(NEEDED, ())) > MOST_NEEDED:
        raise DamagedError(f"it asks for more than {MOST_NEEDED} libraries")

    def texts(kind: int, longest: int = LONGEST_TEXT) -> tuple[str, ...]:
        return tuple(text_at(file, start + at, min(longest, size - at)) for at in layout.entries.get(kind, ()))

    return Dynamic(
        machine=layout.machine,
        interpreter=program,
        needed=texts(NEEDED, LONGEST_NAME),
        soname="".join(texts(SONAME, LONGEST_NAME)[:1]),
        rpath="".join(texts(RPATH)[:1]),
        runpath="".join(texts(RUNPATH)[:1]),
    )


def _segments(file: BinaryIO, head: bytes, order: str) -> tuple[Segment, ...]:
    offset = struct.unpack_from(f"{order}Q", head, 32)[0]
    size, count = struct.unpack_from(f"{order}HH", head, 54)
    if count and size != 56:
        raise DamagedError("its table of segments is invalid")
    if count > MOST_SEGMENTS:
        raise DamagedError(f"it claims {count} segments")
    table = read_at(file, offset, size * count)
    rows = struct.iter_unpack(f"{order}IIQQQQQQ", table)
    return tuple(
        Segment(kind=kind, offset=start, address=address, length=length)
        for kind, _, start, address, _, length, _, _ in rows
    )


def _entries(table: bytes, order: str) -> Mapping[int, list[int]]:
    """Return the values of a dynamic section by their tags, up to its end."""
    entries: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack(f"{order}QQ", table[: len(table) // 16 * 16]):
        if tag == 0:
            break
        entries.setdefault(tag, []).append(value)
    return entries


def place_of(address: int, segments: Iterable[Segment]) -> int:
    """Return the file offset from which a memory address is loaded."""
    for segment in segments:
        if segment.kind == LOAD and segment.address <= address < segment.address + segment.length:
            return segment.offset + address - segment.address
    raise DamagedError("its names lie in no segment")


def text_at(file: BinaryIO, offset: int, size: int) -> str:
    """Return the name at an offset, of `size` bytes at most."""
    content = read_at(file, offset, min(size, LONGEST_TEXT), whole=False)
    text, end, _ = content.partition(b"\0")
    if not end:
        raise DamagedError("one of its names does not end")
    return os.fsdecode(text)


def read_at(file: BinaryIO, offset: int, size: int, *, whole: bool = True) -> bytes:
    """Return the bytes at an offset; if `whole`, raise `DamagedError` if there are fewer."""
    try:
        file.seek(offset)
        content = file.read(max(0, size))
    except (OSError, OverflowError, ValueError) as error:
        raise DamagedError("one of its offsets is beyond any file") from error
    if whole and len(content) < size:
        raise DamagedError("it is truncated")
    return content


def _level(file: Path) -> int:
    try:
        with open_regular(file) as handle:
            head = handle.read(64)
            if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
                return 0
            notes = [segment for segment in _segments(handle, head, "<") if segment.kind in NOTES][:MOST_NOTES]
            pieces = [read_at(handle, segment.offset, min(segment.length, LARGEST), whole=False) for segment in notes]
            return max((level for piece in pieces for level in _in_notes(piece)), default=0)
    except (OSError, DamagedError, struct.error):
        return 0


def _in_notes(notes: bytes) -> Iterator[int]:
    """Yield the levels in a segment's notes: the highest bit of the levels that they need."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        start = at + 12 + -(-name_size // 4) * 4
        if name == b"GNU\0" and kind == GNU_PROPERTIES:
            yield from _in_properties(notes[start : start + size])
        at = start + -(-size // 8) * 8 if kind == GNU_PROPERTIES else start + -(-size // 4) * 4


def _in_properties(properties: bytes) -> Iterator[int]:
    at = 0
    while at + 8 <= len(properties):
        kind, size = struct.unpack_from("<II", properties, at)
        if kind == ISA_NEEDED and size == 4:
            yield struct.unpack_from("<I", properties, at + 8)[0].bit_length()
        at += 8 + -(-size // 8) * 8
