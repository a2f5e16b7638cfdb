"""`docker`: containers of the node's own daemon; a pod is a container that sleeps and is entered with docker exec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tare import docker as daemon
from tare.cgroups import MARK, Group
from tare.errors import InfrastructureError
from tare.networks.plug import Wiring
from tare.node import Node, Pod
from tare.process import run
from tare.runtimes.request import PodRequest

BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Docker:
    """Run in Docker containers."""

    name = "docker"
    needs_image = True
    needs_daemon = True

    def probe(self) -> str | None:
        return daemon.probe()

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        node = request.node
        try:
            daemon.docker(node, *run_options(request), timeout_s=60)
            pid = daemon.container_pid(node, request.name)
            _show_boot_id(node, pid)
            group = container_group(node, pid)
            yield Pod(
                name=request.name,
                node=node,
                runtime="docker",
                pid=pid,
                enter=daemon.client(node, "exec", request.name),
                group=group,
                keepers=frozenset(group.pids()),
                container=request.name,
                own_network=request.wiring is not Wiring.NODE,
                join_groups=False,
            )
        finally:
            if Path(f"/proc/{node.pid}").exists():
                daemon.docker(node, "rm", "--force", request.name, check=False, timeout_s=30)


def run_options(request: PodRequest) -> tuple[str, ...]:
    """Return the arguments of `docker` that make the pod's container; never `--privileged`."""
    node = request.node
    shown = tuple(f"--volume={path}:{path}:ro" for path in request.shown)
    return (
        "run", "--detach", "--init", "--name", request.name, "--hostname", node.name,
        "--label", f"tare.study={request.study}", "--cpuset-cpus", ",".join(map(str, node.cores)),
        "--ipc", "shareable", "--shm-size", "1g",
        *request.network_options, *shown, request.image_tag, "sleep", "infinity",
    )  # fmt: skip


def container_group(node: Node, pid: int) -> Group:
    """Return the cgroup of a container, by its first process."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        path = line.split(":", 2)[2]
        if f"/{MARK}/{node.group.path}/" in path:
            return Group(path=path.split(f"/{MARK}/", 1)[1], hierarchies=node.group.hierarchies)
    raise InfrastructureError(f"the container of {node.name} is in no cgroup of the lab")


def _show_boot_id(node: Node, pid: int) -> None:
    """Let the container see its node's boot_id: Docker mounts a /proc of its own, which shows this machine's.

    Only the mount namespace is entered, by us and from outside; the container gets no right that it did not have.
    """
    program = (
        "nsenter", "-t", str(pid), "--mount", "--", "/bin/sh", "-c",
        f'echo "$0" > /dev/.tare-boot-id && mount --bind /dev/.tare-boot-id {BOOT_ID}', node.boot_id,
    )  # fmt: skip
    run(program, what=f"showing the boot_id of {node.name} in its container", timeout_s=10)
