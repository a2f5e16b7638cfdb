"""Open folders and files, and write those that a user names, without following links that another user has planted.

`tare` runs as root in folders of ordinary users. A folder is opened component by component, and a symbolic link among
them is followed only if root or the caller owns it and the folder that it is in. A file in it is never opened through
a link, and from then on the open folder is used: one that is put in its place meanwhile is not.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from tare.errors import ResultsError
from tare.system.user_namespace import is_real_root

MOST_LINKS: Final = 40
"""The kernel's own limit for a path (path_resolution(7))."""
NOBODY: Final = 65534
"""In a user namespace, the owner of everything that belongs to users outside it."""
PARTIAL: Final = ".partial"
"""The end of the name of a file that is not complete yet."""
_PLACE: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FILE: Final = {errno.ELOOP: "is a symbolic link", errno.EISDIR: "is a folder", errno.ENXIO: "is not a regular file"}
"""What an entry is that cannot be opened as a file, by the kernel's answer."""
_STREAMS: Final = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}
_DESCRIPTOR: Final = re.compile(r"(?:/dev|/proc/self)/fd/(\d{1,9})")


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder and yield its descriptor; with `make`, create missing folders.

    Raises `ResultsError` if a component is another user's link, and `OSError` if there is no such folder.
    """
    opened, _ = _walk(path, make=make)
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
        if why := _NO_FILE.get(error.errno or 0):
            raise _refused(shown, why) from None
        raise
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise _refused(shown, "is not a regular file")
    if status.st_nlink > 1 and _owner(os.fstat(folder)) != os.geteuid():
        os.close(number)
        raise _refused(shown, "has another hard link")
    return number


def new_file(folder: int, name: str, mode: int = 0o644) -> int:
    """Create a file in an open folder, replacing any entry of its name, and return its descriptor."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def exists(folder: int, name: str) -> bool:
    """Return whether an open folder has an entry of this name, dangling links included."""
    return _status(folder, name) is not None


