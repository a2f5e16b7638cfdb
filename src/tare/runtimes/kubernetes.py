"""`kubernetes`: pods that a Kubernetes makes. This module describes one from inside, where a node's service runs.

A pod has one container for ranks, or several, which are left as they are, and the service's. All share network,
processes and shared memory. So the service finds a container of ranks by its first process, and reads its cgroup
through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system.node import Container, Pod
from tare.system.node.cgroups import Group, Hierarchy

FIRST: Final = "tare-ranks"
"""The last word of the command line of the first process in the ranks' container."""
CONTAINER: Final = "ranks"
"""The name of the ranks' container; further ones end with their number."""


class Kubernetes(Runtime):
    """Run in pods that the cluster makes."""

    name = "kubernetes"
    by_cluster = True
    holds_containers = True
    isolates_devices = True
    sizes_shared_memory = True
    daemon = "containerd, as root"
    start_s = 0.6
    pod_s = 3.0

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        return f"a pod asks for a GPU as one of the cluster's resources: name it in resources, and remove {gpu}"

    def rights(self, pod: Pod) -> str:
        return "the cluster's kubelet"

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        pid = first_process()
        if pid is None:
            raise InfrastructureError(f"the ranks' container of {request.name} is not running")
        yield Pod(
            name=request.name,
            node=request.node,
            runtime=self.name,
            pid=pid,
            enter=(),
            group=group_of(pid),
            keepers=frozenset({pid}),
            own_network=request.wiring is not Wiring.NODE,
            join_groups=False,
        )

    @contextmanager
    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Container, ...]]:
        found = []
        for number in range(len(cores)):
            name, pid = numbered(CONTAINER, number), first_process(number)
            if pid is None:
                raise InfrastructureError(f"the container {name} of {pod.name} is not running")
            found.append(
                Container(name=name, enter=(), carry=True, group=group_of(pid), keepers=frozenset({pid}), pid=pid)
            )
        yield tuple(found)


def numbered(name: str, number: int) -> str:
    """Return what is called `name` in a pod's first container of ranks, as it is called in that of a number."""
    return f"{name}-{number}" if number else name


def first_process(number: int = 0, proc: Path = Path("/proc")) -> int | None:
    """Return the first process of the container of ranks of this number in the pod of this process, or None."""
    mark = numbered(FIRST, number).encode()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "cmdline").read_bytes().split(b"\0")[-2:-1] == [mark]:
                    return int(entry.name)
    return None


def group_of(pid: int, proc: Path = Path("/proc")) -> Group:
    """Return the cgroup of a container as its own processes see it: mounted in it, with nothing above.

    Empty if its files may not be read, as where the ranks are another user's.
    """
    root = proc / str(pid) / "root"
    found = []
    with suppress(OSError):
        for line in (proc / str(pid) / "mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            kind, _, options = [*right.split(" ", 2), "", ""][:3]
            place = root / left.split()[4].lstrip("/")
            names = tuple(name for name in options.split(",") if name not in ("rw", "ro") and "=" not in name)
            if kind in ("cgroup", "cgroup2") and (place / "cgroup.procs").exists():
                version = 2 if kind == "cgroup2" else 1
                controllers = names if version == 1 else ()
                found.append(Hierarchy(mountpoint=place, version=version, controllers=controllers, below=""))
    return Group(path="", hierarchies=tuple(found))
