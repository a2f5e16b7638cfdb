"""`podman-rootless`: containers that an ordinary user starts with Podman, and in which ranks run as that user.

The user is created for each pod: passwd, subuid and subgid with that user are bound over the node's own in a mount
namespace of the pod, so nobody is added to this machine. `newuidmap` gives that user its range of IDs, as on any
machine where an administrator has set it up. All of Podman's state is there too, and ends with it.

Root of the container is one of the user's subordinate IDs outside, and the user keeps its own ID inside (`--userns
keep-id`): the MPI's daemon, which runs outside the containers, rejects ranks of another user (PMIx). The image's files
are shown as the container's, the ranks' working folders as the user's (`tare.runtimes.containers.idmapped`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tare.daemons.daemons import agent_argv
from tare.daemons.docker import FIRST_PROCESS, told_pid
from tare.errors import InfrastructureError
from tare.mpi.launch import BY_NAME
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers import user_podman
from tare.runtimes.containers.boot_id import show_boot_id
from tare.runtimes.containers.client_options import memory_options, study_label, work_options
from tare.runtimes.containers.concurrent_start import started_together
from tare.runtimes.containers.folder_owners import IDMAPPED, owner_map, uncover
from tare.runtimes.containers.gpu_options import podman_options
from tare.runtimes.containers.held_namespaces import enter, held, on_cores, pod_group
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.runtimes.docker import on_node
from tare.runtimes.podman import probe_init
from tare.system import devices
from tare.system.binds import Bind, bind_of, client_option, merged
from tare.system.namespaces import plain_python
from tare.system.node import Container, Node, Pod
from tare.system.packages import install
from tare.system.process import Result, need, run
from tare.system.user_namespace import is_real_root, lacks_ids

PLACE: Final = "/run/tare-podman-rootless"
USER: Final = 59123
RANGE: Final = 1_900_000_000
"""First of the IDs that the user's containers have outside: beyond those that useradd allocates (login.defs)."""
RANGE_SIZE: Final = 65536
IMAGE_OWNERS: Final = f"0 {RANGE} {USER},{USER} {USER} 1,{USER + 1} {RANGE + USER} {RANGE_SIZE - USER}"
"""Mapping of the container's users to IDs outside: root is the first subordinate ID, the user keeps its own."""
FOLDER_OWNERS: Final = f"0 {USER} 1"
KERNEL: Final = (5, 19)
PRIVATE: Final = "/root"
PREPARE: Final = (
    'set -e; mkdir -p "$0"; mount -t tmpfs -o mode=755 tare "$0"; cd "$0"; mkdir home run proc; '
    'chown "$1:$1" home run; chmod 700 home run; for name in passwd group; do cp "/etc/$name" .; done; '
    'echo "tare:x:$1:$1::$0/home:/bin/sh" >> passwd; echo "tare:x:$1:" >> group; '
    'for name in subuid subgid; do echo "tare:$2:$3" > $name; done; '
    "for name in passwd group subuid subgid; do mount --bind $name /etc/$name; done; "
    "printf '[engine]\\nlock_type = \"file\"\\n' > containers.conf; "
    "mount -t proc proc proc; mount --make-rshared /"
)
"""Gives a pod its user: $0 is where, followed by the user's ID, and first and count of its subordinate IDs. A user
namespace may mount its own /proc only if it sees one that nothing covers, and the node's has its boot_id bound over it.
"""


