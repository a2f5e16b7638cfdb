"""Open folders and files without following links that another user has planted.

`tare` runs as root in folders of ordinary users. A folder is opened component by component, and a symbolic link among
them is followed only if root or the caller owns it. A file in it is never opened through a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tare.errors import ResultsError
from tare.host.user_namespace import is_real_root

MOST_LINKS: Final = 40
"""The kernel's own limit for a path (path_resolution(7))."""
NOBODY: Final = 65534
"""In a user namespace, the owner of everything that belongs to users outside it."""
_PLACE: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder and yield its descriptor; with `make`, create missing folders.

    Raises `ResultsError` if a component is another user's link, and `OSError` if there is no such folder.
    """
    opened = _walk(path, make=make)
    try:
        number = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=opened)
    finally:
        os.close(opened)
    try:
        yield number
    finally:
        os.close(number)


def open_file(folder: int, name: str, flags: int, *, place: Path) -> int:
    """Open a regular file in an open folder and return its descriptor; `place` is the folder's path, for messages.

    Raises `ResultsError` if it is a link, not a regular file, or a hard link in another user's folder.
    """
    shown = place / name
    try:
        number = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(shown, "is a symbolic link") from None
        raise
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise _refused(shown, "is not a regular file")
    if status.st_nlink > 1 and os.fstat(folder).st_uid != os.geteuid():
        os.close(number)
        raise _refused(shown, "has another hard link")
    return number


def new_file(folder: int, name: str) -> int:
    """Create a file in an open folder, replacing any entry of its name, and return its descriptor."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)


def exists(folder: int, name: str) -> bool:
    """Return whether an open folder has an entry of this name, dangling links included."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_whole(path: Path, parts: Iterable[str]) -> None:
    """Write the parts of a text atomically; a link in the file's place is replaced, not followed."""
    partial = f"{path.name}.partial"
    with folder_at(path.parent) as folder:
        with os.fdopen(new_file(folder, partial), "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(parts)
        os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def _walk(path: Path, *, make: bool) -> int:
    """Return an O_PATH descriptor of a folder."""
    left = list(Path(os.path.abspath(path)).parts[1:])
    links, walked = 0, Path("/")
    at = os.open("/", _PLACE | os.O_DIRECTORY)
    try:
        while left:
            name = left.pop(0)
            entry = _entry(at, name, make=make)
            kind = os.fstat(entry)
            if stat.S_ISLNK(kind.st_mode):
                links += 1
                try:
                    target = _target(entry, walked / name, kind, links)
                finally:
                    os.close(entry)
                left[:0] = [part for part in target.parts if part != "/"]
                if not target.is_absolute():
                    continue
                entry, walked = os.open("/", _PLACE | os.O_DIRECTORY), Path("/")
            elif stat.S_ISDIR(kind.st_mode):
                walked /= name
            else:
                os.close(entry)
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(walked / name))
            os.close(at)
            at = entry
    except BaseException:
        os.close(at)
        raise
    return at


def _entry(folder: int, name: str, *, make: bool) -> int:
    """Return an O_PATH descriptor of an entry, of the link itself if it is one."""
    try:
        return os.open(name, _PLACE, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _PLACE, dir_fd=folder)


def _target(link: int, shown: Path, kind: os.stat_result, links: int) -> Path:
    """Return the target of an open link, if it may be followed."""
    if links > MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(shown))
    trusted = {0, os.geteuid()} | (set() if is_real_root() or os.geteuid() else {NOBODY})
    if _owner(kind) not in trusted:
        raise _refused(shown, f"is a symbolic link of another user (uid {_owner(kind)})")
    return Path(os.readlink("", dir_fd=link))


def _owner(status: os.stat_result) -> int:
    return status.st_uid


def _refused(path: Path, why: str) -> ResultsError:
    return ResultsError(f"{path} {why}: tare does not write to it", remedy="remove it, or name another folder")
