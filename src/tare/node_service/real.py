"""Serve this machine itself as a node, and remove what a killed service left on it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.node import Node, Pod, marked
from tare.node_service import clean
from tare.node_service.local import LocalNode

FOLDERS: Final = "/tmp/tare-"
"""How the path of a site's folder begins on every node; it is the same on all of them, as MPI's launchers need it."""


@contextmanager
def serving(name: str, node: Node, folder: Path) -> Iterator[LocalNode]:
    """Serve a site's node, whose files are in `folder`; undo everything at the end, however it comes."""
    own = _made(folder, node)
    service = LocalNode(node, own, _connect)
    try:
        with marked.marked(name):
            yield service
    finally:
        service.leave_all()
        marked.end_run(name, folder)
        _remove(folder, own)


def remove_site(name: str) -> tuple[clean.Leftover, ...]:
    """Remove what an earlier service of the same site left: it was killed, or its head has lost the connection to it."""
    found = tuple(item for item in clean.find() if item.lab == name)
    if found:
        clean.remove_lab(name)
    return found


@contextmanager
def _connect(pod: Pod, _slot: int) -> Iterator[str]:
    yield pod.node.control_address


def _made(folder: Path, node: Node) -> Path:
    """Create the site's folder and this node's own in it; another user must not have made either."""
    if not str(folder).startswith(FOLDERS) or ".." in folder.parts:
        raise InfrastructureError(f"{folder} cannot be the folder of a site")
    own = folder / node.name
    for each in (folder, own):
        try:
            each.mkdir(mode=0o700, exist_ok=True)
            status = each.lstat()
        except OSError as error:
            raise InfrastructureError(f"{each} cannot be made on {node.name}: {error.strerror}") from error
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise InfrastructureError(f"{each} on {node.name} belongs to another user", remedy="run the study again")
    return own


def _remove(folder: Path, own: Path) -> None:
    """Remove this node's folder, and the site's unless its head is on this machine too."""
    shutil.rmtree(own, ignore_errors=True)
    if not (folder / "head").exists():
        shutil.rmtree(folder, ignore_errors=True)
