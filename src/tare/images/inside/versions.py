"""Read which symbols and symbol versions an ELF file needs and defines, as the dynamic loader does (ld.so(8)).

Versions are in the tables of Drepper, "ELF Symbol Versioning". Files are untrusted, so every count is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from tare.images.inside import elf
from tare.images.inside.safe_paths import open_regular

HASH, SYMBOLS, GNU_HASH = 4, 6, 0x6FFFFEF5
DEFINED, NEEDED = (0x6FFFFFFC, 0x6FFFFFFD), (0x6FFFFFFE, 0x6FFFFFFF)
"""The tags of the tables of versions, each with that of its number of entries."""

WEAK: Final = 2
"""The flag of a version that may be missing, and the binding of a symbol that may."""
GLOBAL: Final = 1
SYMBOL_BYTES: Final = 24
MOST_VERSIONS: Final = 1024
"""The versions that one file needs, of all libraries together, and that it defines."""
MOST_SYMBOLS: Final = 1 << 18
MOST_NAMES_BYTES: Final = 16 << 20
"""The names of one file's symbols, as they are stored, and as they are read: they may overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions that a file needs, by the library that must define them, and those that it defines itself."""

    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defined: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def versions_of(path: Path) -> Versions:
    """Return the versions of a file of this machine or below an image's folder; none if it cannot be read as ELF."""
    try:
        with open_regular(path) as file:
            layout = elf.layout_of(file)
            if layout is None or not layout.entries:
                return Versions()
            return Versions(needed=dict(_needed(file, layout)), defined=frozenset(_defined(file, layout)))
    except (OSError, elf.DamagedError, struct.error):
        return Versions()


@lru_cache(maxsize=128)
def symbols_of(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the symbols that a file defines for others, and those that others must define."""
    try:
        with open_regular(path) as file:
            layout = elf.layout_of(file)
            if layout is None or SYMBOLS not in layout.entries:
                return frozenset(), frozenset()
            start, size = layout.strings
            if size > MOST_NAMES_BYTES:
                return frozenset(), frozenset()
            names = elf.read_at(file, start, size)
            table = elf.read_at(file, layout.offset_of(SYMBOLS), _count(file, layout) * SYMBOL_BYTES)
    except (OSError, elf.DamagedError, struct.error):
        return frozenset(), frozenset()
    defined, wanted, read = set(), set(), 0
    for name, info, _, section, _, _ in struct.iter_unpack(f"{layout.order}IBBHQQ", table):
        end = names.find(b"\0", name, name + elf.LONGEST_TEXT)
        text = names[name:end].decode(errors="replace") if end >= 0 else ""
        read += len(text)
        if read > MOST_NAMES_BYTES:
            return frozenset(), frozenset()
        if section == 0 and info >> 4 == GLOBAL:
            wanted.add(text)
        elif section != 0:
            defined.add(text)
    return frozenset(defined - {""}), frozenset(wanted - {""})


def _needed(file: BinaryIO, layout: elf.ElfLayout) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each library with the versions that it must define."""
    start, size = layout.strings
    left = MOST_VERSIONS
    for at, (_, count, library, aux, _) in _chain(file, layout, NEEDED, "HHIII", following=4):
        names, here = [], at + aux
        for _ in range(count):
            left -= 1
            if left < 0:
                raise elf.DamagedError(f"it needs more than {MOST_VERSIONS} versions")
            _, flags, _, name, beyond = struct.unpack(f"{layout.order}IHHII", elf.read_at(file, here, 16))
            if not flags & WEAK:
                names.append(_name(file, start + name, size - name))
            if not beyond:
                break
            here += beyond
        yield _name(file, start + library, size - library), tuple(names)


def _defined(file: BinaryIO, layout: elf.ElfLayout) -> Iterator[str]:
    """Yield the versions that a library defines; the first name of an entry is its own."""
    start, size = layout.strings
    for at, (_, _, _, _, _, aux, _) in _chain(file, layout, DEFINED, "HHHHIII", following=6):
        (name,) = struct.unpack(f"{layout.order}I", elf.read_at(file, at + aux, 4))
        yield _name(file, start + name, size - name)


def _name(file: BinaryIO, at: int, size: int) -> str:
    return elf.text_at(file, at, min(size, elf.LONGEST_NAME))


def _chain(
    file: BinaryIO, layout: elf.ElfLayout, tags: tuple[int, int], form: str, following: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the entries of a table of versions with their offsets; value `following` is the distance to the next."""
    if tags[0] not in layout.entries:
        return
    form = layout.order + form
    at = layout.offset_of(tags[0])
    for _ in range(min(layout.entries.get(tags[1], [0])[0], MOST_VERSIONS)):
        values = struct.unpack(form, elf.read_at(file, at, struct.calcsize(form)))
        yield at, values
        if not values[following]:
            return
        at += values[following]


def _count(file: BinaryIO, layout: elf.ElfLayout) -> int:
    """Return the number of symbols, which only the hash tables tell."""
    if HASH in layout.entries:
        _, count = struct.unpack(f"{layout.order}II", elf.read_at(file, layout.offset_of(HASH), 8))
        return min(int(count), MOST_SYMBOLS)
    if GNU_HASH not in layout.entries:
        return 0
    at = layout.offset_of(GNU_HASH)
    buckets, first, blooms, _ = struct.unpack(f"{layout.order}IIII", elf.read_at(file, at, 16))
    if max(buckets, blooms) > MOST_SYMBOLS:
        raise elf.DamagedError("its table of symbols is invalid")
    at += 16 + 8 * blooms
    last = max(struct.unpack(f"{layout.order}{buckets}I", elf.read_at(file, at, 4 * buckets)), default=0)
    if last < first:  # it defines none, and the table does not count those that it needs; linkers put the names next
        distance = layout.strings[0] - layout.offset_of(SYMBOLS)
        return min(max(int(first), distance // SYMBOL_BYTES), MOST_SYMBOLS)
    at += 4 * buckets
    while last < MOST_SYMBOLS:
        (value,) = struct.unpack(f"{layout.order}I", elf.read_at(file, at + 4 * (last - first), 4))
        last += 1
        if value & 1:
            break
    return int(last)
