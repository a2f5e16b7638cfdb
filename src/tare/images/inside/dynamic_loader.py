"""Find the libraries of a program in an image as its dynamic loader would (ld.so(8)), and start nothing of the image.

The order is that of glibc: DT_RPATH of the file and of those that need it (if it has no DT_RUNPATH), LD_LIBRARY_PATH,
DT_RUNPATH, /etc/ld.so.cache, the default folders. /etc/ld.so.conf is not read, because the loader does
not read it either: ldconfig makes the cache from it.

What containers are shown of this machine is looked at here (`ContainerView`).
"""

from __future__ import annotations

import errno
import posixpath
import re
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final

from tare.images.inside import elf
from tare.images.inside.safe_paths import inside, open_file, open_regular, read_file

TRIPLETS: Final = {21: "powerpc64le-linux-gnu", 22: "s390x-linux-gnu", 62: "x86_64-linux-gnu", 183: "aarch64-linux-gnu"}
"""Debian's folder name for each machine in an ELF header."""

SUBFOLDERS: Final = ("", "glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2")
"""Subfolders of a library folder; a machine uses the best that it can run, and the plain one is always valid."""

CACHE: Final = "/etc/ld.so.cache"
MOST_CACHE_BYTES: Final = 1 << 24
CACHE_MAGIC: Final = b"glibc-ld.so.cache1.1"
CACHE_HEAD: Final = struct.Struct("=20sII5I")
CACHE_ENTRY: Final = struct.Struct("=iIIIQ")
OLD_MAGIC: Final = b"ld.so-1.7.0"
MOST_LIBRARIES: Final = 1024
MOST_FOLDERS: Final = 256
MOST_TOKENS: Final = 4
"""The variables ($ORIGIN) that are replaced in one folder."""
MOST_LOOKUPS: Final = 100_000
"""The paths that are tried for a program and all its libraries, at 20 to 50 us each."""
MOST_STEPS: Final = 1_000_000
"""The names that are looked up on these paths, those in links too."""
MOST_CACHE_ENTRIES: Final = 1 << 16
LONGEST_CACHE_TEXT: Final = 1024
_TOKEN: Final = re.compile(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?!\w))")
_PLATFORMS: Final = {21: "power8", 22: "z900", 62: "x86_64", 183: "aarch64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """What a container sees of this machine: `places` pairs paths inside with folders and files here.

    `search` are the absolute folders of LD_LIBRARY_PATH, by their paths inside.
    """

    places: tuple[tuple[str, Path], ...] = ()
    search: tuple[str, ...] = ()

    @classmethod
    def of(cls, *folders: Path) -> ContainerView:
        """Return folders that are seen at their own paths."""
        return cls(places=tuple((str(folder), folder) for folder in folders))

    def at(self, place: str) -> Path | None:
        """Return the file of this machine at a normal path inside, None if the image's own would be there."""
        covering = [(inner, here) for inner, here in self.places if Path(place).is_relative_to(inner)]
        inner, here = max(covering, key=lambda pair: len(pair[0]), default=("", None))
        return here and here / Path(place).relative_to(inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The libraries of a program: `found` maps the requested names to files of this machine.

    `damaged` are those that exist but cannot be parsed as a library, with the reason.
    """

    found: Mapping[str, Path] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Object:
    """A file that the loader has loaded, by its path inside; `parents` are the DT_RPATH of the files that need it."""

    place: str
    stated: elf.Dynamic
    parents: tuple[str, ...] = ()

    @cached_property
    def rpaths(self) -> tuple[str, ...]:
        """Return the first search paths for the requests of this file and of those that it needs."""
        folders = _folders(self.stated.rpath, self) if not self.stated.runpath else ()
        return (*folders, *self.parents)[:MOST_FOLDERS]

    @cached_property
    def runpaths(self) -> tuple[str, ...]:
        """Return the search paths for this file's own requests."""
        return _folders(self.stated.runpath, self)


def find_linked(program: Path, rootfs: Path, seen: ContainerView | None = None) -> Linked:
    """Return the libraries of a program in an image, or of one of this machine, of which containers see its folder.

    `seen` replaces that folder. A script, or a statically linked program, has no libraries.
    """
    return _Search(
        rootfs, seen or (ContainerView() if program.is_relative_to(rootfs) else ContainerView.of(program.parent))
    ).of(program)


class _Search:
    """A search in one image."""

    def __init__(self, rootfs: Path, seen: ContainerView) -> None:
        self._rootfs = rootfs
        self._seen = seen
        self._found: dict[str, Path] = {}
        self._missing: set[str] = set()
        self._damaged: dict[str, str] = {}
        self._loaded: set[str] = set()
        self._lookups = self._steps = 0

    def of(self, program: Path) -> Linked:
        """Follow a program's needed libraries recursively."""
        first = self._program(program)
        if first is not None:
            self._interpreter(first)
            left = deque([first])
            while left and len(self._found) < MOST_LIBRARIES:
                loaded = left.popleft()
                left.extend(library for name in loaded.stated.needed if (library := self._needed(name, loaded)))
            if left or self._is_over():
                why = f"it leads to more than {MOST_LIBRARIES} libraries, or {MOST_LOOKUPS} paths of them"
                self._damaged[program.name] = why
        missing = tuple(sorted(self._missing))
        return Linked(found=self._found, missing=missing, damaged=self._damaged)

    def _program(self, program: Path) -> _Object | None:
        """Return the program itself, at its path inside."""
        try:
            if program.is_relative_to(self._rootfs):
                real = inside(self._rootfs, f"/{program.relative_to(self._rootfs)}")
                place = f"/{real.relative_to(self._rootfs)}" if real else ""
                file = open_file(self._rootfs, place)
            else:
                place = str(program)
                file = open_regular(program)
            with file:
                stated = elf.dynamic_of(file)
        except OSError:
            return None
        except elf.DamagedError as error:
            self._damaged[program.name] = str(error)
            return None
        return None if stated is None else _Object(place=place, stated=stated)

    def _interpreter(self, program: _Object) -> None:
        """Record the loader under its names: it is loaded before all others."""
        path = program.stated.interpreter
        if not path:
            return
        try:
            with open_file(self._rootfs, path) as file:
                stated = elf.dynamic_of(file)
        except OSError:
            self._missing.add(path)
            return
        except elf.DamagedError as error:
            self._damaged[path] = str(error)
            return
        names = {posixpath.basename(path), *([stated.soname] if stated and stated.soname else [])}
        self._loaded |= names
        self._found.update(dict.fromkeys(names, self._rootfs / path.lstrip("/")))

    def _needed(self, name: str, by: _Object) -> _Object | None:
        """Find a library and return it, None if it is loaded already or not found."""
        if name in self._loaded or name in self._missing:
            return None
        damage = ""
        for place in self._candidates(name, by):
            self._lookups += 1
            if self._is_over():
                return None
            try:
                with self._open(place) as file:
                    stated = elf.dynamic_of(file)
            except OSError:
                continue
            except elf.DamagedError as error:
                damage = damage or str(error)
                continue
            if stated is None or stated.machine != by.stated.machine:  # the loader skips other machines' too
                damage = damage or ("it is not a library" if stated is None else "it is for another CPU")
                continue
            self._loaded |= {name, stated.soname or name}
            self._found[name] = self._file(place)
            return _Object(place=place, stated=stated, parents=by.rpaths)
        if damage:
            self._damaged[name] = damage
        else:
            self._missing.add(name)
        return None

    def _is_over(self) -> bool:
        return self._lookups > MOST_LOOKUPS or self._steps > MOST_STEPS

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise OSError(errno.ELOOP, "too many names")

    def _candidates(self, name: str, by: _Object) -> Iterator[str]:
        if "/" in name:
            yield _expanded(name, by)
            return
        rpaths = by.rpaths if not by.stated.runpath else ()
        yield from _in_folders((*rpaths, *self._seen.search, *by.runpaths), name)
        yield from self._cache.get(name, ())
        triplet = TRIPLETS.get(by.stated.machine, "")
        places = ("lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib")
        debian = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if triplet else ()
        yield from _in_folders((*debian, *(f"/{place}" for place in places)), name)

    @cached_property
    def _cache(self) -> Mapping[str, tuple[str, ...]]:
        try:
            return cache_of(read_file(self._rootfs, CACHE, MOST_CACHE_BYTES))
        except OSError:
            return {}

    def _open(self, place: str) -> BinaryIO:
        """Open a file at its path inside."""
        place, here = self._located(place)
        return open_file(self._rootfs, place, self._step) if here is None else open_regular(here)

    def _file(self, place: str) -> Path:
        place, here = self._located(place)
        return self._rootfs / place.lstrip("/") if here is None else here

    def _located(self, place: str) -> tuple[str, Path | None]:
        """Return a path inside and its file of this machine, None for the image's own, to which links may lead.

        A path with `..`, as in some caches, is the image's.
        """
        here = self._seen.at(place) if self._seen.places and posixpath.normpath(place) == place else None
        if here is None or not here.is_symlink():
            return place, here
        real = here.resolve()
        if any(real.is_relative_to(folder.resolve()) for _, folder in self._seen.places):
            return place, here
        return str(real), self._seen.at(str(real))


def cache_of(content: bytes) -> Mapping[str, tuple[str, ...]]:
    """Return the paths of each name in an ld.so.cache, plain ones before those for some CPUs; {} if it is invalid.

    glibc's elf/cache.c writes the new format either alone or after the old one.
    """
    start = 0
    if content.startswith(OLD_MAGIC) and len(content) >= 16:
        (count,) = struct.unpack_from("=I", content, 12)
        start = -(-(16 + 12 * count) // 8) * 8
    if not content.startswith(CACHE_MAGIC, start) or len(content) < start + CACHE_HEAD.size:
        return {}
    _, count, *_ = CACHE_HEAD.unpack_from(content, start)
    table = content[start + CACHE_HEAD.size :][: min(count, MOST_CACHE_ENTRIES) * CACHE_ENTRY.size]
    entries = CACHE_ENTRY.iter_unpack(table[: len(table) // CACHE_ENTRY.size * CACHE_ENTRY.size])
    libraries: dict[str, list[tuple[bool, str]]] = {}
    for _, key, value, _, hardware in entries:
        name, path = _text_at(content, start + key), _text_at(content, start + value)
        if name and path.startswith("/"):
            libraries.setdefault(name, []).append((hardware != 0, path))
    return {name: tuple(path for _, path in sorted(paths)) for name, paths in libraries.items()}


def _text_at(content: bytes, at: int) -> str:
    end = content.find(b"\0", at, at + LONGEST_CACHE_TEXT)
    return content[at:end].decode(errors="surrogateescape") if end >= 0 else ""


def _in_folders(folders: Sequence[str], name: str) -> Iterator[str]:
    for folder in folders:
        for below in SUBFOLDERS:
            yield posixpath.join(folder, below, name)


def _folders(path: str, of: _Object) -> tuple[str, ...]:
    """Return the folders of a file's search path; relative ones depend on where a program is started."""
    parts = (_expanded(part, of) for part in path.split(":", MOST_FOLDERS)[:MOST_FOLDERS])
    return tuple(part for part in parts if part.startswith("/"))


def _expanded(text: str, of: _Object) -> str:
    machine = of.stated.machine
    triplet = TRIPLETS.get(machine, "")
    values = {
        "ORIGIN": posixpath.dirname(of.place),
        "LIB": f"lib/{triplet}" if triplet else "lib64",
        "PLATFORM": _PLATFORMS.get(machine, ""),
    }
    return posixpath.normpath(_TOKEN.sub(lambda match: values[match[1] or match[2]], text, MOST_TOKENS)) if text else ""
