"""Serve this machine itself as a node, and remove what a killed service left on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.launch import write_agent
from tare.node import Node, Pod, marked
from tare.node_service import clean, site_folder
from tare.node_service.local import LocalNode

AGENT: Final = "tare-agent"


@contextmanager
def serving(name: str, node: Node, folder: Path) -> Iterator[LocalNode]:
    """Serve a site's node, whose files are in `folder`; undo everything at the end, however it comes."""
    site_folder.make(folder)
    service = LocalNode(node, folder, _connect)
    try:
        with marked.marked(name):
            if not (folder / AGENT).exists():
                write_agent(folder, sys.executable)
            yield service
    finally:
        service.leave_all()
        marked.end_run(name, folder)
        site_folder.remove(folder)


def remove_site(name: str) -> tuple[clean.Leftover, ...]:
    """Remove what an earlier service of the same site left: it was killed, or its connection was lost."""
    found = tuple(item for item in clean.find() if item.lab == name)
    if found:
        clean.end_owners(name)
        clean.remove_lab(name)
    return found


@contextmanager
def _connect(pod: Pod, _slot: int) -> Iterator[str]:
    yield pod.node.control_address
