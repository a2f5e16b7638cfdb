"""`bare`: processes on the node itself; with an image, the image is their root directory and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tare.containers.held import enter, held, pod_group
from tare.containers.request import PodRequest
from tare.errors import RefusedError
from tare.host import devices
from tare.node import Container, Pod
from tare.wiring.plug import Wiring


class Bare:
    """Run without a container: the control that others are compared with."""

    name = "bare"
    needs_image = False
    needs_daemon = False
    makes_containers = False
    pods_are_hosts = False
    holds_containers = False
    runs_sshd = True

    def probe(self) -> str | None:
        return None

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        if request.wiring is Wiring.DOCKER:
            raise RefusedError("bare processes cannot be put into a network that Docker makes")
        told = ("env", *request.variables) if request.variables else ()
        with held(request, root=request.rootfs) as pid, pod_group(request) as group:
            yield Pod(
                name=request.name,
                node=request.node,
                runtime="bare",
                pid=pid,
                enter=(*enter(pid), *devices.inherited(request.devices), *told),
                group=group,
                keepers=frozenset({pid} - {request.node.pid}),
                own_network=request.wiring is Wiring.OWN,
            )

    @contextmanager
    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Container, ...]]:
        yield ()
