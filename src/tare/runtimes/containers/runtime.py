"""The base class of all runtimes in `tare.runtimes`, with the defaults that most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType

from tare.errors import RefusedError
from tare.images.cache import Progress
from tare.runtimes.containers.request import PodRequest
from tare.system.node import Client, Container, Pod
from tare.system.user_namespace import is_real_root


class Runtime(ABC):
    """A runtime: a member sets `name` and what differs from the defaults below, and holds pods in `pod`.

    Its `__init__` does no work, `probe` is read-only, and every context manager undoes its changes on exit.
    """

    name: str

    needs_image: bool = True
    """Whether it cannot run on the host's files."""
    needs_daemon: bool = False
    """Whether its containers are held by a daemon on the node."""
    makes_containers: bool = True
    """Whether it makes containers at all."""
    pods_are_hosts: bool = True
    """Whether several pods of a node have their own hostnames, and are therefore hosts to an MPI."""
    holds_containers: bool = False
    """Whether a container is held and entered; otherwise each command is a separate container."""
    one_container: bool = False
    """Whether a pod has one container at most."""
    by_cluster: bool = False
    """Whether a cluster itself makes its pods, so that it exists on such a cluster only."""
    runs_sshd: bool = False
    """Whether an sshd can work in a pod: it drops privileges, so it must have them."""

    def probe_sshd(self) -> str | None:
        """Return why an sshd cannot work in a pod here, or None."""
        return None

    daemon: str = "none"
    """The daemon that starts its containers and whom it runs as, as reports name it."""
    takes_docker_networks: bool = False
    """Whether its containers can be attached to a network that Docker makes."""
    isolates_devices: bool = False
    """Whether its containers see only those devices of their node that they are given."""
    sizes_shared_memory: bool = False
    """Whether its containers have a /dev/shm of their own, of any size (`shm_size`)."""
    gives_gpus: bool = False
    """Whether its containers can be given every kind of GPU."""
    limits_each_container: bool = True
    """Whether each of several containers of a pod can have its own limits."""
    shares_network: bool = False
    """Whether its containers have their node's network and can have no other."""
    other_names: tuple[str, ...] = ()
    """What it is called elsewhere, for the answer to such a name."""
    starts_from: str = ""
    """The format (`tare.images.convert`) of the image that it starts from, "" for its root file system.

    A runtime with a daemon starts from what the daemon has imported.
    """
    separators: str = ""
    """Characters at which its options divide, so that no path that its containers see may have them."""
    programs: Mapping[str, str] = MappingProxyType({})
    """The programs whose versions are recorded with a study, by their name in the record."""
    clients: tuple[str, ...] = ()
    """The names of its programs that commands on a node may call."""
    start_s: float = 1.0
    """About how long a launch takes to start, for estimates shown to users; no result depends on it."""
    pod_s: float = 0.8
    """About how long creating and removing a pod takes, for estimates shown to users."""
    is_fake: bool = False
    """Whether nothing is started: a fake is combined with other fakes only, in tests."""

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

        `gpu` is a word of an environment's `devices` (`tare.system.devices`), `image` is "" for the host's files.
        """
        if self.gives_gpus:
            return None
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
        Raises `RefusedError` if a pod is one container.
        """
        if cores and self.one_container:
            raise RefusedError(f"a pod of {self.name} is one container")
        return nullcontext(())
