"""Create the session folder of an MPI daemon whose ranks enter containers, the only run folder shared with them.

Root of the host executes or reads the rest of a run's folder (the agent, launch maps, keys, its owner), so no container
can see it. A session folder is new, empty and belongs to one pod.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.runtimes.containers.held_namespaces import enter
from tare.system.node import Node
from tare.system.process import run
from tare.system.user_namespace import is_real_root

PREFIX: Final = "session-"
GUARD: Final = 'mount --bind "$0" "$0" && mount -o remount,bind,nosuid,nodev,nosymfollow "$0"'
"""The command that prevents the daemon, which is root of the host, from following a link made by a rank (mount(8))."""


@contextmanager
def state_folder(run_folder: Path, slot: int, node: Node, number: int) -> Iterator[str]:
    """Keep a folder for what a runtime stores of a pod; "" on a node of a lab, which has folders of its own.

    Its name is short because Podman takes no long path.
    """
    if not node.is_machine:
        yield ""
        return
    folder = run_folder / f"p{slot}-{number}"
    folder.mkdir(mode=0o700)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def session_folder(run_folder: Path, slot: int, node: Node, host: str) -> Iterator[str]:
    """Keep a pod's session folder; it is made before the pod so that the pod's namespaces have the guarded mount."""
    folder = run_folder / f"{PREFIX}{slot}-{host}"
    folder.mkdir(mode=0o700)
    try:
        if is_real_root():  # an ordinary user's daemons and containers have the same rights
            guard = (*enter(node.pid), "/bin/sh", "-c", GUARD, str(folder))
            run(guard, what=f"making the session folder of {host}", timeout_s=20)
        yield str(folder)
    finally:
        if node.is_machine and is_real_root():  # the mounts of a lab's node end with it
            run(("umount", str(folder)), check=False, what=f"removing the session folder of {host}", timeout_s=20)
        shutil.rmtree(folder, ignore_errors=True)
