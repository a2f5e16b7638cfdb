"""`shifter`: containers of NERSC's Shifter, a setuid program that mounts an image which the site's gateway has.

Images reach Shifter through the gateway only, so a site's administrators import those of tare once. Network, processes
and shared memory are the node's. Written from Shifter's documentation, and never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.errors import RefusedError
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.site_runtime import SiteRuntime, folders
from tare.system.devices import NVIDIA
from tare.system.process import run


class Shifter(SiteRuntime):
    """Run in containers of Shifter."""

    name = "shifter"
    separators = ":;"
    program = "shifter"
    title = "Shifter"
    starts_from = "squashfs"
    setuid = "shifter"

    def refuse_gpu(self, gpu: str, image: str) -> str | None:
        if gpu == NVIDIA:
            return None
        return f"Shifter gives its containers GPUs by a module of the site, and tare knows only NVIDIA's: remove {gpu}"

    @contextmanager
    def ready(self, request: PodRequest) -> Iterator[None]:
        if run(("shifterimg", "lookup", reference(request)), check=False, timeout_s=60).status != 0:
            raise RefusedError(
                f"Shifter's gateway has no image {reference(request)}",
                remedy=f"have an administrator import {request.packed} under that name (Shifter, Importing Images)",
            )
        yield

    def command(self, request: PodRequest, *, alone: bool = False) -> tuple[str, ...]:
        volumes = ";".join(volume(*bind) for bind in folders(request, alone=alone))
        return (
            "shifter", f"--image={reference(request)}",
            *(("--module=gpu",) if NVIDIA in request.gpus else ()),
            *((f"--volume={volumes}",) if volumes else ()),
            *(f"--env={variable}" for variable in request.variables),
            "--workdir=/",
        )  # fmt: skip


def volume(source: str, target: str, read_only: bool) -> str:
    """Return a volume as Shifter takes it."""
    return f"{source}:{target}{':ro' if read_only else ''}"


def reference(request: PodRequest) -> str:
    """Return the name of an image that was imported: Shifter calls these `custom`."""
    return f"custom:{request.files.image_tag}"
