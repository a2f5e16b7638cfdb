"""`bare`: processes on the node itself; an image, if there is one, is their root directory and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.networks.wiring.plug import Wiring, refuse_docker_wiring
from tare.runtimes.containers.held_namespaces import enter, held, pod_group
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system import devices
from tare.system.node import Pod


class Bare(Runtime):
    """Run without a container: the control that others are compared with."""

    name = "bare"
    needs_image = False
    makes_containers = False
    pods_are_hosts = False
    runs_sshd = True
    start_s = 0.5
    pod_s = 0.1

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        if gpu.startswith(devices.CDI):
            return "programs on the node itself have all of its GPUs, and no CDI device: use devices: nvidia or rocm"
        if image and gpu == devices.NVIDIA:
            return "an image without a container has no libraries of the GPU's driver: use apptainer or podman"
        return None

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        refuse_docker_wiring(request.wiring, self.name)
        variables = ("env", *request.variables) if request.variables else ()
        read_only = () if request.node.is_machine else request.files.read_only
        with held(request, root=request.rootfs, read_only=read_only) as pid, pod_group(request) as group:
            yield Pod(
                name=request.name,
                node=request.node,
                runtime="bare",
                pid=pid,
                enter=(*enter(pid), *devices.inherited(request.devices), *variables),
                group=group,
                keepers=frozenset({pid} - {request.node.pid}),
                own_network=request.wiring is Wiring.OWN,
            )
