"""`podman`: containers of rootful Podman; a pod is a container that sleeps and is entered with podman exec.

There is no daemon, and no image is imported: a container's root directory is an overlay on the image's files. All of
Podman's state is in the node's own /run and ends with the node; its monitors and containers are in the node's cgroup
and pid namespace. So nothing is left on this machine, however a run ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tare.daemons.daemons import agent_argv
from tare.daemons.docker import FIRST_PROCESS, told_pid
from tare.mpi.launch import BY_NAME
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers.boot_id import show_boot_id
from tare.runtimes.containers.client_options import limit_options, memory_options, study_label, volumes, work_options
from tare.runtimes.containers.concurrent_start import started_together
from tare.runtimes.containers.gpu_options import podman_options
from tare.runtimes.containers.held_namespaces import enter, held
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.runtimes.containers.user_podman import UNLIMITED
from tare.runtimes.docker import container_group, on_node
from tare.system import devices
from tare.system.node import Container, Node, Pod
from tare.system.node.cgroups import Group
from tare.system.packages import install
from tare.system.process import Result, find, need, run
from tare.system.user_namespace import is_real_root

STATE: Final = "/run/tare-podman"
CAP_SYS_RESOURCE: Final = 24
INIT: Final = Path("/usr/libexec/podman/catatonit")


class Podman(Runtime):
    """Run in containers of rootful Podman."""

    name = "podman"
    needs_root = True
    holds_containers = True
    runs_sshd = True
    isolates_devices = True
    sizes_shared_memory = True
    gives_gpus = True
    programs = MappingProxyType({"podman": "podman", "crun": "crun"})

    def probe(self) -> str | None:
        if not is_real_root():
            return "containers of rootful Podman need root"
        for program in ("podman", "crun"):
            if find(program) is None:
                return f"{program} is not installed: {install(program)}"
        return probe_init()

    def probe_machine(self) -> str | None:
        return "rootful Podman keeps its state in folders of a lab's node: use podman-rootless, or cluster: lab"

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        node = request.node
        with held(request) as holder:
            try:
                pid, group = _started(request, request.name, run_options(request, network=_network(request, holder)))
                yield Pod(
                    name=request.name,
                    node=node,
                    runtime="podman",
                    pid=pid,
                    enter=(*enter(node.pid), *devices.inherited(request.devices), *client("exec", request.name)),
                    group=group,
                    keepers=frozenset(group.pids()),
                    container=request.name,
                    own_network=request.wiring is Wiring.OWN,
                    join_groups=False,
                    outside=on_node(node, pid),
                )
            finally:
                _remove(node, request.name)

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        return started_together(pod, cores, partial(_join, pod, request), partial(_remove, pod.node))


def probe_init() -> str | None:
    """Return why `podman --init` does not work here, or None."""
    if find("catatonit") is None and not INIT.exists():
        return f"catatonit, which podman --init starts, is not installed: {install('catatonit')}"
    return None


def client(*arguments: str) -> tuple[str, ...]:
    """Return the argv of podman, with its state in folders of the node; to be run on the node.

    The OCI runtime is named, so that it does not differ between machines.
    """
    return (
        need("podman", package="podman"), "--root", f"{STATE}/storage", "--runroot", f"{STATE}/run",
        "--tmpdir", f"{STATE}/tmp", "--storage-driver", "overlay", "--runtime", "crun",
        "--cgroup-manager", "cgroupfs", "--events-backend", "none", *arguments,
    )  # fmt: skip


def run_options(request: PodRequest, *, network: str) -> tuple[str, ...]:
    """Return the arguments of podman that create the pod's container, like Docker's; never `--privileged`."""
    return (
        "run", "--detach", "--init", "--name", request.name, "--hostname", request.host,
        *study_label(request), "--cpuset-cpus", ",".join(map(str, request.cores or request.node.cores)),
        *UNLIMITED, *memory_options(request), "--network", network, *limit_options(request.limits),
        *volumes(request, relabels=True), *devices.client_options(request.devices), *podman_options(request.gpus),
        "--rootfs", f"{request.rootfs}:O", "sleep", "infinity",
    )  # fmt: skip


def join_options(pod: Pod, request: PodRequest, name: str, cores: Sequence[int]) -> tuple[str, ...]:
    """Return the arguments of podman that start a container in the namespaces of a pod's own; never `--privileged`.

    As with Docker, the pod's container shares its network, shared memory and process numbers, but not its hostname, by
    which an MPI tells hosts apart.
    """
    pod_of = f"container:{pod.container}"
    return (
        "run", "--detach", "--name", name, "--hostname", request.host,
        *study_label(request),
        *UNLIMITED, "--network", pod_of, "--ipc", pod_of, "--pid", pod_of, "--cpuset-cpus", ",".join(map(str, cores)),
        *limit_options(request.limits), *volumes(request, relabels=True),
        f"--volume={request.session}:{request.session}",
        *devices.client_options(request.devices), *podman_options(request.gpus),
        "--rootfs", f"{request.rootfs}:O", "sleep", "infinity",
    )  # fmt: skip


def _join(pod: Pod, request: PodRequest, name: str, cores: tuple[int, ...]) -> Container:
    """Start another container in a pod."""
    pid, group = _started(request, name, join_options(pod, request, name, cores))
    return Container(
        name=name,
        enter=(*devices.inherited(request.devices), *client("exec", *BY_NAME, *work_options(request), name)),
        carry=True,
        group=group,
        keepers=frozenset(group.pids()),
        pid=pid,
    )


def _started(request: PodRequest, name: str, options: tuple[str, ...]) -> tuple[int, Group]:
    """Start a container that sleeps; return its first process's number on this machine, and its cgroup."""
    node = request.node
    verb, *rest = options
    limits: tuple[str, ...] = ()
    if _is_limited(node.pid):
        # If limits may not be raised, Podman still tries to raise that of open files, and fails. With `--ulimit host`
        # it leaves them alone, but accepts no other limit.
        limits, rest = ("--ulimit", "host"), list(devices.without_limits(rest))
    _podman(node, verb, *limits, *rest, before=devices.inherited(request.devices))
    pid = told_pid(node, name, _podman(node, *FIRST_PROCESS, name).stdout)
    show_boot_id(node, pid)
    return pid, container_group(node, pid)


