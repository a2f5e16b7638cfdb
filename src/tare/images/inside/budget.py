"""Bound what an image may take: a small file can claim to hold exabytes, or a million empty folders.

All bounds are stated here and hold for every format. A test compares them with the table in SECURITY.md.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from tare.errors import ImageError
from tare.system.process import need

MOST_MEMBERS: Final = 1_000_000
"""Members are files, folders, links, devices and pipes alike: each takes an inode."""

KEPT_FREE_MEMBERS: Final = 50_000
"""The inodes that stay free, where a file system has a fixed number of them."""

DEEPEST: Final = 256
LONGEST_PATH: Final = 4096
MOST_BYTES: Final = 500_000_000_000
RATIO: Final = 100
ALWAYS_BYTES: Final = 1_000_000_000
"""The size that compressed files may reach: a hundred times their own, or a gigabyte. File systems grow 2 to 10x."""

KEPT_FREE_BYTES: Final = 500_000_000
"""The disk space that stays free, whatever an image holds."""

MOST_LAYERS: Final = 512
MOST_REPEATED_BYTES: Final = 1_000_000_000
"""The unpacked size of layers that a manifest lists again. Real ones that are listed again are empty."""

MOST_TEXT_BYTES: Final = 4 << 20
"""The largest manifest, index or configuration, as in registries; real ones have some kilobytes."""

DEEPEST_INDEX: Final = 8
MOST_ARCHIVE_MEMBERS: Final = 10_000
"""The files of an archive: its layers and manifests, some four for each layer."""

LONGEST_HEADER_BYTES: Final = 1 << 16
MOST_HEADERS_BYTES: Final = 16 << 20
"""The extended headers (PAX, long names) of an archive's members: of one member, and of all with their plain ones."""

LIST_BYTES: Final = 1 << 30
MEMORY_BYTES: Final = 4 << 30
"""The memory of a program that reads or unpacks an image, which is never tare's own process."""

UNPACK_S: Final = 3600.0
SAY_EVERY_S: Final = 5.0


class UnpackBudget:
    """What is left for an image, named by `path`, that is unpacked into a folder.

    `stored_bytes` is the size of its file, on which the size of what is unpacked depends.
    """

    def __init__(self, path: Path, folder: Path, stored_bytes: int) -> None:
        disk = os.statvfs(folder)
        self._path, self._folder = path, folder
        self._room = _room(folder)
        self._stored, self._repeated, self._read_bytes = stored_bytes, 0, 0
        self.taken_bytes = 0
        inodes = max(0, disk.f_favail - KEPT_FREE_MEMBERS) if disk.f_files else MOST_MEMBERS
        self._members = self.left_members = min(MOST_MEMBERS, inodes, self._room // disk.f_frsize)
        self._until = time.monotonic() + UNPACK_S

    @staticmethod
    def most_of(size_bytes: int) -> int:
        """Return the maximum size of a file of this size when it is unpacked."""
        return min(MOST_BYTES, max(ALWAYS_BYTES, RATIO * size_bytes))

    @property
    def most_bytes(self) -> int:
        """Return the size that the image may have."""
        return min(self.most_of(self._stored), self._room)

    @property
    def left_bytes(self) -> int:
        """Return the size that the next file may have; scratch files take room, too."""
        return max(0, min(self.most_bytes - self.taken_bytes, _room(self._folder)))

    @property
    def left_s(self) -> float:
        """Return the time that is left; raise `ImageError` if none is."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise self.too_slow()
        return left

    def add_stored(self, size_bytes: int) -> None:
        """Add the size of another file of the image."""
        self._stored += size_bytes

    def take(self, members: int, size_bytes: int) -> None:
        """Subtract what is unpacked; raise `ImageError` if it is more than there is."""
        self.left_members -= members
        self.taken_bytes += size_bytes
        check_members(self._path, self._members - self.left_members, self._members)
        if self.taken_bytes > self.most_bytes:
            raise self.too_large()

    def read(self, size_bytes: int) -> None:
        """Count a layer's tar, in which more may stand than is unpacked; raise `ImageError` for more than an image."""
        self._read_bytes += size_bytes
        if self._read_bytes > self.most_bytes:
            raise self.too_large()

    def repeat(self, size_bytes: int) -> None:
        """Subtract the size of a layer that was unpacked before; raise `ImageError` if these are too large together."""
        self._repeated += size_bytes
        if self._repeated > MOST_REPEATED_BYTES:
            raise ImageError(
                f"{self._path} was not unpacked: its manifest lists layers again that have more than "
                f"{MOST_REPEATED_BYTES / 1e9:g} GB together",
                remedy="build the image again; if you did not build it, do not use it",
            )

    def too_large(self) -> ImageError:
        """Return the error for an image that is too large."""
        return too_large(self._path, self.most_bytes)

    def too_slow(self) -> ImageError:
        """Return the error for an image whose unpacking takes too long."""
        return ImageError(
            f"{self._path} was not unpacked: it takes more than {UNPACK_S / 60:g} minutes",
            remedy="put the cache on a faster disk (XDG_CACHE_HOME), or name an image with fewer layers",
        )


def _room(folder: Path) -> int:
    disk = os.statvfs(folder)
    return max(0, disk.f_bavail * disk.f_frsize - KEPT_FREE_BYTES)


def check_members(path: Path, members: int, most: int) -> None:
    """Raise `ImageError` if an image has more members than it may."""
    if members > most:
        raise ImageError(
            f"{path} cannot be used: it has more than {most} files, folders and links",
            remedy="name an image with fewer files, or free inodes in the cache folder (df -i)",
        )


def check_depth(path: Path, depth: int) -> None:
    """Raise `ImageError` if the folders of an image are nested too deeply."""
    if depth > DEEPEST:
        raise ImageError(f"{path} cannot be used: its folders are nested more than {DEEPEST} deep")


def limited(argv: tuple[str, ...], most_bytes: int) -> tuple[str, ...]:
    """Return the argv that runs a program with bounded memory, which writes no file of more than `most_bytes`."""
    return (need("prlimit", package="util-linux"), f"--as={MEMORY_BYTES}", f"--fsize={most_bytes}", "--", *argv)


def too_large(path: Path, most_bytes: int) -> ImageError:
    """Return the error for an image that exceeds the limit."""
    return ImageError(
        f"{path} was not unpacked: it would need more than {most_bytes / 1e9:.1f} GB",
        remedy="if you trust the image, free some disk space in the cache folder; if not, do not use it",
    )
