"""Run Podman as the ordinary user that this process is, for `podman-rootless` on a machine.

Nothing is created: the user's own subordinate IDs are used, and the containers' files are in the pod's folder, not in
the user's storage. As in `tare.runtimes.podman_rootless`, the user keeps its ID inside (`--userns keep-id`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.mpi.launch import BY_NAME
from tare.networks.wiring.plug import Wiring
from tare.runtimes.containers.boot_id import show_boot_id
from tare.runtimes.containers.client_options import memory_options, shown, study_label, work_options
from tare.runtimes.containers.concurrent_start import started_together
from tare.runtimes.containers.gpu_options import podman_options
from tare.runtimes.containers.held_namespaces import on_cores
from tare.runtimes.containers.request import PodRequest
from tare.system import caller_variables, devices
from tare.system.binds import label
from tare.system.node import Container, Pod, marked_processes
from tare.system.packages import install
from tare.system.process import Result, find, need, run
from tare.system.user_namespace import text_of

SETUID: Final = "newuidmap, newgidmap"
UNIFIED: Final = Path("/sys/fs/cgroup/cgroup.controllers")
HYBRID: Final = Path("/sys/fs/cgroup/unified/cgroup.controllers")
UNLIMITED: Final = ("--pids-limit", "-1")
"""Podman's own limit is 2048 processes; other runtimes have none."""
LONGEST_PATH: Final = 50
"""Podman 4 refuses a longer path of its run folder."""
SETTINGS: Final = '[engine]\nlock_type = "file"\n'


def hybrid_cgroups(controllers: Path = HYBRID) -> str | None:
    """Return why crun cannot start containers under this machine's cgroups, or None."""
    if text_of(controllers).strip():
        return (
            "crun does not run under hybrid cgroups, where v2 has controllers too: boot with "
            "systemd.unified_cgroup_hierarchy=1"
        )
    return None


def missing_program() -> str | None:
    """Return what an ordinary user's Podman needs and this machine lacks, or None."""
    for program, package in (("podman", "podman"), ("crun", "crun"), ("newuidmap", "uidmap")):
        if find(program) is None:
            return f"{program} is not installed: {install(package)}"
    return None


def check_length(folder: Path) -> None:
    """Raise `InfrastructureError` if Podman cannot keep its state in a folder of this path."""
    if len(f"{folder}/r") > LONGEST_PATH:
        raise InfrastructureError(
            f"podman refuses the path of its folder, {folder}/r, because it is longer than {LONGEST_PATH} characters",
            remedy="set XDG_RUNTIME_DIR to a folder with a shorter path",
        )


@contextmanager
def pod(request: PodRequest, runtime: str) -> Iterator[Pod]:
    """Hold a pod of a runtime in a container of this user's."""
    folder = Path(request.state)
    check_length(folder)
    for name in ("run", "storage"):
        (folder / name).mkdir(mode=0o700)
    (folder / "containers.conf").write_text(SETTINGS)
    try:
        pid = _started(request, request.name, run_options(request))
        inside = client(request, "exec", request.name)
        yield Pod(
            name=request.name,
            node=request.node,
            runtime=runtime,
            pid=pid,
            enter=(*devices.inherited(request.devices), *on_cores(request.cores), *inside),
            group=request.node.group,
            container=request.name,
            own_network=request.wiring is Wiring.OWN,
            outside=in_network(pid) if request.wiring is Wiring.OWN else (),
            setuid=SETUID,
        )
    finally:
        _remove(request, request.name)
        _end_helpers(request)


def containers(
    pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
) -> AbstractContextManager[tuple[Container, ...]]:
    """Hold the containers in a pod."""
    return started_together(pod, cores, partial(_join, pod, request), partial(_remove, request))


def remove_tree(folder: Path) -> None:
    """Remove a folder; what belongs to the user's subordinate IDs only a user namespace with them can remove."""
    shutil.rmtree(folder, ignore_errors=True)
    podman = find("podman")
    if podman is None or os.geteuid() == 0 or not folder.exists():
        return
    with tempfile.TemporaryDirectory(prefix="tare-") as own:
        variables = {**caller_variables.environment(), "HOME": own, "XDG_RUNTIME_DIR": own}
        run((podman, "unshare", "rm", "-rf", str(folder)), env=variables, check=False, timeout_s=60, cwd=Path("/"))
        marked_processes.end_with_variable("XDG_RUNTIME_DIR", own)


