"""Open, read and write files of an image so that no link in it leads outside its folder.

The author of an image also made its links, and an absolute link points to a file of the host if it is followed on the
host. For reading, links are followed as inside the image: an absolute link begins at the image's root, and `..` stops
there. For writing, no link is followed at all.

A path is walked one component at a time below an open descriptor. `openat2` with RESOLVE_IN_ROOT would do the same in
one call, but Python has no function for it, and old kernels would need a second implementation. Each step opens the
file that it has checked, so a link that is swapped meanwhile cannot redirect it either.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from tare.errors import ImageError, ResultsError
from tare.system.safe_files import replacing

LINKS: Final = 40
"""As many links are followed for one path, as in the kernel."""
MOST_STEPS: Final = 1024
"""As many names are looked up for one path, those in its links too: a link may have two thousand `..` in it."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVILEGED: Final = stat.S_ISUID | stat.S_ISGID


def inside(rootfs: Path, path: str) -> Path | None:
    """Return the file that an image's path leads to, or None; it is in the image, whatever its links point to."""
    try:
        with _walked(rootfs, path) as (_, names):
            return rootfs.joinpath(*names)
    except (OSError, ValueError):
        return None


def open_file(rootfs: Path, path: str, step: Callable[[], object] = lambda: None) -> BinaryIO:
    """Open a regular file of an image for reading; raise `OSError` if there is none.

    Devices and named pipes, which may be endless or block the reader, count as missing. `step` is called for each name
    that is looked up, and may raise `OSError`.
    """
    try:
        with _walked(rootfs, path, step) as (descriptor, _):
            return open_regular(Path(f"/proc/self/fd/{descriptor}"))
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, str(error)) from error


def open_regular(path: Path) -> BinaryIO:
    """Open a file of this machine for reading if it is a regular file; raise `OSError` otherwise."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # checked first, because opening a device can have side effects
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def read_file(rootfs: Path, path: str, most_bytes: int) -> bytes:
    """Return the content of an image's regular file; raise `OSError` if there is none or it is too large."""
    with open_file(rootfs, path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes")
    return content


def make_folder(rootfs: Path, path: str) -> None:
    """Create a folder of an image and its missing parents; raise `ImageError` if one of them is a link."""
    os.close(_made_folder(rootfs, path))


def write_file(rootfs: Path, path: str, text: str, mode: int = 0o644) -> None:
    """Write a file of an image, replacing a file or link; raise `ImageError` if a folder on the path is a link."""
    place = PurePosixPath(path)
    folder = _made_folder(rootfs, str(place.parent))
    try:
        with replacing(folder, place.name, mode=mode) as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode())
    except (OSError, ResultsError) as error:
        why = error.strerror if isinstance(error, OSError) else error.message
        raise ImageError(f"/{path} of the image at {rootfs} cannot be written: {why}") from error
    finally:
        os.close(folder)


def check_places(rootfs: Path, targets: Iterable[str]) -> None:
    """Raise `ImageError` if something to be shown in an image would be shown, or created, outside it.

    For callers that create mount points with the kernel's own functions, which follow links from the host's root
    directory.
    """
    top = os.path.realpath(rootfs)
    for target in targets:
        real = os.path.realpath(f"{top}/{target}")
        if not f"{real}/".startswith(f"{top}/"):
            raise ImageError(
                f"{target} cannot be mounted in the image at {rootfs}: a symbolic link on its path leads out of it",
                remedy="make the link relative, or use docker, podman or apptainer",
            )


def strip_privileges(folder: Path) -> None:
    """Remove what would give an image's files privileges on this machine: setuid and setgid bits, and device nodes.

    No runtime needs them: each provides its own /dev, and ranks are started as the user that they run as.
    """
    try:
        _strip_privileges(folder)
    except (OSError, RecursionError) as error:
        why = "its folders are nested too deeply" if isinstance(error, RecursionError) else error.strerror
        raise ImageError(f"the files of the image at {folder} cannot be searched: {why}") from error


def _strip_privileges(folder: Path) -> None:
    for _, folders, files, at in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
                os.unlink(name, dir_fd=at)
            elif status.st_mode & _PRIVILEGED and not stat.S_ISLNK(status.st_mode):
                os.chmod(name, stat.S_IMODE(status.st_mode) & ~_PRIVILEGED, dir_fd=at)


@contextmanager
def _walked(
    rootfs: Path, path: str, step: Callable[[], object] = lambda: None
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield a descriptor (O_PATH) of the file that an image's path leads to, and its real path; raise `OSError`."""
    opened = [os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    names: list[str] = []
    left = list(reversed(PurePosixPath(path).parts))
    links = steps = 0
    try:
        while left:
            part = left.pop()
            steps += 1
            if steps > MOST_STEPS:
                raise OSError(errno.ELOOP, "too many names")
            step()
            if part in ("/", "//", ".."):
                above = 0 if part != ".." else max(0, len(names) - 1)
                while len(names) > above:
                    names.pop()
                    os.close(opened.pop())
                continue
            here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened[-1])
            if not stat.S_ISLNK(os.fstat(here).st_mode):
                opened.append(here)
                names.append(part)
                continue
            try:
                target = os.readlink("", dir_fd=here)
            finally:
                os.close(here)
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, "too many links")
            left += reversed(PurePosixPath(target).parts)
        yield opened[-1], tuple(names)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _made_folder(rootfs: Path, path: str) -> int:
    """Return a descriptor of a folder of an image; create it if missing; no link is followed on the way."""
    at = os.open(rootfs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in PurePosixPath(path).parts:
        if part == "/":
            continue
        try:
            if part == "..":
                raise OSError(errno.EINVAL, "the path has '..' in it")
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=at)
            below = os.open(part, _FOLDER, dir_fd=at)
        except OSError as error:
            raise ImageError(
                f"{path} of the image at {rootfs} cannot be written to: {_hindrance(at, part) or error.strerror}",
                remedy="tare does not follow links in an image when it writes: make it a folder",
            ) from error
        finally:
            os.close(at)
        at = below
    return at


def _hindrance(folder: int, name: str) -> str:
    """Return what is in the way of a folder."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISLNK(mode):
        return f"{name} is a symbolic link"
    return "" if stat.S_ISDIR(mode) else f"{name} is not a folder"
