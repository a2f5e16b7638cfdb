"""Show a node's boot_id in a container that has a /proc of its own, where it would see this machine's."""

from __future__ import annotations

from typing import Final

from tare.host.process import run
from tare.node import Node

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
SHOW: Final = f'echo "$0" > /dev/.tare-boot-id && mount --bind /dev/.tare-boot-id {BOOT_ID}'


def show_boot_id(node: Node, pid: int, *, user: bool = False) -> None:
    """Bind the node's boot_id over the file that a container sees, by a process in it.

    Only the mount namespace is entered, by us and from outside; the container gets no right that it did not have. The
    file systems of a container that a `user` has started know no root but the one of its user namespace.
    """
    space = ("--user", "--mount") if user else ("--mount",)
    program = ("nsenter", "-t", str(pid), *space, "--", "/bin/sh", "-c", SHOW, node.boot_id)
    run(program, what=f"showing the boot_id of {node.name} in its container", timeout_s=10)