def _remove(node: Node, name: str) -> None:
    if Path(f"/proc/{node.pid}").exists():
        _podman(node, "rm", "--force", "--time", "0", name, check=False)


def _podman(node: Node, *arguments: str, check: bool = True, before: tuple[str, ...] = ()) -> Result:
    """Run podman on a node, in the node's cgroup, which its monitors inherit; `before` precedes its argv."""
    entry = {"cgroups": [str(folder) for folder in node.group.leaf.folders], "argv": [*enter(node.pid), *before]}
    argv = agent_argv(entry, client(*arguments))
    return run(argv, check=check, timeout_s=60, what=f"podman {arguments[0]} on {node.name}")


def _network(request: PodRequest, holder: int) -> str:
    """Return a pod's network in Podman's terms: the node's own, or the one that tare holds for it."""
    return "host" if request.wiring is Wiring.NODE else f"ns:/proc/{_inner_pid(holder)}/ns/net"


def _inner_pid(pid: int) -> int:
    """Return a process's number on its node."""
    return int(_status(pid, "NSpid").split()[-1])


def _is_limited(pid: int) -> bool:
    """Return whether root of a node may not raise its limits."""
    return not int(_status(pid, "CapBnd"), 16) >> CAP_SYS_RESOURCE & 1


def _status(pid: int, key: str) -> str:
    return Path(f"/proc/{pid}/status").read_text().partition(f"{key}:")[2].partition("\n")[0]