class PodmanRootless(Runtime):
    """Run in containers of an ordinary user's Podman."""

    name = "podman-rootless"
    needs_root = True
    holds_containers = True
    isolates_devices = True
    sizes_shared_memory = True
    gives_gpus = True
    limits_each_container = False

    def probe(self) -> str | None:
        if not is_real_root():
            return "podman-rootless needs root to create its ordinary user: run as root"
        if reason := user_podman.missing_program() or probe_init():
            return reason
        if lacking := [name for name in ("/etc/subuid", "/etc/subgid") if not Path(name).exists()]:
            return f"{lacking[0]}, which lists subordinate IDs, does not exist: {install('uidmap')}"
        if kernel(Path("/proc/sys/kernel/osrelease").read_text()) < KERNEL:
            return (
                f"this kernel is older than {'.'.join(map(str, KERNEL))}, and cannot map the owners of an image's files"
            )
        return None

    def probe_machine(self) -> str | None:
        if os.geteuid() == 0:
            return self.probe() or user_podman.hybrid_cgroups()
        return user_podman.missing_program() or probe_init() or lacks_ids() or user_podman.hybrid_cgroups()

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        node = request.node
        if _is_users(node):
            with user_podman.pod(request, self.name) as pod:
                yield pod
            return
        # Podman creates the container's network namespace itself: the user must own the one it works in.
        with held(replace(request, wiring=Wiring.NODE), own_mounts=True) as holder, pod_group(request) as group:
            _prepare(request, holder)
            try:
                pid = _started(request, holder, request.name, run_options(request))
                yield Pod(
                    name=request.name,
                    node=node,
                    runtime=self.name,
                    pid=pid,
                    enter=(
                        *enter(holder),
                        *as_user(request.devices),
                        *on_cores(request.cores),
                        *client("exec", request.name),
                    ),
                    group=group,
                    keepers=frozenset({holder}),
                    container=request.name,
                    own_network=request.wiring is Wiring.OWN,
                    outside=(*on_node(replace(node, pid=holder), pid), *as_user(request.devices)),
                    setuid=user_podman.SETUID,
                )
            finally:
                _remove(node, holder, request.name)
                if node.is_machine:  # a lab's nodes have a /run of their own
                    with suppress(OSError):
                        Path(PLACE).rmdir()

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        if _is_users(pod.node):
            return user_podman.containers(pod, request, cores)
        (holder,) = pod.keepers
        return started_together(pod, cores, partial(_join, pod, request, holder), partial(_remove, pod.node, holder))


def _is_users(node: Node) -> bool:
    """Return whether the ordinary user is the one that this process is, on a machine."""
    return node.is_machine and os.geteuid() != 0


def client(*arguments: str) -> tuple[str, ...]:
    """Return the argv of podman, with its state where the user may write it; to be run as the user."""
    return (
        need("podman", package="podman"), "--root", f"{PLACE}/home/storage", "--runroot", f"{PLACE}/run/containers",
        "--tmpdir", f"{PLACE}/run/tmp", "--storage-driver", "overlay", "--runtime", "crun",
        "--cgroup-manager", "cgroupfs", "--events-backend", "none", *arguments,
    )  # fmt: skip


