"""The cache folder: what is in it is whole, and one process at a time adds to it."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare import process
from tare.errors import InfrastructureError

Progress = Callable[[str], None]
"""Told, in a few words, what is being done."""

_UNFINISHED: Final = ".unfinished-"
_RETRY_S: Final = 0.2


def silent(_message: str) -> None:
    """Ignore progress."""


@contextmanager
def locked(folder: Path, *, what: str, progress: Progress) -> Iterator[None]:
    """Hold the folder for this process; wait, and say so, while another one builds in it.

    The lock belongs to the open file, so it ends with the process however that ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InfrastructureError(
            f"the cache folder {folder} cannot be written: {error.strerror}",
            remedy="make it writable, or name another one with XDG_CACHE_HOME",
        ) from error
    try:
        said = False
        while not _try_lock(handle):
            if not said:
                progress(f"{what}: another process is building in {folder}; waiting for it")
                said = True
            time.sleep(_RETRY_S)
        yield
    finally:
        os.close(handle)


@contextmanager
def made_whole(target: Path) -> Iterator[Path]:
    """Give a new folder to fill and move it to `target` when the block ends well; remove it otherwise.

    Must be called with the lock of `target.parent` held: what an earlier process left unfinished there is removed.
    """
    for leftover in target.parent.glob(f"{_UNFINISHED}*"):
        remove_tree(leftover)
    work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
    work.chmod(0o755)
    try:
        yield work
        if target.exists():  # a folder without its record: whoever made it was ended before it was whole
            remove_tree(target)
        work.rename(target)
    except BaseException:
        remove_tree(work)
        raise


def remove_tree(folder: Path) -> None:
    """Remove a folder and what is in it, but never cross into something that is mounted inside it."""
    process.run(
        ("rm", "--recursive", "--force", "--one-file-system", "--", str(folder)),
        timeout_s=120.0,
        what=f"removing {folder}",
    )


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
