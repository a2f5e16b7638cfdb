"""`charliecloud`: `ch-run` on the image's root file system: a user namespace and mounts; all else is the node's.

There is no daemon, and nothing runs in a pod between launches. tare holds the network, if the pod has its own, and the
mounts from which ch-run starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tare.errors import RefusedError
from tare.images.inside.safe_paths import check_places
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers.held_namespaces import enter, held, limited_containers, places_of, pod_group
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system import devices
from tare.system.binds import bind_of
from tare.system.node import Container, Pod
from tare.system.packages import install
from tare.system.process import find, need, run

LIMIT: Final = Path("/proc/sys/user/max_user_namespaces")
PLACE: Final = "/run/tare-charliecloud"
INSIDE_PATH: Final = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_BIND_FOLDER: Final = 'bind() { mount --bind "$1" "$2" 2> /dev/null || mount --rbind "$1" "$2"; }; '
"""Defines a function that binds a folder; in a user namespace that is possible only with what is mounted below it."""
PREPARE: Final = (
    f'{_BIND_FOLDER}set -e; image=$1; shift; mkdir -p "$0"; mount -t tmpfs -o mode=755 tare "$0"; cd "$0"; '
    "mkdir image upper work root; "
    'mount --bind "$image" image; mount -t overlay -o lowerdir=image,upperdir=upper,workdir=work tare root; '
    'for path; do mkdir -p "root$path"; bind "$path" "root$path"; mount -o remount,bind,ro "root$path"; '
    'case $path in /tmp/*) bind "$path" "$path"; mount -o remount,bind,ro "$path" ;; esac; done'
)
"""Creates the root directory for ch-run: $0 is its path, the first argument the image, the others are folders to show.
ch-run cannot bind a folder to a path that a read-only image lacks, and the image in the cache must not be written to;
so the paths are created in an overlay, which only this pod's mount namespace has. A container has its node's /tmp, so a
folder below it is also made read-only there, for this pod."""
BIND: Final = (
    "set -e; while [ $# -gt 0 ]; do source=$1 place=$0$2 how=$3; shift 3; "
    'if [ -d "$source" ]; then mkdir -p "$place"; else mkdir -p "${place%/*}"; : >> "$place"; fi; '
    'mount --rbind "$source" "$place"; if [ "$how" = ro ]; then mount -o remount,bind,ro "$place"; fi; done'
)
"""Makes the binds: $0 is the root directory, followed by source, target and `ro` or `rw` of each."""
SHOW: Final = (
    f'{_BIND_FOLDER}set -e; for path; do case $path in /tmp/*) if [ ! -w "$path" ]; then '
    'bind "$path" "$path"; mount -o remount,bind,rw "$path"; fi ;; esac; '
    'mkdir -p "$0$path"; mount --rbind "$path" "$0$path"; done'
)
"""Shows folders unchanged, writable: $0 is the root directory."""


class Charliecloud(Runtime):
    """Run in containers of Charliecloud."""

    name = "charliecloud"
    other_names = ("ch-run",)
    programs = MappingProxyType({"charliecloud": "ch-run"})
    pods_are_hosts = False

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        if gpu == devices.ROCM:
            return None
        return (
            "Charliecloud shows the node's devices, but no libraries of a GPU's driver (only ch-fromhost copies them, "
            "into the image): use apptainer or podman"
        )

    def probe(self) -> str | None:
        if find("ch-run") is None:
            return f"ch-run is not installed: {install('charliecloud-runtime')}"
        if LIMIT.exists() and LIMIT.read_text().strip() == "0":
            return (
                "ch-run needs user namespaces, which this machine does not allow: sysctl user.max_user_namespaces=1000"
            )
        return None

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        if request.host != request.node.name:
            raise RefusedError("containers of charliecloud have their node's hostname: share: none is not possible")
        program = need("ch-run", package="charliecloud-runtime")
        if request.rootfs is not None:
            check_places(request.rootfs, places_of(request))
        with held(request, own_mounts=True, as_root=True) as pid, pod_group(request) as group:
            inside = enter(pid)
            shown = (path for path in request.files.shown if path != request.files.cwd)
            prepared = ("/bin/sh", "-c", PREPARE, place_of(request), str(request.rootfs), *shown)
            run((*inside, *prepared), what=f"preparing the root of {request.name}", timeout_s=20)
            if request.files.cwd:
                _show(inside, request, request.files.cwd)
            _bind(inside, request)
            yield Pod(
                name=request.name,
                node=request.node,
                runtime="charliecloud",
                pid=pid,
                enter=(*inside, *devices.inherited(request.devices), *entered(program, request)),
                group=group,
                keepers=frozenset({pid}),
                own_network=request.wiring is Wiring.OWN,
                outside=inside,
            )

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        program = need("ch-run", package="charliecloud-runtime")
        _show(pod.outside, request, request.session)
        # ch-run would bind $TMPDIR as /tmp, and that is the session of the daemon outside
        unlimited = devices.inherited(request.devices)
        command = (*unlimited, "env", "--unset=TMPDIR", *entered(program, request, cwd=request.files.cwd or "/"))
        return limited_containers(pod, request, cores, command)


def place_of(request: PodRequest) -> str:
    """Return the folder in which a pod's root directory is made."""
    return f"{request.state}/charliecloud" if request.state else PLACE


def _show(outside: tuple[str, ...], request: PodRequest, folder: str) -> None:
    script = ("/bin/sh", "-c", SHOW, f"{place_of(request)}/root", folder)
    run((*outside, *script), what=f"mounting {folder} in a container", timeout_s=20)


def _bind(outside: tuple[str, ...], request: PodRequest) -> None:
    binds = [bind_of(text) for text in request.environment.binds]
    words = [token for bind in binds for token in (bind.source, bind.target, "ro" if bind.read_only else "rw")]
    if words:
        script = ("/bin/sh", "-c", BIND, f"{place_of(request)}/root", *words)
        run((*outside, *script), what=f"showing what is bound in {request.name}", timeout_s=20)


def entered(program: str, request: PodRequest, *, cwd: str = "/") -> tuple[str, ...]:
    """Return the argv prefix that starts a command in a pod's container."""
    return ch_run(
        program,
        cwd=cwd,
        variables=request.variables,
        place=place_of(request),
        user=(os.geteuid(), os.getegid()) if request.state and os.geteuid() != 0 else None,
    )


def ch_run(
    program: str,
    *,
    cwd: str = "/",
    variables: Sequence[str] = (),
    place: str = PLACE,
    user: tuple[int, int] | None = None,
) -> tuple[str, ...]:
    """Return the argv prefix that starts a command in the container, as root of its user namespace, or as `user`.

    On a machine, an ordinary user is itself inside, as usual with Charliecloud. /proc, /sys, /dev with /dev/shm, and
    /tmp are the node's, as is Charliecloud's default; the image is read-only. ch-run fails without $USER, and passes on
    the caller's environment, whose PATH is the host's.
    """
    prefix = ("env", *variables) if variables else ()
    ids = (f"--uid={user[0]}", f"--gid={user[1]}") if user else ()
    options = (*ids, f"--cd={cwd}", f"--set-env={INSIDE_PATH}")
    return ("env", "USER=root", program, *options, f"{place}/root", "--", *prefix)