def as_user(passed: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the argv prefix by which root becomes the user, dropping all privileges but limits for devices."""
    number = str(USER)
    variables = (f"HOME={PLACE}/home", f"XDG_RUNTIME_DIR={PLACE}/run", f"CONTAINERS_CONF={PLACE}/containers.conf")
    unlimited = devices.inherited(passed)
    return (
        *unlimited,
        "setpriv",
        "--reuid",
        number,
        "--regid",
        number,
        "--clear-groups",
        "env",
        "USER=tare",
        *variables,
    )


def run_options(request: PodRequest) -> tuple[str, ...]:
    """Return the arguments of podman that create the pod's container, like rootful Podman's; never `--privileged`.

    An ordinary user has no cpuset under cgroup v1; processes inside are bound to their cores by affinity.
    """
    network = "host" if request.wiring is Wiring.NODE else "none"
    return (
        "run", "--detach", "--init", "--name", request.name, "--hostname", request.host,
        *study_label(request), "--ulimit", "host", *user_podman.UNLIMITED,
        "--userns", "keep-id", *memory_options(request),
        "--network", network, *_shown(request),
        *devices.without_limits(devices.client_options(request.devices)), *podman_options(request.gpus),
        "--rootfs", f"{PLACE}/image:O", "sleep", "infinity",
    )  # fmt: skip


def join_options(pod: Pod, request: PodRequest, name: str) -> tuple[str, ...]:
    """Return the arguments of podman that start a container in the namespaces of a pod's own; never `--privileged`."""
    pod_of = f"container:{pod.container}"
    network = "host" if request.wiring is Wiring.NODE else pod_of
    return (
        "run", "--detach", "--name", name, "--hostname", request.host,
        *study_label(request), "--ulimit", "host", *user_podman.UNLIMITED,
        "--userns", pod_of, "--user", f"{USER}:{USER}", "--network", network, "--ipc", pod_of, "--pid", pod_of,
        *_shown(request), f"--volume={request.session}:{request.session}",
        *devices.without_limits(devices.client_options(request.devices)), *podman_options(request.gpus),
        "--rootfs", f"{PLACE}/image:O", "sleep", "infinity",
    )  # fmt: skip


def kernel(release: str) -> tuple[int, ...]:
    """Return the first two numbers of a kernel's release, as `6.1.0-13-amd64`."""
    return tuple(int(number) for number in release.split("-", maxsplit=1)[0].split(".")[:2])


def folders(request: PodRequest) -> dict[str, tuple[str, str]]:
    """Return the folders shown to the user's containers: place among the pod's mounts -> (ro or rw, path)."""
    shown = [path for path in request.files.shown if path != request.files.cwd]
    places = {f"{PLACE}/shown/{number}": ("ro", path) for number, path in enumerate(shown)}
    return places | ({f"{PLACE}/shown/cwd": ("rw", request.files.cwd)} if request.files.cwd else {})


def _shown(request: PodRequest) -> tuple[str, ...]:
    """Return the options that show folders and binds, and set variables.

    An image's home folder of root does not let other users pass to its contents.
    """
    shown = [Bind(source=at, target=path, read_only=how == "ro") for at, (how, path) in folders(request).items()]
    passed = any(Path(path).is_relative_to(PRIVATE) for _, path in folders(request).values())
    return (
        *((f"--tmpfs={PRIVATE}:mode=755",) if passed else ()),
        *(client_option(bind, labels=False) for bind in merged((*shown, *map(bind_of, request.environment.binds)))),
        *(f"--env={variable}" for variable in request.variables),
    )


def _prepare(request: PodRequest, holder: int) -> None:
    """Create the user, and show it the image and folders as its own."""
    prepared = ("/bin/sh", "-c", PREPARE, PLACE, str(USER), str(RANGE), str(RANGE_SIZE))
    run((*enter(holder), *prepared), what=f"making the user of {request.name}", timeout_s=20)
    mounts = [(IMAGE_OWNERS, "ro", str(request.rootfs), f"{PLACE}/image")]
    uncover(holder, [request.files.cwd] if request.files.cwd else [])
    for place, (mode, path) in folders(request).items():
        mounts.append((owner_map(path, USER) or FOLDER_OWNERS, mode, path, place))
    if request.session:
        # The MPI's daemon is the user's as well: it reads the run's folder and writes to its session folder. Containers
        # are shown only the latter.
        folder = str(Path(request.session).parent)
        mounts += [(FOLDER_OWNERS, "ro", folder, folder), (FOLDER_OWNERS, "rw", request.session, request.session)]
    words = [word for mount in mounts for word in mount]
    script = (plain_python(), "-IS", "-c", IDMAPPED.read_text(), *words)
    run((*enter(holder), *script), what=f"showing {request.name} its image", timeout_s=20)


def _join(pod: Pod, request: PodRequest, holder: int, name: str, cores: tuple[int, ...]) -> Container:
    pid = _started(request, holder, name, join_options(pod, request, name))
    inside = client("exec", *BY_NAME, *work_options(request), name)
    return Container(name=name, enter=(*on_cores(cores), *inside), carry=True, pid=pid)


def _started(request: PodRequest, holder: int, name: str, options: tuple[str, ...]) -> int:
    """Start a container that sleeps; return its first process's number on this machine."""
    node = request.node
    _podman(node, holder, *options, passed=request.devices)
    pid = told_pid(node, name, _podman(node, holder, *FIRST_PROCESS, name).stdout)
    show_boot_id(node, pid, user=True)
    return pid


def _remove(node: Node, holder: int, name: str) -> None:
    if Path(f"/proc/{holder}").exists():
        with suppress(InfrastructureError):
            _podman(node, holder, "rm", "--force", "--time", "0", name, check=False)


def _podman(node: Node, holder: int, *arguments: str, check: bool = True, passed: Sequence[str] = ()) -> Result:
    """Run podman as the user, in the node's cgroup, which its monitors and containers inherit."""
    entry = {"cgroups": [str(folder) for folder in node.group.leaf.folders], "argv": [*enter(holder), *as_user(passed)]}
    argv = agent_argv(entry, client(*arguments))
    return run(argv, check=check, timeout_s=60, what=f"podman {arguments[0]} on {node.name}")
