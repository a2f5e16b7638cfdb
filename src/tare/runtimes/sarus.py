"""`sarus`, `sarus-mpi`: containers of CSCS's Sarus, a setuid program that starts an OCI runtime for each command.

`sarus-mpi` adds `--mpi`, by which a hook of the site puts its own MPI, one of MPICH's family, in place of the image's.
Processes, network and environment are the node's. Written from Sarus's user guide, and never run.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from tare.images.cache import Progress
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.site_runtime import SiteRuntime, folders
from tare.system.devices import CDI, NVIDIA
from tare.system.process import run

REPOSITORY: Final = "load/library"
"""Where Sarus keeps images that were loaded from an archive, in the repository of the user."""


class Sarus(SiteRuntime):
    """Run in containers of Sarus."""

    name = "sarus"
    separators = ","
    program = "sarus"
    title = "Sarus"
    starts_from = "docker-archive"
    setuid = "sarus"
    isolates_devices = True
    hooks: ClassVar[tuple[str, ...]] = ()

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        if gpu.startswith(CDI):
            return "Sarus gives its containers GPUs by hooks, and no CDI devices: use devices: nvidia or rocm"
        return None

    def stored(self, packed: Path, progress: Progress) -> Path:
        """Load the image into the user's repository, which all nodes of a site see."""
        listed = run(("sarus", "images"), check=False, timeout_s=60).stdout  # repository and tag are the first columns
        if reference(packed).split(":") not in [line.split()[:2] for line in listed.splitlines()]:
            progress("image: sarus load")
            run(("sarus", "load", str(packed), name_of(packed)), what="loading the image into Sarus", timeout_s=900)
        return packed

    def command(self, request: PodRequest, *, alone: bool = False) -> tuple[str, ...]:
        # Slurm's CUDA_VISIBLE_DEVICES, if it is set, replaces this variable in the container.
        gpus = ("env", "NVIDIA_VISIBLE_DEVICES=all") if NVIDIA in request.gpus else ()
        return (
            *gpus, "sarus", "run", *self.hooks,
            *(f"--mount={mount(*bind)}" for bind in folders(request, alone=alone)),
            *(f"--device={path}" for path in request.devices),
            *(f"--env={variable}" for variable in request.variables),
            "--workdir", "/", "--entrypoint", "", reference(request.packed or Path(request.files.image_tag)),
        )  # fmt: skip


class SarusMpi(Sarus):
    """Run in containers of Sarus with the site's own MPI."""

    name = "sarus-mpi"
    hooks = ("--mpi",)


def mount(source: str, target: str, read_only: bool) -> str:
    """Return a mount as Sarus takes it."""
    return f"type=bind,source={source},destination={target}{',readonly' if read_only else ''}"


def name_of(packed: Path) -> str:
    """Return the name of an image by its archive, whose folder is its digest."""
    return f"tare:{packed.parent.name[:16]}"


def reference(packed: Path) -> str:
    """Return the name by which Sarus runs a loaded image."""
    return f"{REPOSITORY}/{name_of(packed)}"
