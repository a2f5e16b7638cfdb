"""Serve this machine itself as a node, and remove what a killed service left on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tare.agent import administered, clean, site_folder
from tare.agent.administered import Terms
from tare.agent.local import LocalNode
from tare.mpi.launch import write_agent
from tare.system.node import Node, Pod, marked_processes
from tare.system.node.cgroups import made, of_launches

AGENT: Final = "tare-agent"


@contextmanager
def serving(name: str, node: Node, folder: Path, terms: Terms | None = None) -> Iterator[LocalNode]:
    """Serve a site's node, whose files are in `folder`; undo everything at the end, however it comes.

    With `terms` the machine has been given to tare, whose service is root.
    """
    if terms is None:
        with (
            made(of_launches(name)) as launches,
            _serving(name, LocalNode(replace(node, launches=launches), folder, _connect), folder) as service,
        ):
            yield service
        return
    with (
        administered.in_groups(name, node) as own,
        _serving(name, LocalNode(own, folder, partial(administered.connected, terms)), folder) as service,
    ):
        yield service


@contextmanager
def _serving(name: str, service: LocalNode, folder: Path) -> Iterator[LocalNode]:
    site_folder.make(folder)
    try:
        with (
            marked_processes.marked(name),
            ExitStack() as stack,
        ):  # what still holds pods is undone before what is left is ended
            stack.callback(service.leave_all)
            if not (folder / AGENT).exists():
                write_agent(folder, sys.executable)
            yield service
    finally:
        marked_processes.end_run(name, folder)
        site_folder.remove(folder)


def remove_site(name: str) -> tuple[clean.Leftover, ...]:
    """Remove what an earlier service of the same site left: it was killed, or its connection was lost."""
    if clean.head_is_here(name):  # what carries the site's mark may be the head's
        clean.end_owners(name)
        clean.remove_dead_services(name)
        return ()
    found = tuple(item for item in clean.find() if item.lab == name)
    if found:
        clean.end_owners(name)
        clean.remove_lab(name)
    return found


@contextmanager
def _connect(pod: Pod, _slot: int) -> Iterator[str]:
    yield pod.node.control_address
