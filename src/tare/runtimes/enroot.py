"""`enroot`: containers of NVIDIA's enroot, each started by `enroot start` on a root file system that a pod unpacks.

The container is a user namespace and mounts; network, processes and shared memory are the node's. pyxis, the plug-in of
Slurm that calls enroot, has its options on srun's command line instead: it is no member, because its containers exist
only where srun launches. Written from enroot's documentation (doc/cmd, doc/standard-hooks.md), and never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.site_runtime import SiteRuntime, folders
from tare.system.devices import CDI, NVIDIA, ROCM
from tare.system.process import run

PLACE: Final = "/run/tare-enroot"
GPU_VARIABLES: Final = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
"""What enroot's hook 98-nvidia.sh reads; it brings the libraries of the driver."""


class Enroot(SiteRuntime):
    """Run in containers of enroot."""

    name = "enroot"
    separators = ":"
    program = "enroot"
    title = "enroot"
    starts_from = "squashfs"
    carries = True
    pod_s = 5.0

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        if gpu.startswith(CDI):
            return "enroot gives its containers no CDI devices: use devices: nvidia or rocm"
        return None

    @contextmanager
    def ready(self, request: PodRequest) -> Iterator[None]:
        if request.packed is None:
            raise RefusedError("a container of enroot needs an image")
        create = client(request, "create", "--name", request.name, str(request.packed))
        try:
            run(create, what=f"unpacking the image of {request.name}", timeout_s=300, cwd=Path("/"))
            yield
        finally:
            remove = client(request, "remove", "--force", request.name)
            run(remove, check=False, what=f"removing the image of {request.name}", timeout_s=120, cwd=Path("/"))

    def command(self, request: PodRequest, *, alone: bool = False) -> tuple[str, ...]:
        gpus = GPU_VARIABLES if NVIDIA in request.gpus else ()
        return client(
            request,
            "start",
            "--rw",
            *(word for bind in folders(request, alone=alone) for word in ("--mount", mount(*bind))),
            *(word for variable in (*request.variables, *gpus) for word in ("--env", variable)),
            request.name,
        )


def client(request: PodRequest, *arguments: str) -> tuple[str, ...]:
    """Return the argv of enroot with its files in the pod's folder; its settings are variables as well."""
    place = f"{request.state or PLACE}/enroot"
    kinds = ("RUNTIME", "CACHE", "DATA", "TEMP")
    # A site may restrict /dev; the devices of a study are those that its environment names.
    shown = ("ENROOT_RESTRICT_DEV=no",) if request.devices or ROCM in request.gpus else ()
    settings = (*(f"ENROOT_{kind}_PATH={place}/{kind.lower()}" for kind in kinds), "ENROOT_MOUNT_HOME=no", *shown)
    return ("env", *settings, "enroot", *arguments)


def mount(source: str, target: str, read_only: bool) -> str:
    """Return a mount as enroot takes it: the fields of fstab(5), separated by colons."""
    return f"{source}:{target}:none:x-create=auto,rbind{',ro' if read_only else ''}"
