"""`bare`: processes on the node itself; with an image, the image is their root directory and nothing else changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tare.errors import RefusedError
from tare.namespaces import hold
from tare.networks.plug import Wiring
from tare.node import Node, Pod
from tare.runtimes.request import PodRequest
from tare.user_namespace import is_real_root

NODE_KINDS = ("net", "mnt", "uts", "ipc", "pid", "cgroup")
ENTERED = ("mount", "uts", "ipc", "net", "pid", "cgroup")


class Bare:
    """Run without a container: the control that others are compared with."""

    name = "bare"
    needs_image = False
    needs_daemon = False

    def probe(self) -> str | None:
        return None

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        if request.wiring is Wiring.DOCKER:
            raise RefusedError("bare processes cannot be put into a network that Docker makes")
        if request.wiring is Wiring.NODE and request.rootfs is None:
            yield _pod(request, request.node.pid)
            return
        pid = hold(f"tare:{request.study}:{request.name}", _spec(request))
        try:
            yield _pod(request, pid, keepers=frozenset({pid}))
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


def _pod(request: PodRequest, pid: int, keepers: frozenset[int] = frozenset()) -> Pod:
    return Pod(
        name=request.name,
        node=request.node,
        runtime="bare",
        pid=pid,
        enter=enter(pid),
        group=job_group(request.node).create(),
        keepers=keepers,
        own_network=request.wiring is Wiring.OWN,
    )


def job_group(node: Node) -> Any:
    """Return the cgroup of the jobs that run on a node without a container."""
    return node.group.below("job")


def _spec(request: PodRequest) -> dict[str, Any]:
    new = (["net"] if request.wiring is Wiring.OWN else []) + (["mnt"] if request.rootfs is not None else [])
    return {
        "new": new,
        "join": request.node.pid,
        "join_kinds": list(NODE_KINDS),
        "cgroups": [str(f) for f in request.node.group.below("pods").create().folders],
        "cpus": list(request.node.cores),
        "root": str(request.rootfs) if request.rootfs is not None else "",
        "keep": list(request.shown) if request.rootfs is not None else [],
    }