@contextmanager
def replacing(folder: int, name: str, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Give a binary file that takes the place of an entry of an open folder, a link too, when it is complete.

    After an error the older entry stays.
    """
    partial = name + PARTIAL
    try:
        with os.fdopen(new_file(folder, partial, mode), "wb") as file:
            yield file
        os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(partial, dir_fd=folder)
        if isinstance(error, IsADirectoryError):
            raise _refused(Path(os.readlink(f"/proc/self/fd/{folder}")) / name, "is a folder") from None
        raise


@contextmanager
def output_file(path: Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Give a binary file for an output that a user names; it replaces an older file when it is complete.

    The older file's mode is kept if it is the caller's. A link of the caller's is followed, and any other is replaced;
    a pipe, a terminal or an open descriptor (/dev/stdout) is written to. Raises `ResultsError` for anything else in its
    place, and for another user's link on the way; `OSError` if it cannot be written.
    """
    stated = os.path.abspath(path)
    if match := _DESCRIPTOR.fullmatch(_STREAMS.get(stated, stated)):
        with os.fdopen(os.dup(int(match[1])), "wb") as file:
            yield file
        return
    folder, name = _walk(path, make=False, to_file=True)
    try:
        kind = _status(folder, name)
        if kind is None or stat.S_ISLNK(kind.st_mode) or stat.S_ISREG(kind.st_mode):
            with replacing(folder, name, mode=mode) as file:
                if kind is not None and stat.S_ISREG(kind.st_mode) and kind.st_uid == os.geteuid():
                    os.fchmod(file.fileno(), kind.st_mode & 0o777)
                yield file
        else:
            with _open_stream(folder, name, path) as file:
                yield file
    finally:
        os.close(folder)


def _open_stream(folder: int, name: str, path: Path) -> IO[bytes]:
    """Open a pipe or a terminal for writing; one that another user may have put there is refused."""
    entry = os.open(name, _PLACE, dir_fd=folder)
    try:
        kind = os.fstat(entry)
        if not stat.S_ISFIFO(kind.st_mode) and not stat.S_ISCHR(kind.st_mode):
            raise _refused(path, "is a folder" if stat.S_ISDIR(kind.st_mode) else "is not a regular file")
        if not (_is_ours(kind) and _is_ours(os.fstat(folder))):
            raise _refused(path, "is a pipe or a device that another user may have put there")
        return open(f"/proc/self/fd/{entry}", "wb")  # the entry that was looked at, whatever has the name now
    finally:
        os.close(entry)


def write_output(path: Path, parts: Iterable[str]) -> None:
    """Write the parts of a text to a file that a user named, as `output_file` does."""
    with output_file(path) as file:
        _write_text(file, parts)


def write_whole(path: Path, parts: Iterable[str]) -> None:
    """Write the parts of a text atomically; a link in the file's place is replaced, not followed."""
    with folder_at(path.parent) as folder, replacing(folder, path.name) as file:
        _write_text(file, parts)


def _write_text(file: IO[bytes], parts: Iterable[str]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace")
    text.writelines(parts)
    text.flush()
    text.detach()


@contextmanager
def private_folder(folder: int, name: str) -> Iterator[Path]:
    """Create a folder of the caller's alone in an open one and give a path that leads to it, whatever has its name.

    It is removed at the end if it is empty.
    """
    os.mkdir(name, 0o700, dir_fd=folder)
    number = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        kind = os.fstat(number)
        if kind.st_uid != os.geteuid() or kind.st_mode & 0o077:
            raise _refused(Path(name), "is another folder than the one that was just created")
        yield Path(f"/proc/{os.getpid()}/fd/{number}")
    finally:
        os.close(number)
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)


def check_only_root_changes(path: Path, what: str) -> None:
    """As root, raise `ResultsError` for a folder that another user can replace: other programs follow links in it.

    Of a folder that does not exist yet, the one is meant in which it will be.
    """
    if not is_real_root():
        return
    while not path.is_dir():
        path = path.parent
    with folder_at(path) as folder:
        at = Path(os.readlink(f"/proc/self/fd/{folder}"))
    for place in (at, *at.parents):
        kind = place.lstat()
        others_write = kind.st_mode & 0o022 and not kind.st_mode & stat.S_ISVTX
        if kind.st_uid != 0 or others_write:
            raise _refused(place, f"can be changed by another user, so root's {what} must not be in it")


def _walk(path: Path, *, make: bool, to_file: bool = False) -> tuple[int, str]:
    """Return an O_PATH descriptor of a folder; with `to_file` that of a file's folder, and the file's name in it."""
    left = list(Path(os.path.abspath(path)).parts[1:])
    links, walked = 0, Path("/")
    at = os.open("/", _PLACE | os.O_DIRECTORY)
    try:
        while left:
            name = left.pop(0)
            if to_file and not left and not _is_own_link(at, name):
                return at, name
            entry = _entry(at, name, make=make)
            kind = os.fstat(entry)
            if stat.S_ISLNK(kind.st_mode):
                links += 1
                try:
                    target = _target(entry, walked / name, kind, os.fstat(at), links)
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
    return at, "."


def _entry(folder: int, name: str, *, make: bool) -> int:
    """Return an O_PATH descriptor of an entry, of the link itself if it is one."""
    try:
        return os.open(name, _PLACE | os.O_DIRECTORY, dir_fd=folder)  # without the flag, no automounter would mount it
    except NotADirectoryError:
        return os.open(name, _PLACE, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _PLACE, dir_fd=folder)


def _target(link: int, shown: Path, kind: os.stat_result, folder: os.stat_result, links: int) -> Path:
    """Return the target of an open link, if it may be followed."""
    if links > MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(shown))
    if not _is_ours(kind):
        raise _refused(shown, f"is a symbolic link of another user (uid {_owner(kind)})")
    if not _is_ours(folder):
        raise _refused(shown, f"is a symbolic link in a folder of another user (uid {_owner(folder)})")
    return Path(os.readlink("", dir_fd=link))


def _is_own_link(folder: int, name: str) -> bool:
    """Return whether an entry is a link that may be followed."""
    kind = _status(folder, name)
    return kind is not None and stat.S_ISLNK(kind.st_mode) and _is_ours(kind) and _is_ours(os.fstat(folder))


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_ours(status: os.stat_result) -> bool:
    """Return whether root or the caller owns an entry."""
    caller, owner = os.geteuid(), _owner(status)
    return owner in (0, caller) or (owner == NOBODY and caller == 0 and not is_real_root())


def _owner(status: os.stat_result) -> int:
    return status.st_uid


def _refused(path: Path, why: str) -> ResultsError:
    return ResultsError(f"{path} {why}: tare does not write to it", remedy="remove it, or name another place")
