"""Make and remove the folder of a site, which has the same path on its head and on every node."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tare.errors import InfrastructureError
from tare.system.node import marked_processes
from tare.system.node.owners import write_note
from tare.system.paths import made_run_folder

PLACE: Final = re.compile(r"/tmp/tare-[A-Za-z0-9]{1,64}")
HEAD: Final = "head"
"""The file that the head writes into its own folder, which may be on a node."""
KEY: Final = "site folder"
"""The key of an owner's note that names the folder."""
HOSTS: Final = "hosts"
CONFIG: Final = "ssh config"
"""The keys of a head's note that name its hosts, and the file that ssh reads for them."""


def unique_name(run: str) -> str:
    """Return a name that no other head gives to a site on the same nodes."""
    return f"{run}x{secrets.token_hex(4)}"


def folder_of(site: str) -> Path:
    """Return the folder of a site: MPI's launchers need one path on all machines."""
    return Path(f"/tmp/tare-{site}")


def make(folder: Path, *, of_head: bool = False) -> None:
    """Create a site's folder on this machine; another user must not have made it."""
    if PLACE.fullmatch(str(folder)) is None:
        raise InfrastructureError(f"{folder} cannot be the folder of a site")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise InfrastructureError(f"{folder} cannot be made on {os.uname().nodename}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise InfrastructureError(f"{folder} belongs to another user", remedy="run the study again")
    if of_head:
        (folder / HEAD).touch()


def remove(folder: Path, *, of_head: bool = False) -> None:
    """Remove a site's folder; a node's service leaves it to the head that is on the same machine."""
    if of_head or not (folder / HEAD).exists():
        shutil.rmtree(folder, ignore_errors=True)


def remove_noted(note: Mapping[str, Any]) -> None:
    """End the processes of a site whose owner has died, and remove its folder; the note says where that is."""
    folder, name = note.get(KEY), note.get("lab")
    if isinstance(folder, str) and isinstance(name, str) and PLACE.fullmatch(folder):
        marked_processes.end_run(name, Path(folder))
        remove(Path(folder), of_head=bool(note.get(HEAD)))


@contextmanager
def kept(note_name: str, site: str, folder: Path, told: Mapping[str, Any]) -> Iterator[list[str]]:
    """Keep a site's folder on its head, with a note of its owner where others look for it.

    The note stays if something is added to the list that is yielded: what of the site could not be removed.
    """
    left: list[str] = []
    note = made_run_folder() / note_name
    note.mkdir(mode=0o700)
    try:
        write_note(note, site, **{KEY: str(folder), HEAD: True, **told})
        make(folder, of_head=True)
        yield left
    finally:
        marked_processes.end_run(site, folder)
        remove(folder, of_head=True)
        if not left:
            shutil.rmtree(note, ignore_errors=True)
    if left:
        raise InfrastructureError(left[0], remedy="the next run, or `tare clean`, tries again")
