"""`docker`: containers of the node's own daemon; a pod is a container that sleeps and is entered with docker exec."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tare.daemons import docker as daemon
from tare.daemons import docker_api as api
from tare.errors import InfrastructureError
from tare.mpi.launch import BY_NAME
from tare.networks.wiring.plug import Wiring
from tare.runtimes.containers import gpu_options
from tare.runtimes.containers.boot_id import show_boot_id
from tare.runtimes.containers.client_options import (
    DROPPED,
    limit_config,
    limit_options,
    memory_options,
    study_label,
    volumes,
    work_options,
)
from tare.runtimes.containers.concurrent_start import started_together
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system.binds import format_bind, label
from tare.system.devices import client_options, host_config
from tare.system.node import Client, Container, Node, Pod
from tare.system.node.cgroups import MARK, Group
from tare.system.process import need

TRIES: Final = 5
ATTACHED_TOO_LATE: Final = (
    "attaching to network failed, make sure",
    "Could not attach to network",
)
"""What dockerd says when Swarm's manager has not attached a container to its network after 20 s."""


class Docker(Runtime):
    """Run in Docker containers."""

    name = "docker"
    needs_daemon = True
    holds_containers = True
    runs_sshd = True
    daemon = "dockerd, as root"
    takes_docker_networks = True
    isolates_devices = True
    sizes_shared_memory = True
    gives_gpus = True
    clients = ("docker",)
    programs = MappingProxyType({"dockerd": "dockerd", "containerd": "containerd", "runc": "runc"})

    def probe(self) -> str | None:
        return daemon.probe()

    def probe_machine(self) -> str | None:
        return daemon.probe_machine()

    def client(self, request: PodRequest) -> Client:
        socket = request.node.docker_socket if request.node.is_machine else daemon.NODE_SOCKET
        return Client(
            programs={name: need(name, package="docker.io") for name in self.clients},
            variables={"DOCKER_HOST": f"unix://{socket}"},
            words={"image": request.files.image_tag},
            holds=(*self.clients, "container", "inspect", request.name),
        )

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        node = request.node
        try:
            _start(request)
            pid = daemon.container_pid(node, request.name)
            show_boot_id(node, pid)
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
                outside=on_node(node, pid),
            )
        finally:
            _remove(node, request.name)

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        return started_together(pod, cores, partial(_join, pod, request), partial(_remove, pod.node))


def _start(request: PodRequest) -> None:
    """Start a pod's container; again, up to `TRIES` times, if Swarm did not attach it in time, as on a busy machine."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            daemon.run_docker(request.node, *run_options(request), timeout_s=60)
            return
        except InfrastructureError as error:
            if last or not any(words in error.message for words in ATTACHED_TOO_LATE):
                raise
            _remove(request.node, request.name)


def _join(pod: Pod, request: PodRequest, name: str, cores: tuple[int, ...]) -> Container:
    """Start another container in a pod."""
    node = pod.node
    inside = api.start_container(node, name, join_config(pod, request, cores))
    if inside == 0:
        raise InfrastructureError(f"the container {name} on {node.name} exited while starting")
    pid = daemon.outer_pid(node, inside)
    show_boot_id(node, pid)
    group = container_group(node, pid)
    return Container(
        name=name,
        enter=("docker", "exec", *BY_NAME, *_as_user(node), *work_options(request), name),
        carry=True,
        group=group,
        keepers=frozenset(group.pids()),
        pid=pid,
    )


def _as_user(node: Node) -> tuple[str, ...]:
    """Return the options by which ranks run as this user: its MPI's daemon, outside, rejects those of another."""
    return ("--user", f"{os.geteuid()}:{os.getegid()}") if node.is_machine and os.geteuid() != 0 else ()


def _remove(node: Node, name: str) -> None:
    if node.is_machine or Path(f"/proc/{node.pid}").exists():
        with suppress(InfrastructureError):  # the daemon may be gone, and its containers end with the node
            api.remove_container(node, name)


def on_node(node: Node, pod_pid: int) -> tuple[str, ...]:
    """Return the argv prefix to the node, where Docker's client works, but in a pod's network.

    On a machine, pods with several containers have its own network.
    """
    if node.is_machine:
        return ()
    spaces = {"mount": "mnt", "uts": "uts", "ipc": "ipc", "pid": "pid", "cgroup": "cgroup"}
    kinds = tuple(f"--{option}=/proc/{node.pid}/ns/{name}" for option, name in spaces.items())
    return ("nsenter", *kinds, f"--net=/proc/{pod_pid}/ns/net", "--")


def join_config(pod: Pod, request: PodRequest, cores: Sequence[int]) -> dict[str, Any]:
    """Return the request to the daemon for a container in the namespaces of a pod's own; never privileged.

    The pod's container shares its network, shared memory and process numbers: without the last two, an MPI that
    considers the ranks neighbours would fail (METHOD.md section 2).
    """
    pod_of = f"container:{pod.container}"
    return {
        "Image": request.files.image_tag,
        "Cmd": ["sleep", "infinity"],
        **({"Env": list(request.variables)} if request.variables else {}),
        "Labels": {"tare.study": request.deployment.study},
        "HostConfig": {
            "NetworkMode": pod_of,
            "IpcMode": pod_of,
            "PidMode": pod_of,
            "CpusetCpus": ",".join(map(str, cores)),
            "CapDrop": list(DROPPED),
            **limit_config(request.limits),
            **bind_config(request),
            **host_config((*request.devices, *gpu_options.rocm_devices(request.gpus))),
            **gpu_options.docker_config(request.gpus),
        },
    }


def bind_config(request: PodRequest) -> dict[str, Any]:
    """Return the folders that a rank's container sees as the daemon takes them; with colons it sets no label."""
    split = [bind for bind in request.folders if ":" in bind.source + bind.target]
    mounts = [
        {"Type": "bind", "Source": bind.source, "Target": bind.target, "ReadOnly": bind.read_only} for bind in split
    ]
    plain = [label(format_bind(bind)) for bind in request.folders if bind not in split]
    return {"Binds": [*plain, f"{request.session}:{request.session}"], **({"Mounts": mounts} if mounts else {})}


def run_options(request: PodRequest) -> tuple[str, ...]:
    """Return the arguments of `docker` that create the pod's container; never `--privileged`."""
    return (
        "run", "--detach", "--init", "--name", request.name, "--hostname", request.host,
        *study_label(request), "--cpuset-cpus", ",".join(map(str, request.cores or request.node.cores)),
        *memory_options(request), *limit_options(request.limits), *request.network_options, *volumes(request),
        *client_options(request.devices), *gpu_options.docker_options(request.gpus),
        request.files.image_tag, "sleep", "infinity",
    )  # fmt: skip


def container_group(node: Node, pid: int) -> Group:
    """Return the cgroup of a container, by its first process; on a machine, where it is not tare's, the node's."""
    if node.is_machine:
        return node.group
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, below_node, rest = line.split(":", 2)[2].rpartition(f"/{MARK}/{node.group.path}/")
        if below_node:
            return Group(path=f"{node.group.path}/{rest}", hierarchies=node.group.hierarchies)
    raise InfrastructureError(f"the container of {node.name} is in no cgroup of the lab")
