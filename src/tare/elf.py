"""What a program or library says of itself in its ELF notes: the x86-64 level that it needs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

NOTES: Final = (4, 0x6474E553)
"""The types of segments with notes: PT_NOTE and PT_GNU_PROPERTY."""
GNU_PROPERTIES: Final = 5
ISA_NEEDED: Final = 0xC0008002
LARGEST: Final = 1 << 16

FLAGS: Final = {
    2: "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    3: "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    4: "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""The flags of /proc/cpuinfo that each x86-64 level has beyond the one before (x86-64 psABI, table 3.1)."""


def level_of_machine(cpuinfo: str) -> int:
    """Return the x86-64 level of the CPU that /proc/cpuinfo describes, 0 where it is not x86-64."""
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
    """Return the highest x86-64 level that one of the files says it needs; 0 where none says."""
    return max((_level(file) for file in files), default=0)


def _level(file: Path) -> int:
    try:
        with file.open("rb") as handle:
            head = handle.read(LARGEST)
            if head[:6] != b"\x7fELF\x02\x01":
                return 0
            offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            found = 0
            for index in range(count):
                kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", head, offset + index * size)
                if kind in NOTES:
                    handle.seek(start)
                    found = max([found, *_in_notes(handle.read(min(length, LARGEST)))])
            return found
    except (OSError, OverflowError, ValueError, struct.error):  # an offset may be larger than any file
        return 0


def _in_notes(notes: bytes) -> Iterator[int]:
    """Yield the levels that the notes of a segment name: the highest bit of what they need."""
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
