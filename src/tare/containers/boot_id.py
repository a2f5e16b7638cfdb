"""Show a node's boot_id in a container with its own /proc, which would otherwise show this machine's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.host.process import run
from tare.node import Node

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SHOW: Final = f'own="/dev/.tare-boot-id.$0.$$"; echo "$0" > "$own" && mount --bind "$own" {BOOT_ID} && rm "$own"'
"""Bind a file and remove its name: some runtimes show the machine's /dev, which the containers of all nodes share."""
MOUNTS: Final = Path("/proc/self/mountinfo")


def is_covered(mountinfo: str) -> bool:
    """Return whether another file is mounted over the boot_id; the mount point is the fifth word (proc(5))."""
    return any(line.split()[4:5] == [BOOT_ID] for line in mountinfo.splitlines())


def show_boot_id(node: Node, pid: int, *, user: bool = False) -> None:
    """Bind the node's boot_id over the file that a container sees, through one of the container's processes.

    tare enters only the mount namespace, from outside; the container gains no privilege. The file systems of a
    container that a `user` has started accept no root but that of its user namespace. A machine's own is right already,
    unless the machine is a lab's node itself, reached by ssh.
    """
    if node.is_machine and not is_covered(MOUNTS.read_text()):
        return
    space = ("--user", "--mount") if user else ("--mount",)
    program = ("nsenter", "-t", str(pid), *space, "--", "/bin/sh", "-c", SHOW, node.boot_id)
    run(program, what=f"showing the boot_id of {node.name} in its container", timeout_s=10)
