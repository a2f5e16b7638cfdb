"""Runtimes: each makes and holds containers and enters them. One file a member, one entry in `RUNTIMES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from tare.containers.request import PodRequest
from tare.node import Container, Pod
from tare.runtimes.apptainer import Apptainer
from tare.runtimes.apptainer_sif import ApptainerSif
from tare.runtimes.bare import Bare
from tare.runtimes.charliecloud import Charliecloud
from tare.runtimes.docker import Docker
from tare.runtimes.fake import Fake
from tare.runtimes.podman import Podman
from tare.runtimes.podman_rootless import PodmanRootless

__all__ = ["RUNTIMES", "PodRequest", "Runtime"]


class Runtime(Protocol):
    """What every runtime offers. `probe` is read-only; `pod` undoes everything when it is left."""

    @property
    def name(self) -> str: ...
    @property
    def needs_image(self) -> bool: ...
    @property
    def needs_daemon(self) -> bool: ...
    @property
    def makes_containers(self) -> bool: ...
    @property
    def pods_are_hosts(self) -> bool:
        """Tell whether several pods of a node have hostnames of their own, and so are hosts to an MPI."""
        ...

    @property
    def holds_containers(self) -> bool:
        """Tell whether a container is held and entered; else each command is one of its own."""
        ...

    @property
    def runs_sshd(self) -> bool:
        """Tell whether an sshd can work in a pod: it gives up rights, so it must have them."""
        ...

    def probe(self) -> str | None:
        """Return why the runtime cannot be used here, or None."""

    def pod(self, request: PodRequest) -> AbstractContextManager[Pod]:
        """Hold a pod on a node, without its network."""

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        """Hold a container in the pod for each entry of `cores`, which are its own.

        They share the pod's network, processes and shared memory. A runtime that makes no containers holds none.
        """


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "bare": Bare(),
    "docker": Docker(),
    "apptainer": Apptainer(),
    "apptainer-sif": ApptainerSif(),
    "podman": Podman(),
    "podman-rootless": PodmanRootless(),
    "charliecloud": Charliecloud(),
    "fake": Fake(),
}
