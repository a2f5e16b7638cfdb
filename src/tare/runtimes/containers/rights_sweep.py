"""Take back rights that programs of an image leave in the host's folders: set-user-ID bits, capabilities, devices.

A container of root's writes to a folder of the host as user 0, whatever rights it lacks elsewhere. A file with a
set-user-ID bit or a device node that it leaves there would be any local user's way to root.

What was there before stays: it has the same inode, mode and time of the last change, which no program can set back. A
folder stays open from the first search to the second, and is walked by descriptors: a link in it, or in place of it,
leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from tare.model.text import printable
from tare.system.signals import uninterrupted
from tare.system.user_namespace import is_real_root

MOST_BEFORE: Final = 250_000
"""How many files a folder may have to be searched: one or two seconds."""
MOST_AFTER: Final = 4 * MOST_BEFORE
MOST_TOLD: Final = 10
MOST_NAMES: Final = 20
BITS: Final = stat.S_ISUID | stat.S_ISGID
CAPABILITIES: Final = "security.capability"
LOOK: Final = "look for them yourself (find -perm /6000, -type b, -type c; getcap -r)"
_PLACE: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSED_OVER: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
"""A folder that was removed, or that its file server keeps root out of, as it did the container's root."""


class UnsearchableFolder(Exception):
    """A folder cannot be searched; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptFile:
    """A file with rights of its own, `what` in words, by its name in the open folder `at` ("": `at` itself)."""

    at: int
    name: str
    path: str
    what: str
    identity: tuple[int, ...]

    def take_back(self) -> None:
        """Remove the rights of a file, or a device node as a whole; raise `OSError` if that fails."""
        opened = os.open(self.name, _PLACE, dir_fd=self.at) if self.name else os.dup(self.at)
        try:
            mode, place = os.fstat(opened).st_mode, f"/proc/self/fd/{opened}"
            if _is_device(mode):
                os.unlink(self.name, dir_fd=self.at)
            elif stat.S_ISREG(mode):
                if _has_capabilities(place):
                    os.removexattr(place, CAPABILITIES)
                os.chmod(place, stat.S_IMODE(mode) & ~BITS)
        finally:
            os.close(opened)


@dataclass(frozen=True, slots=True)
class _Level:
    """A folder on the way to the one that is searched; `below` are those in it that are still to be searched."""

    name: str
    folder: tuple[int, int]
    below: list[str] = field(default_factory=list)


@contextmanager
def swept(folders: Collection[str], say: Callable[[str], None]) -> Iterator[None]:
    """Take back, at the end, the rights that files in these folders were given meanwhile, and say so.

    A folder may also be a file. Nothing is done unless this process is the machine's root: what an ordinary user's
    programs leave is the user's.
    """
    with ExitStack() as stack:
        before: dict[int, tuple[str, frozenset[tuple[int, ...]]]] = {}
        for folder in dict.fromkeys(folders) if is_real_root() else ():
            try:
                at = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                stack.callback(os.close, at)
                before[at] = folder, frozenset(found.identity for found in search(at, folder, MOST_BEFORE))
            except (UnsearchableFolder, OSError) as error:
                say(f"set-user-ID files that containers leave in {printable(folder)} will stay: {error}; {LOOK}")
        try:
            yield
        finally:
            with uninterrupted():
                for at, (folder, known) in before.items():
                    _sweep(at, folder, known, say)


def _sweep(at: int, folder: str, known: Collection[tuple[int, ...]], say: Callable[[str], None]) -> None:
    """Take back the rights of files in an open folder that are not known, and say so."""
    count = 0
    try:
        for found in search(at, folder, MOST_AFTER):
            if found.identity not in known:
                sentence = _taken_back(found)
                count += 1
                if count <= MOST_TOLD:
                    say(sentence)
    except (UnsearchableFolder, OSError) as error:
        say(f"set-user-ID files that containers left in {printable(folder)} may be there still: {error}; {LOOK}")
    if count > MOST_TOLD:
        say(f"{printable(folder)}: containers left {count - MOST_TOLD} more such files, which were treated in this way")


def _taken_back(found: SweptFile) -> str:
    """Take back a file's rights, and return the sentence about it."""
    left = f"{printable(found.path)}: a container left {found.what}"
    try:
        found.take_back()
    except OSError as error:
        return f"{left}, which cannot be changed ({error.strerror}): remove it, or other users can use its rights"
    return f"{left}; tare has removed it" if "device" in found.what else f"{left}; tare has taken back its rights"


