"""Runtimes: each makes and holds containers and enters them. One file per member, one entry in `RUNTIMES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.runtimes.apptainer import Apptainer
from tare.runtimes.apptainer_instance import ApptainerInstance
from tare.runtimes.apptainer_sif import ApptainerSif
from tare.runtimes.apptainer_sif_levels import ApptainerSifExtracted, ApptainerSifSetuid, ApptainerSifSquashfuse
from tare.runtimes.bare import Bare
from tare.runtimes.charliecloud import Charliecloud
from tare.runtimes.containers.request import PodRequest
from tare.runtimes.containers.runtime import Runtime
from tare.runtimes.docker import Docker
from tare.runtimes.enroot import Enroot
from tare.runtimes.fake import Fake
from tare.runtimes.kubernetes import Kubernetes
from tare.runtimes.podman import Podman
from tare.runtimes.podman_hpc import PodmanHpc
from tare.runtimes.podman_rootless import PodmanRootless
from tare.runtimes.sarus import Sarus, SarusMpi
from tare.runtimes.shifter import Shifter

__all__ = ["BARE", "RUNTIMES", "PodRequest", "Runtime"]

BARE: Final = Bare.name
"""The runtime that starts programs on the node itself."""


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "bare": Bare(),
    "docker": Docker(),
    "apptainer": Apptainer(),
    "apptainer-sif": ApptainerSif(),
    "apptainer-sif-setuid": ApptainerSifSetuid(),
    "apptainer-sif-squashfuse": ApptainerSifSquashfuse(),
    "apptainer-sif-extracted": ApptainerSifExtracted(),
    "apptainer-instance": ApptainerInstance(),
    "podman": Podman(),
    "podman-rootless": PodmanRootless(),
    "podman-hpc": PodmanHpc(),
    "charliecloud": Charliecloud(),
    "enroot": Enroot(),
    "sarus": Sarus(),
    "sarus-mpi": SarusMpi(),
    "shifter": Shifter(),
    "kubernetes": Kubernetes(),
    "fake": Fake(),
}
