"""The base class of all runtimes in `tare.runtimes`, with the defaults that most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tare.containers.client import Client
from tare.containers.request import PodRequest
from tare.host.user_namespace import is_real_root
from tare.images.cache import Progress
from tare.node import Container, Pod

__all__ = ["Runtime"]


class Runtime(ABC):
    """A runtime: a member sets `name` and what differs from the defaults below, and holds pods in `pod`.

    Its `__init__` does no work, `probe` is read-only, and every context manager undoes its changes on exit.
    """

    name: str

    @property
    def needs_image(self) -> bool:
        """Return whether it cannot run on the host's files."""
        return True

    @property
    def needs_daemon(self) -> bool:
        """Return whether its containers are held by a daemon on the node."""
        return False

    @property
    def makes_containers(self) -> bool:
        """Return whether it makes containers at all."""
        return True

    @property
    def pods_are_hosts(self) -> bool:
        """Return whether several pods of a node have their own hostnames, and are therefore hosts to an MPI."""
        return True

    @property
    def holds_containers(self) -> bool:
        """Return whether a container is held and entered; otherwise each command is a separate container."""
        return False

    @property
    def one_container(self) -> bool:
        """Return whether a pod has one container at most."""
        return False

    @property
    def by_cluster(self) -> bool:
        """Return whether a cluster itself makes its pods, so that it exists on such a cluster only."""
        return False

    @property
    def runs_sshd(self) -> bool:
        """Return whether an sshd can work in a pod: it drops privileges, so it must have them."""
        return False

    def probe_sshd(self) -> str | None:
        """Return why an sshd cannot work in a pod here, or None."""
        return None

    @property
    def daemon(self) -> str:
        """Return the daemon that starts its containers and whom it runs as, as reports name it."""
        return "none"

    @property
    def takes_docker_networks(self) -> bool:
        """Return whether its containers can be attached to a network that Docker makes."""
        return False

    @property
    def isolates_devices(self) -> bool:
        """Return whether its containers see only those devices of their node that they are given."""
        return False

    @property
    def limits_each_container(self) -> bool:
        """Return whether each of several containers of a pod can have its own limits."""
        return True

    @property
    def shares_network(self) -> bool:
        """Return whether its containers have their node's network and can have no other."""
        return False

    @property
    def starts_from(self) -> str:
        """Return the format (`tare.images.convert`) of the image that it starts from, "" for its root file system.

        A runtime with a daemon starts from what the daemon has imported.
        """
        return ""

    @property
    def programs(self) -> Mapping[str, str]:
        """Return the programs whose versions are recorded with a study, by their name in the record."""
        return {}

    @property
    def clients(self) -> tuple[str, ...]:
        """Return the names of its programs that commands on a node may call."""
        return ()

    @property
    def start_s(self) -> float:
        """Return about how long a launch takes to start, for estimates shown to users; no result depends on it."""
        return 1.0

    @property
    def pod_s(self) -> float:
        """Return about how long creating and removing a pod takes, for estimates shown to users."""
        return 0.8

    @property
    def is_fake(self) -> bool:
        """Return whether nothing is started: a fake is combined with other fakes only, in tests."""
        return False

    @property
    def needs_root(self) -> bool:
        """Return whether an ordinary user cannot use it in a lab."""
        return self.needs_daemon

    def rights(self, pod: Pod) -> str:
        """Return the rights by which a pod was made, in words of a report."""
        if not pod.setuid.startswith("none"):
            return f"setuid program {pod.setuid}"
        if is_real_root():
            return "root"
        if self.needs_daemon:
            return f"daemon ({self.daemon}), by group"
        is_plain = pod.node.is_machine and not pod.pid and not self.makes_containers
        return "the user's own" if is_plain else "user namespace"

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        """Return why its containers cannot be given a GPU, or None.

        `gpu` is a word of an environment's `devices` (`tare.host.devices`), `image` is "" for the host's files.
        """
        return f"tare knows no way to give a GPU to containers of {self.name}: remove {gpu} from devices"

    def probe(self) -> str | None:
        """Return why the runtime cannot be used here, or None."""
        return None

    def probe_machine(self) -> str | None:
        """Return why the runtime cannot be used by this user on this machine as a node itself, or None."""
        return self.probe()

    def version(self) -> str:
        """Return the version for `tare doctor`, "" if there is none to show."""
        return ""

    def stored(self, packed: Path, progress: Progress) -> Path:
        """Return what containers start from, given the image in the format `starts_from`; make it once if it differs.

        This happens before a study's first trial, and the result is an entry of the cache.
        """
        return packed

    def client(self, request: PodRequest) -> Client:
        """Return how commands on the node of a pod call it: its programs are those of `clients`."""
        image = request.packed or request.rootfs
        return Client(words={"image": str(image)} if image else {})

    @abstractmethod
    def pod(self, request: PodRequest) -> AbstractContextManager[Pod]:
        """Hold a pod on a node, without its network."""

    def containers(
        self, pod: Pod, request: PodRequest, cores: Sequence[tuple[int, ...]]
    ) -> AbstractContextManager[tuple[Container, ...]]:
        """Hold a container in the pod for each entry of `cores`, which are that container's own.

        They share the pod's network, processes and shared memory. A runtime that makes no containers holds none.
        """
        return nullcontext(())
