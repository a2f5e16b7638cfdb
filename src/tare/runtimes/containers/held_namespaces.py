"""Hold namespaces for pods of runtimes without a daemon, and enter them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Final

from tare.errors import InfrastructureError
from tare.images.inside.safe_paths import check_places
from tare.networks.wiring.plug import Wiring
from tare.runtimes.containers.request import PodRequest
from tare.system.binds import bind_of
from tare.system.namespaces import hold
from tare.system.node import Container, Node, Pod
from tare.system.node.cgroups import Group
from tare.system.node.limits import Limits
from tare.system.node.limits import hold as hold_to
from tare.system.user_namespace import is_real_root

KERNELS_PLACES: Final = ("/proc", "/sys", "/dev")
NODE_KINDS: Final = ("net", "mnt", "uts", "ipc", "pid", "cgroup")
ENTERED: Final = ("mount", "uts", "ipc", "net", "pid", "cgroup")
ENTERED_NAMES: Final = {"mount": "mnt"}


@contextmanager
def held(
    request: PodRequest,
    *,
    root: Path | None = None,
    read_only: Sequence[str] = (),
    own_mounts: bool = False,
    as_root: bool = False,
) -> Iterator[int]:
    """Hold a pod's namespaces and yield a process in them; `root` becomes the root directory inside.

    All namespaces are the node's, with two exceptions. Network and mounts are new if the pod has its own network;
    mounts are new if the pod has its own root directory or folders that are `read_only`, or the runtime asks
    for `own_mounts`. If nothing differs from the node, the process is the node's own. On a machine, an ordinary user's
    are in a new user namespace, in which the user is itself, or root with `as_root`.
    """
    if request.wiring is Wiring.NODE and root is None and not (own_mounts or read_only):
        yield request.node.pid
        return
    if root is not None:
        check_places(root, places_of(request))
    spec = _spec(request, root, read_only, own_mounts=own_mounts, as_root=as_root)
    pid = hold(f"tare:{request.deployment.study}:{request.name}", spec)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


def places_of(request: PodRequest) -> tuple[str, ...]:
    """Return the paths inside that a pod's image is mounted over; create them first if the image lacks them."""
    binds = (bind_of(text).target for text in request.environment.binds)
    named = (*request.files.shown, request.files.cwd, request.session, *binds)
    return (*KERNELS_PLACES, *(path for path in named if path))


def enter(pid: int) -> tuple[str, ...]:
    """Return the argv prefix that starts a process in all namespaces of another process.

    Only root of the machine may enter a time namespace, even the one that a process is already in. An ordinary user
    comes from outside the user namespace, and keeps the credentials on entry. Process 0 is one of the machine
    itself.
    """
    if pid == 0:
        return ()
    if is_real_root():
        return ("nsenter", "-t", str(pid), "--all", "--")
    if os.geteuid() == 0:
        return ("nsenter", "-t", str(pid), *(f"--{kind}" for kind in ENTERED), "--")
    other = (f"--{kind}" for kind in ENTERED if not _is_shared(pid, ENTERED_NAMES.get(kind, kind)))
    return ("nsenter", "-t", str(pid), "--preserve-credentials", "--user", *other, "--")


def _is_shared(pid: int, kind: str) -> bool:
    """Return whether a process is in this one's namespace of a kind, which an ordinary user cannot enter again."""
    return os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")


def job_group(node: Node) -> Group:
    """Return the cgroup of the jobs on a node whose runtime makes none."""
    return node.group.below("job")


@contextmanager
def pod_group(request: PodRequest) -> Iterator[Group]:
    """Yield the cgroup of the jobs in a pod: its node's, or its own if it has limits."""
    if request.limits is None:
        yield job_group(request.node).create()
        return
    with limited_group(request, request.name, request.cores or request.node.cores) as group:
        yield group


@contextmanager
def limited_group(request: PodRequest, name: str, cores: Sequence[int]) -> Iterator[Group]:
    """Keep a cgroup with a container's cores and limits, for a runtime that makes none."""
    group = request.node.group.below(name).create(cores)
    try:
        hold_to(group, request.limits or Limits())
        yield group
    finally:
        with suppress(InfrastructureError):  # a process that does not end is reported, and killed, with the node
            group.kill()
        group.remove()


@contextmanager
def limited_containers(
    pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]], command: tuple[str, ...]
) -> Iterator[tuple[Container, ...]]:
    """Yield a container for each entry of `cores`, for a runtime in which each command is a separate container.

    It is bound to its cores by affinity, and put into a cgroup if it has limits.
    """
    with ExitStack() as stack:
        made = []
        for number, own in enumerate(cores):
            name = f"{pod.name}-{number}"
            place = Container(name=name, enter=(*on_cores(own), *command))
            if request.limits is not None:
                group = stack.enter_context(limited_group(request, name, own))
                place = replace(place, group=group, joins=as_node_sees(request.node, group))
            made.append(place)
        yield tuple(made)


def on_cores(cores: Sequence[int]) -> tuple[str, ...]:
    """Return the argv prefix that binds a container to its own cores by affinity; () if it has none."""
    return ("taskset", "--cpu-list", ",".join(map(str, cores))) if cores else ()


def as_node_sees(node: Node, group: Group) -> tuple[str, ...]:
    """Return a group's folders below its node's, as seen in the node's cgroup namespace."""
    below = PurePath(group.path).relative_to(node.group.path)
    return tuple(str(hierarchy.mountpoint / below) for hierarchy in group.hierarchies)


def _spec(
    request: PodRequest, root: Path | None, read_only: Sequence[str], *, own_mounts: bool, as_root: bool
) -> dict[str, Any]:
    own_net = request.wiring is Wiring.OWN  # with new mounts, because /sys shows the network devices
    new = (["net"] if own_net else []) + (["mnt"] if own_net or root is not None or own_mounts or read_only else [])
    if request.node.is_machine and os.geteuid() != 0:
        new = ["user", *new]
    return {
        "new": new,
        "as_root": as_root,
        "join": request.node.pid,
        "join_kinds": list(NODE_KINDS),
        "cgroups": [str(f) for f in request.node.group.below("pods").create().folders],
        "cpus": list(request.node.cores),
        "read_only": list(read_only),
        "writable": request.files.cwd,
        "root": str(root) if root is not None else "",
        "overlay": request.files.foreign or (root is not None and bool(request.environment.binds)),
        "shown": [[bind.source, bind.target, bind.read_only] for bind in map(bind_of, request.environment.binds)],
        "keep": [*request.files.shown, *([request.files.cwd] if request.files.cwd else [])] if root is not None else [],
    }
