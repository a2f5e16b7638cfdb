"""The request that a runtime receives for a pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.networks.wiring.plug import Wiring
from tare.system.binds import Bind, bind_of, merged
from tare.system.node import Node
from tare.system.node.limits import Limits

SHARED_MEMORY: Final = "1g"
"""The size of a container's /dev/shm where that of its node is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """A pod on a node. `rootfs` and `image_tag` are empty without an image.

    `packed` is the image in the form that the runtime starts from (`Runtime.starts_from`), if it is another one.
    `shown` are folders of the host that are visible inside at the same path (a user's program); `cwd` is one that is
    also writable, in which ranks work. `read_only` are those of `shown` that a pod without a container may not write to
    either: a program does the same everywhere. `network_options` are Docker's options for its network. `session` is the
    session folder of the MPI's daemon, in the run's folder, if ranks enter containers: the only folder of a run that
    containers are shown ("": none). `host` is the pod's hostname, `cores` are its own cores ("" and (): the node's).
    `devices` are the device nodes that containers are given, `gpus` the words for GPUs that they are given
    (`tare.runtimes.containers.gpu_options`), `binds` what else they see of the host (`tare.system.binds`), `variables`
    their environment as `NAME=value`. A `foreign` root file system is a user's own folder, in which no mount point may
    be created. `state` is a folder of the pod alone for its runtime's files, on a node that is a machine: elsewhere
    they are in folders of the node. `limits` apply to each container that is requested, the pod's own or those in it
    (None: those of its node). `sshd` is an empty folder of root's, in which an sshd inside gives up its rights ("":
    there is none). `shared_memory` is the size of /dev/shm, where the runtime makes one; `names` are the hosts that a
    lab's node knows, as `NAME:ADDRESS`.
    """

    name: str
    study: str
    node: Node
    wiring: Wiring
    rootfs: Path | None = None
    image_tag: str = ""
    packed: Path | None = None
    network_options: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    host: str = ""
    cwd: str = ""
    cores: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    foreign: bool = False
    limits: Limits | None = None
    state: str = ""
    sshd: str = ""
    shared_memory: str = SHARED_MEMORY
    names: tuple[str, ...] = ()

    @property
    def host_options(self) -> tuple[str, ...]:
        """Return the names of hosts as options of docker and podman, which write a container's /etc/hosts."""
        return tuple(f"--add-host={name}" for name in self.names)

    @property
    def folders(self) -> tuple[Bind, ...]:
        """Return what of the host is shown: a program's folders read-only, the ranks' working folder, the user's binds.

        A bind replaces a folder that would be at the same path.
        """
        own = [Bind(source=path, target=path, read_only=path != self.cwd) for path in (*self.shown, self.cwd) if path]
        return merged((*own, *map(bind_of, self.binds)))