def search(at: int, path: str, most: int) -> Iterator[SweptFile]:
    """Yield the files with rights of their own below an open folder, or the open file itself.

    Only one folder below is open at a time: a program may nest them as deep as it likes. Raises `UnsearchableFolder` if
    there are more than `most` files, or if somebody moves a folder meanwhile.
    """
    if not stat.S_ISDIR(os.fstat(at).st_mode):
        yield from _rights(at, "", os.fstat(at), path)
        return
    here, left = os.open(".", _FOLDER, dir_fd=at), iter(range(most))
    levels = [_Level(path, _folder_of(here))]
    try:
        yield from _files(here, levels, left, most)
        while step := _next_folder(here, levels):
            os.close(here)
            here, name = step
            if name:
                levels.append(_Level(name, _folder_of(here)))
                yield from _files(here, levels, left, most)
            elif _folder_of(here) != levels[-1].folder:
                raise UnsearchableFolder("somebody moved a folder in it")
    finally:
        os.close(here)


def _next_folder(here: int, levels: list[_Level]) -> tuple[int, str] | None:
    """Open a folder below, with its name; if none is left, that above, with ""; None at the end."""
    while levels[-1].below:
        name = levels[-1].below.pop()
        try:
            return os.open(name, _FOLDER, dir_fd=here), name
        except OSError as error:
            if error.errno not in _PASSED_OVER:
                raise
    levels.pop()
    return (os.open("..", _FOLDER, dir_fd=here), "") if levels else None


def _files(here: int, levels: Sequence[_Level], left: Iterator[int], most: int) -> Iterator[SweptFile]:
    """Yield the files with rights in an open folder, and note the folders in it."""
    names = [level.name for level in levels[:MOST_NAMES]]
    path = "/".join(names + ["..."] * (len(levels) > MOST_NAMES))
    with os.scandir(here) as entries:
        for entry in entries:
            if next(left, None) is None:
                raise UnsearchableFolder(f"it has more than {most:,} files")
            if entry.is_dir(follow_symlinks=False):
                levels[-1].below.append(entry.name)
            elif not entry.is_symlink():
                with suppress(FileNotFoundError):
                    yield from _rights(here, entry.name, entry.stat(follow_symlinks=False), f"{path}/{entry.name}")


def _rights(at: int, name: str, status: os.stat_result, path: str) -> tuple[SweptFile, ...]:
    """Return a file if it has rights of its own."""
    mode, what = status.st_mode, ""
    if _is_device(mode):
        what = "a device node"
    elif not stat.S_ISREG(mode):
        return ()
    elif mode & stat.S_ISUID:
        what = f"a set-user-ID file of user {status.st_uid}"
    elif mode & stat.S_ISGID:
        what = f"a set-group-ID file of group {status.st_gid}"
    elif _has_capabilities(f"/proc/self/fd/{at}/{name}" if name else f"/proc/self/fd/{at}"):
        what = "a file with capabilities"
    else:
        return ()
    identity = (status.st_dev, status.st_ino, mode, status.st_ctime_ns)
    return (SweptFile(at=at, name=name, path=path, what=what, identity=identity),)


def _is_device(mode: int) -> bool:
    return stat.S_ISBLK(mode) or stat.S_ISCHR(mode)


def _has_capabilities(place: str) -> bool:
    try:
        os.getxattr(place, CAPABILITIES)
    except OSError:  # it has none, or its file system knows none
        return False
    return True


def _folder_of(opened: int) -> tuple[int, int]:
    status = os.fstat(opened)
    return status.st_dev, status.st_ino
