"""What a runtime is: the base class of every member of `tare.runtimes`, with what most of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from tare.containers.request import PodRequest
from tare.node import Container, Pod

__all__ = ["Runtime"]


class Runtime(ABC):
    """A runtime: a member sets `name` and what differs from the defaults below, and holds pods in `pod`.

    Its `__init__` does no work, `probe` is read-only, and every context undoes what it made when it is left.
    """

    name: str

    @property
    def needs_image(self) -> bool:
        """Return whether it cannot run on the files of the host."""
        return True

    @property
    def needs_daemon(self) -> bool:
        """Return whether a daemon on the node holds its containers."""
        return False

    @property
    def makes_containers(self) -> bool:
        """Return whether it makes containers at all."""
        return True

    @property
    def pods_are_hosts(self) -> bool:
        """Return whether several pods of a node have hostnames of their own, and so are hosts to an MPI."""
        return True

    @property
    def holds_containers(self) -> bool:
        """Return whether a container is held and entered; otherwise each command is a container of its own."""
        return False

    @property
    def runs_sshd(self) -> bool:
        """Return whether an sshd can work in a pod: it gives up rights, so it must have them."""
        return False

    @property
    def isolates_devices(self) -> bool:
        """Return whether its containers see no device of their node but those that they are given."""
        return False

    @property
    def limits_each_container(self) -> bool:
        """Return whether each of several containers of a pod can have limits of its own."""
        return True

    @property
    def starts_from_sif(self) -> bool:
        """Return whether it starts from the image as a SIF; otherwise from its root file system or its archive."""
        return False

    @property
    def programs(self) -> Mapping[str, str]:
        """Return the programs whose versions are recorded with a study, by the name that they have there."""
        return {}

    @property
    def start_s(self) -> float:
        """Return about how long the start of a launch takes: for estimates that users see, no result depends on it."""
        return 1.0

    @property
    def pod_s(self) -> float:
        """Return about how long making and removing a pod takes: for estimates that users see."""
        return 0.8

    @property
    def is_fake(self) -> bool:
        """Return whether nothing is started: a fake goes with other fakes only, in tests."""
        return False

    def probe(self) -> str | None:
        """Return why the runtime cannot be used here, or None."""
        return None

    def version(self) -> str:
        """Return the version that `tare doctor` shows, "" where it shows none."""
        return ""

    @abstractmethod
    def pod(self, request: PodRequest) -> AbstractContextManager[Pod]:
        """Hold a pod on a node, without its network."""

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        """Hold a container in the pod for each entry of `cores`, which are its own.

        They share the pod's network, processes and shared memory. A runtime that makes no containers holds none.
        """
        return nullcontext(())
