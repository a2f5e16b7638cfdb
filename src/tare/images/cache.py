"""Manage the cache folder: every entry in it is complete, and one process at a time creates an entry."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from tare.errors import InfrastructureError, TareError
from tare.system import process

T = TypeVar("T")
Progress = Callable[[str], None]
"""Receives a short description of the current step."""

PRIVATE: Final = 0o700
"""The mode of a folder with an image's files."""

_UNFINISHED: Final = ".unfinished-"
_RETRY_S: Final = 0.2


def silent(_message: str) -> None:
    """Ignore progress."""


@contextmanager
def locked(target: Path, *, what: str, progress: Progress) -> Iterator[None]:
    """Lock a cache entry for creation; wait, with a message, while another process creates it.

    The lock belongs to the open file, so it ends with the process however that ends.
    """
    with _lock_file(target.parent, f".lock-{target.name}") as handle:
        is_announced = False
        while not _try_lock(handle):
            if not is_announced:
                progress(f"{what}: another process is building it in {target.parent}; waiting for it")
                is_announced = True
            time.sleep(_RETRY_S)
        yield


def make_private(folder: Path) -> None:
    """Keep other users out of a folder of this user's: images contain old setuid programs of others."""
    with suppress(OSError):
        status = folder.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            folder.chmod(PRIVATE)


@contextmanager
def write_atomically(target: Path, mode: int = 0o755) -> Iterator[Path]:
    """Create a new folder to fill and move it to `target` when the block succeeds; remove it otherwise.

    The caller must hold the lock of `target`. Unfinished siblings whose process is gone are removed: a process that
    fills a folder holds a file beside it locked. On NFS other hosts see locks of files, but none of folders.
    """
    with ExitStack() as stack:
        with _lock_file(target.parent, ".lock") as family:
            fcntl.flock(family, fcntl.LOCK_EX)
            _remove_abandoned(target.parent)
            work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
            held = stack.enter_context(_lock_file(target.parent, _holding(work).name))
            stack.callback(_holding(work).unlink, missing_ok=True)
            fcntl.flock(held, fcntl.LOCK_EX)
        work.chmod(mode)
        try:
            yield work
            if target.exists():  # a folder without its record: its process was ended before it was complete
                remove_tree(target)
            work.rename(target)
        except BaseException:
            remove_tree(work)
            raise


def _holding(unfinished: Path) -> Path:
    """Return the file that is locked while a folder is being filled."""
    return unfinished.with_name(f".lock-{unfinished.name}")


def ensure(
    place: Path,
    read: Callable[[], T | None],
    make: Callable[[Path], object],
    *,
    what: str,
    progress: Progress,
    mode: int = 0o755,
) -> T:
    """Return an entry of the cache as `read` finds it; if it does not, `make` fills the entry's new folder first."""
    if (there := read()) is not None:
        return there
    with locked(place, what=what, progress=progress):
        if (there := read()) is None:
            with write_atomically(place, mode) as work:
                make(work)
            there = read()
    if there is None:
        raise InfrastructureError(f"{place} was removed while tare wrote it", remedy="run the same command again")
    return there


def remove_abandoned(family: Path) -> None:
    """Remove what interrupted processes left in a folder of the cache; nothing in a read-only cache."""
    if any(family.glob(f"{_UNFINISHED}*")) and os.access(family, os.W_OK):
        with _lock_file(family, ".lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            _remove_abandoned(family)


def _remove_abandoned(family: Path) -> None:
    """Remove what nobody fills; what cannot be removed now is left for the next command, and stops none."""
    for leftover in family.glob(f"{_UNFINISHED}*"):
        if _is_abandoned(leftover):
            for place in mounted_below(leftover):  # by a build of an earlier release that was killed
                process.run(("umount", "--lazy", str(place)), check=False)
            with suppress(TareError):
                remove_tree(leftover)
                _holding(leftover).unlink(missing_ok=True)


def mounted_below(folder: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> list[Path]:
    """Return the mount points below a folder, the innermost first."""
    places = (line.split()[4].encode().decode("unicode_escape") for line in mountinfo.read_text().splitlines())
    below = {Path(place) for place in places if Path(place).is_relative_to(folder)}
    return sorted(below, key=lambda place: len(place.parts), reverse=True)


def remove_tree(folder: Path) -> None:
    """Remove a folder and its contents, but never cross into a file system that is mounted inside it."""
    process.undo(
        ("rm", "--recursive", "--force", "--one-file-system", "--", str(folder)),
        timeout_s=120.0,
        what=f"removing {folder}",
    )


@contextmanager
def _lock_file(folder: Path, name: str) -> Iterator[int]:
    """Keep a lock file in a cache folder open."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InfrastructureError(
            f"the cache folder {folder} cannot be written: {error.strerror}",
            remedy="make it writable, or set XDG_CACHE_HOME to another folder",
        ) from error
    try:
        yield handle
    finally:
        os.close(handle)


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process is filling an unfinished folder any more."""
    try:
        handle = os.open(_holding(folder), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # what is left of a removal, or it has been finished meanwhile
        return True
    try:
        return _try_lock(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
