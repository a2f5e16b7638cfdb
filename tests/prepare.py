"""Make what the tests would make when they first need it: `tools/bootstrap` runs this as root.

    python tests/prepare.py builds|labs PROFILE

Tests, studies and this file make things by the same functions, which find them in the caches of root.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

from integration.live import lab_site  # noqa: E402
from kernels.builds import BUILDS, cached_build  # noqa: E402
from miniapps.builds import sanitized_build  # noqa: E402
from tare.daemons import docker  # noqa: E402
from tare.images import RECIPES, find_recipe  # noqa: E402
from tare.images.build import ensure_image, ensure_tar  # noqa: E402
from tare.images.convert import ensure_file  # noqa: E402
from tare.images.host_mpi import PROGRAMS, ensure_host_mpi  # noqa: E402
from tare.images.kernels import ensure_kernels  # noqa: E402
from tare.images.recipe import service  # noqa: E402
from tare.mpi import MPIS  # noqa: E402
from tare.runtimes import apptainer  # noqa: E402

OF_WHEELS = frozenset({"openmpi5", "mpich5"})
"""The builds of kernels with MPIs that `make test` does without."""
LABS = 2
"""The labs with Docker that live tests have at the same time."""


def builds(whole: bool) -> None:
    """Compile the kernels and mini-applications as tests use them, and the tests."""
    sanitized_build()
    for name in BUILDS:
        if whole or name not in OF_WHEELS:
            cached_build(name)
    if whole:
        ensure_kernels("intelmpi")
        ensure_kernels("site", compiler=MPIS["site"].compiler())
    argv = (sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--quiet", "-p", "no:cacheprovider")
    subprocess.run(argv, cwd=TESTS.parent, check=True)


def labs(whole: bool) -> None:
    """Have the data folders of the labs' Docker daemons know the images, and pack these for other runtimes."""
    images = [ensure_image(recipe()) for recipe in RECIPES.values()] if whole else [ensure_image(find_recipe())]
    with ExitStack() as stack:
        sites = [stack.enter_context(lab_site(docker=True)) for _ in range(LABS if whole else 1)]
        for image in images:
            tar = ensure_tar(image)
            for site in sites:
                for node in site.daemon_nodes:
                    docker.import_image(node, tar, f"tare:{image.digest[:16]}")
    if whole:
        ensure_file(ensure_image(find_recipe()), "sif", apptainer.find_program() or "")
        ensure_file(ensure_image(service()), "docker-archive")
        for mpi in PROGRAMS:
            ensure_host_mpi(mpi, ensure_kernels(mpi).program)


if __name__ == "__main__":
    {"builds": builds, "labs": labs}[sys.argv[1]](whole=sys.argv[2] != "test")
