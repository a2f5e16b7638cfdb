"""Serve this machine itself as a node, and remove what a killed service left on it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.launch import write_agent
from tare.node import Node, Pod, marked
from tare.node_service import clean
from tare.node_service.local import LocalNode

FOLDERS: Final = "/tmp/tare-"
"""How the path of a site's folder begins on every node; it is the same on all of them, as MPI's launchers need it."""


AGENT: Final = "tare-agent"
HEAD: Final = "head"
"""The file that the head writes into its own folder, which may be on a node."""


@contextmanager
def serving(name: str, node: Node, folder: Path) -> Iterator[LocalNode]:
    """Serve a site's node, whose files are in `folder`; undo everything at the end, however it comes."""
    _make(folder, node)
    service = LocalNode(node, folder, _connect)
    try:
        with marked.marked(name):
            if not (folder / AGENT).exists():
                write_agent(folder, sys.executable)
            yield service
    finally:
        service.leave_all()
        marked.end_run(name, folder)
        _remove(folder)


def remove_site(name: str) -> tuple[clean.Leftover, ...]:
    """Remove what an earlier service of the same site left: it was killed, or its connection was lost."""
    found = tuple(item for item in clean.find() if item.lab == name)
    if found:
        clean.remove_lab(name)
    return found


@contextmanager
def _connect(pod: Pod, _slot: int) -> Iterator[str]:
    yield pod.node.control_address


def _make(folder: Path, node: Node) -> None:
    """Create the site's folder; another user must not have made it."""
    if not str(folder).startswith(FOLDERS) or ".." in folder.parts:
        raise InfrastructureError(f"{folder} cannot be the folder of a site")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise InfrastructureError(f"{folder} cannot be made on {node.name}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise InfrastructureError(f"{folder} on {node.name} belongs to another user", remedy="run the study again")


def _remove(folder: Path) -> None:
    """Remove the site's folder, unless its head is on this machine too and uses it."""
    if not (folder / HEAD).exists():
        shutil.rmtree(folder, ignore_errors=True)
