"""`fake`: a runtime with known times, so that the whole pipeline runs in a second without MPI, root or namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tare.containers.request import PodRequest
from tare.node import Container, Pod


class Fake:
    """Start nothing: the fake MPI (`tare.mpi.fake`) says what the kernels would have said."""

    name = "fake"
    needs_image = False
    needs_daemon = False
    makes_containers = False
    pods_are_hosts = False
    holds_containers = False
    runs_sshd = False

    def probe(self) -> str | None:
        return None

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

    @contextmanager
    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[Container, ...]]:
        yield ()
