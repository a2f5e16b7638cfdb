"""Show a node's boot_id in a container with its own /proc, which would otherwise show this machine's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.system.node import Node
from tare.system.process import run

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SHOW: Final = (
    f'file=/dev/.tare-boot-id-$$; trap "rm -f $file" EXIT; echo "$0" > "$file" && mount --bind "$file" {BOOT_ID}'
)
"""Containers of several nodes may share one /dev (Apptainer's do in a lab), so each has a file of its own, which is
removed at once: the mount keeps its content."""
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
