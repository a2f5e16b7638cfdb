"""Namespaces that we hold ourselves for pods of runtimes that have no daemon, and how to enter them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tare.cgroups import Group
from tare.namespaces import hold
from tare.networks.plug import Wiring
from tare.node import Node
from tare.runtimes.request import PodRequest
from tare.user_namespace import is_real_root

NODE_KINDS: Final = ("net", "mnt", "uts", "ipc", "pid", "cgroup")
ENTERED: Final = ("mount", "uts", "ipc", "net", "pid", "cgroup")


@contextmanager
def held(request: PodRequest, *, root: Path | None = None, own_mounts: bool = False) -> Iterator[int]:
    """Hold a pod's namespaces and yield a process in them; `root` becomes the root directory inside.

    All namespaces are the node's, but network and mounts where the pod is to have a network of its own, and the mounts
    where it has a root directory of its own or the runtime asks for `own_mounts`. Where nothing differs from the node
    the process is the node's own.
    """
    if request.wiring is Wiring.NODE and root is None and not own_mounts:
        yield request.node.pid
        return
    pid = hold(f"tare:{request.study}:{request.name}", _spec(request, root, own_mounts))
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


def enter(pid: int) -> tuple[str, ...]:
    """Return the argv prefix that starts a process in all namespaces of another.

    Who is not root of the machine cannot enter its time namespace, not even anew. An ordinary user comes from outside
    of the user namespace, and keeps the credentials on the way in.
    """
    if is_real_root():
        return ("nsenter", "-t", str(pid), "--all", "--")
    user = () if os.geteuid() == 0 else ("--preserve-credentials", "--user")
    return ("nsenter", "-t", str(pid), *user, *(f"--{kind}" for kind in ENTERED), "--")


def job_group(node: Node) -> Group:
    """Return the cgroup of the jobs that run on a node and whose runtime makes none."""
    return node.group.below("job")


def _spec(request: PodRequest, root: Path | None, own_mounts: bool) -> dict[str, Any]:
    own_net = request.wiring is Wiring.OWN  # with mounts of its own, because /sys shows the network devices
    new = (["net"] if own_net else []) + (["mnt"] if own_net or root is not None or own_mounts else [])
    return {
        "new": new,
        "join": request.node.pid,
        "join_kinds": list(NODE_KINDS),
        "cgroups": [str(f) for f in request.node.group.below("pods").create().folders],
        "cpus": list(request.node.cores),
        "root": str(root) if root is not None else "",
        "keep": [*request.shown, *([request.cwd] if request.cwd else [])] if root is not None else [],
    }