def client(request: PodRequest, *arguments: str) -> tuple[str, ...]:
    """Return the argv of podman with its state in the pod's folder."""
    folder = request.state
    return (
        "env", f"HOME={folder}", f"XDG_RUNTIME_DIR={folder}/run", f"CONTAINERS_CONF={folder}/containers.conf",
        need("podman", package="podman"), "--root", f"{folder}/storage", "--runroot", f"{folder}/r",
        "--tmpdir", f"{folder}/t", "--storage-driver", "overlay", "--runtime", "crun",
        "--cgroup-manager", "cgroupfs", "--events-backend", "none", *arguments,
    )  # fmt: skip


def in_network(pid: int) -> tuple[str, ...]:
    """Return the argv prefix that starts a program of this machine in the network of a container of this user's."""
    return ("nsenter", "-t", str(pid), "--preserve-credentials", "--user", "--net", "--")


def run_options(request: PodRequest) -> tuple[str, ...]:
    """Return the arguments of podman that create the pod's container; never `--privileged`."""
    return (
        "run", *container_options(request), "--userns", "keep-id", *podman_options(request.gpus),
        "--rootfs", f"{request.rootfs}:O", "sleep", "infinity",
    )  # fmt: skip


def container_options(request: PodRequest) -> tuple[str, ...]:
    """Return the options of a pod's container that every client of Podman takes, without GPUs and the image."""
    network = "host" if request.wiring is Wiring.NODE else "none"
    return (
        "--detach", "--init", "--name", request.name,
        *(("--hostname", request.host) if network == "none" else ()),
        *study_label(request), "--ulimit", "host", *_cgroups(),
        *memory_options(request), "--network", network, *shown(request, relabels=True),
        *devices.without_limits(devices.client_options(request.devices)),
    )  # fmt: skip


def join_options(pod: Pod, request: PodRequest, name: str) -> tuple[str, ...]:
    """Return the arguments of podman that start a container in the namespaces of a pod's own; never `--privileged`."""
    pod_of = f"container:{pod.container}"
    network = "host" if request.wiring is Wiring.NODE else pod_of
    return (
        "run", "--detach", "--name", name,
        *study_label(request), "--ulimit", "host", *_cgroups(),
        "--userns", pod_of, "--user", f"{os.geteuid()}:{os.getegid()}",
        "--network", network, "--ipc", pod_of, "--pid", pod_of,
        *shown(request, relabels=True), f"--volume={label(f'{request.session}:{request.session}')}",
        *devices.without_limits(devices.client_options(request.devices)), *podman_options(request.gpus),
        "--rootfs", f"{request.rootfs}:O", "sleep", "infinity",
    )  # fmt: skip


def _cgroups() -> tuple[str, ...]:
    """Return the option that makes no cgroup: under cgroup v1 an ordinary user has none, and crun fails."""
    return UNLIMITED if UNIFIED.exists() else ("--cgroups", "disabled")


def _join(pod: Pod, request: PodRequest, name: str, cores: tuple[int, ...]) -> Container:
    pid = _started(request, name, join_options(pod, request, name))
    inside = client(request, "exec", *BY_NAME, *work_options(request), name)
    return Container(name=name, enter=(*on_cores(cores), *inside), carry=True, pid=pid)


def _started(request: PodRequest, name: str, options: tuple[str, ...]) -> int:
    """Start a container that sleeps; return the number of its first process."""
    _podman(request, *options)
    pid = int(_podman(request, "inspect", "--format", "{{.State.Pid}}", name).stdout)
    if pid == 0:
        raise InfrastructureError(f"the container {name} on {request.node.name} is not running")
    show_boot_id(request.node, pid, user=True)
    return pid


def _remove(request: PodRequest, name: str) -> None:
    with suppress(InfrastructureError):
        _podman(request, "rm", "--force", "--time", "0", name, check=False)


def _end_helpers(request: PodRequest) -> None:
    """End what Podman leaves of its own (its pause process), and remove files that belong to subordinate IDs."""
    with suppress(InfrastructureError):
        storage = ("unshare", "rm", "-rf", f"{request.state}/storage")
        _podman(request, *storage, check=False)
    marked_processes.end_with_variable("XDG_RUNTIME_DIR", f"{request.state}/run")


def _podman(request: PodRequest, *arguments: str, check: bool = True) -> Result:
    what = f"podman {arguments[0]} on {request.node.name}"
    return run(client(request, *arguments), check=check, timeout_s=60, cwd=Path("/"), what=what)
