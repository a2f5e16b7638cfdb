"""`fake`: a runtime with known times, so that the whole pipeline runs in a second without MPI, root or namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.system.node import Pod


class Fake(Runtime):
    """Start nothing: the fake MPI (`tare.mpi.fake`) prints what the kernels would print."""

    name = "fake"
    needs_image = False
    makes_containers = False
    pods_are_hosts = False
    is_fake = True
    start_s = 0.0
    pod_s = 0.0

    @contextmanager
    def pod(self, request: PodRequest) -> Iterator[Pod]:
        yield Pod(
            name=request.name,
            node=request.node,
            runtime="fake",
            pid=request.node.pid,
            enter=(),
            group=request.node.group,
            join_groups=False,
        )
