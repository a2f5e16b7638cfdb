"""Track which cache entries are in use and how large they are, and remove entries over the cache's limit.

A process that uses an entry holds a shared lock on a file that stands for it until the process ends, however it ends.
The date of that file is the entry's last use. Only entries that nobody holds are removed, least recently used first.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import ResultsError, UsageError
from tare.images.cache import Progress, remove_abandoned, remove_tree, silent
from tare.model.quantities import parse_bytes
from tare.system.paths import cache_folder
from tare.system.safe_files import check_only_root_changes

FAMILIES: Final = (
    "images", "roots", "kernels", "host-mpi", "sif", "docker-archive", "oci", "squashfs", "stores", "docker", "check",
)  # fmt: skip
"""The folders of the cache; each child is an entry. `docker` holds what the lab's daemons keep between studies."""

LIMIT: Final = "TARE_CACHE_LIMIT"
DEFAULT_LIMIT_BYTES: Final = 20_000_000_000
UNUSED_S: Final = 60 * 86400.0
"""Entries unused for this long are removed even if there is room: they belong to a version or an MPI that is gone."""

_LISTS: Final = Path("image/overlay2/repositories.json")
"""Docker writes these in its data folder when an image is added or removed: the folder's size changes only then."""

_SIZE: Final = ".size"
_USES: Final = ".uses"
_STAYS: Final = "stays-"
_GONE: Final = ".unfinished-gone-"
"""The prefix is that of unfinished entries, so that the leftovers of an interrupted removal are removed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """One entry of the cache: its size on disk and its last use."""

    place: Path
    size_bytes: int
    used_unix_s: float

    @property
    def name(self) -> str:
        """Return family and name, as in `images/0123...`."""
        return f"{self.place.parent.name}/{self.place.name}"


def mark_used(entry: Path) -> None:
    """Protect an entry from removal while this process lives, and record its use.

    It need not exist yet: a caller that does this before looking finds the entry complete or not at all. In a read-only
    cache nothing is recorded; only another user may write to it. Raises as `check_cache` does.
    """
    check_cache(entry.parent)
    file = _use_file(entry)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)  # open until the process ends
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.utime(handle)


def check_cache(folder: Path) -> None:
    """As root, raise `ResultsError` for a folder of a cache that another user can change: root runs what is in it."""
    try:
        check_only_root_changes(folder, "cache")
    except ResultsError as error:
        raise ResultsError(error.message, remedy="set TARE_CACHE to a folder that only root can change") from None


def limit_bytes(environment: str | None = None) -> int:
    """Return the size limit of the cache: $TARE_CACHE_LIMIT, or 20 GB. Raises `UsageError`."""
    text = os.environ.get(LIMIT) if environment is None else environment
    try:
        return parse_bytes(text) if text else DEFAULT_LIMIT_BYTES
    except ValueError as error:
        raise UsageError(f"{LIMIT} is {error}", remedy=f"write it as {LIMIT}=20GB") from error


def entries(cache_dir: Path | None = None) -> tuple[CacheEntry, ...]:
    """Return what is in the cache, the least recently used first."""
    cache = cache_dir or cache_folder()
    places = (place for family in FAMILIES for place in (cache / family).glob("*"))
    listed = []
    for place in places:
        with suppress(FileNotFoundError):  # it was removed meanwhile
            if not place.name.startswith((".", _STAYS)) and stat.S_ISDIR(place.stat().st_mode):
                listed.append(CacheEntry(place=place, size_bytes=_known_size(place), used_unix_s=used_unix_s(place)))
    return tuple(sorted(listed, key=lambda entry: (entry.used_unix_s, entry.name)))


def used_unix_s(place: Path) -> float:
    """Return an entry's last use; its creation if no use was recorded."""
    try:
        return _use_file(place).stat().st_mtime
    except OSError:
        return place.lstat().st_mtime


def _known_size(place: Path) -> int:
    """Return an entry's last measured size: there are a hundred thousand files, and every run needs the sizes.

    It is measured again when a daemon's images changed, and when a file was added to another entry, as when a user's
    own image gets its tar. To check each file of 20 GB takes a second, or a minute if the machine has not done so for a
    while.
    """
    note = _size_file(place)
    with suppress(OSError, ValueError):
        if note.stat().st_mtime_ns >= _changed_unix_ns(place):
            return int(note.read_text())
    size_bytes = size_of(place)
    with suppress(OSError):  # a read-only cache is measured each time
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(size_bytes))
    return size_bytes


def _changed_unix_ns(place: Path) -> int:
    for file in (place / _LISTS, place):
        with suppress(OSError):
            return file.stat().st_mtime_ns
    return 0


def size_of(folder: Path) -> int:
    """Return a folder's size on disk in bytes; a link's target does not count."""
    try:
        total = folder.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0
    linked: set[int] = set()  # count hard links once
    left = [str(folder)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as inside:
            for entry in inside:
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif status.st_nlink > 1:
                    if status.st_ino in linked:
                        continue
                    linked.add(status.st_ino)
                total += status.st_blocks * 512
    return total


def prune(
    limit: int | None = None,
    cache_dir: Path | None = None,
    progress: Progress = silent,
    *,
    unused_s: float = UNUSED_S,
    now_unix_s: float | None = None,
) -> tuple[CacheEntry, ...]:
    """Remove entries unused for `unused_s`, then the least recently used until the cache is within its limit.

    Return the removed entries. An entry in use stays, even above the limit. What interrupted removals left goes too.
    """
    for family in FAMILIES:
        remove_abandoned((cache_dir or cache_folder()) / family)
    allowed = limit_bytes() if limit is None else limit
    now = time.time() if now_unix_s is None else now_unix_s
    listed = entries(cache_dir)
    size = sum(entry.size_bytes for entry in listed)
    removed = []
    for entry in listed:
        old = now - entry.used_unix_s > unused_s
        if (old or size > allowed) and _remove(entry.place):
            why = (
                f"not used for {unused_s / 86400:g} days" if old else f"the limit of the cache is {allowed / 1e9:g} GB"
            )
            progress(f"cache: removed {entry.name} ({why})")
            size -= entry.size_bytes
            removed.append(entry)
    return tuple(removed)


def _remove(place: Path) -> bool:
    """Remove an entry unless it is in use; return whether it is gone.

    It is moved away first, so none is partly removed.
    """
    with _alone(_use_file(place)) as free, _alone(place.with_name(f"{place.name}.lock"), make=False) as unlent:
        if not free or not unlent:
            return False
        gone = place.with_name(f"{_GONE}{os.getpid()}-{place.name}")
        try:
            place.rename(gone)
        except OSError:  # already removed, or another user's
            return False
        with suppress(OSError):
            _size_file(place).unlink()
        remove_tree(gone)
    return True


@contextmanager
def _alone(file: Path, *, make: bool = True) -> Iterator[bool]:
    """Lock a file and return whether nobody else holds it.

    A file that does not exist and is not to be created is free.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o644)
    except FileNotFoundError:
        yield True
        return
    except OSError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(handle)


def _use_file(entry: Path) -> Path:
    return entry.parent.parent / _USES / f"{entry.parent.name}-{entry.name}"


def _size_file(entry: Path) -> Path:
    return _use_file(entry).with_name(f"{_use_file(entry).name}{_SIZE}")
