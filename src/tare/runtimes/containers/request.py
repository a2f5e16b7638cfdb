"""The request that a runtime receives for a pod."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.images.inside import variables
from tare.model import Environment
from tare.networks.wiring.plug import Wiring
from tare.runtimes.containers.deployment import Deployment, Files
from tare.system.binds import Bind, bind_of, merged
from tare.system.devices import gpus_of
from tare.system.node import Node
from tare.system.node.limits import Limits

SHARED_MEMORY: Final = "1g"
"""The size of a container's /dev/shm where that of its node is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """A pod of a deployment on a node, with what is known of it only there.

    `host` is the pod's hostname, `wiring` how its network is made, `network_options` are Docker's options for it.
    `session` is the session folder of the MPI's daemon, in the run's folder, if ranks enter containers: the only folder
    of a run that containers are shown ("": none). `state` is a folder of the pod alone for its runtime's files, on a
    node that is a machine: elsewhere they are in folders of the node. `cores` are the pod's own ((): the node's).
    `devices` are the device nodes that containers are given. `limits` apply to each container that is requested, the
    pod's own or those in it (None: those of its node). `shared_memory` is the size of /dev/shm, where the runtime makes
    one; `names` are the hosts that a lab's node knows, as `NAME:ADDRESS`.
    """

    deployment: Deployment
    node: Node
    host: str
    wiring: Wiring
    network_options: tuple[str, ...] = ()
    session: str = ""
    state: str = ""
    cores: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    limits: Limits | None = None
    shared_memory: str = SHARED_MEMORY
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the pod, and of its own container."""
        return f"tare-{self.deployment.study}-{self.host}"

    @property
    def environment(self) -> Environment:
        """Return the environment that the pod is a part of."""
        return self.deployment.environment

    @property
    def files(self) -> Files:
        """Return the files for pods of the deployment."""
        return self.deployment.files

    @property
    def rootfs(self) -> Path | None:
        """Return the root file system of the image, None without an image."""
        return self.files.rootfs if self.environment.image else None

    @property
    def packed(self) -> Path | None:
        """Return the image in the form that the runtime starts from (`Runtime.starts_from`), if it is another one."""
        return dict(self.files.packed).get(self.environment.runtime) if self.environment.image else None

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the words for GPUs that containers are given (`tare.runtimes.containers.gpu_options`)."""
        return gpus_of(self.environment.devices)

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the variables of containers, as `NAME=value`: the image's, and the environment's own."""
        return variables.merged(self.files.variables if self.environment.image else (), self.environment.env)

    @property
    def folders(self) -> tuple[Bind, ...]:
        """Return what of the host is shown: a program's folders read-only, the ranks' working folder, the user's binds.

        A bind replaces a folder that would be at the same path.
        """
        shown, cwd = self.files.shown, self.files.cwd
        own = [Bind(source=path, target=path, read_only=path != cwd) for path in (*shown, cwd) if path]
        return merged((*own, *map(bind_of, self.environment.binds)))
