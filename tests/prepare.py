"""Make what the tests would make when they first need it: `tools/bootstrap test` runs this as root.

Tests, studies and this file make things by the same functions, which find them in the caches of root; what is not
made here is made by the first test that needs it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

from integration.live import lab_site  # noqa: E402
from kernels.builds import BUILDS, cached_build  # noqa: E402
from miniapps.builds import sanitized_build  # noqa: E402
from tare.errors import TareError  # noqa: E402
from tare.images import RECIPES, find_recipe  # noqa: E402
from tare.images.build import ensure_image, ensure_tar  # noqa: E402
from tare.images.convert import ensure_file  # noqa: E402
from tare.images.host_mpi import PROGRAMS, ensure_host_mpi  # noqa: E402
from tare.images.kernels import ensure_kernels  # noqa: E402
from tare.images.recipe import service  # noqa: E402
from tare.mpi import MPIS  # noqa: E402
from tare.runtimes import apptainer  # noqa: E402
from tare.services import docker  # noqa: E402

LABS = 3
"""The labs with Docker that tests have at the same time: each process of pytest has one, some tests two."""


def main() -> None:
    """Do all of it, two things at a time; what cannot be had here is told, and its tests say so again."""
    tasks: list[Callable[[], object]] = [
        sanitized_build,
        sif,
        *(partial(cached_build, name) for name in BUILDS),
        partial(ensure_kernels, "intelmpi"),
        site_kernels,
        *(partial(host_mpi, mpi) for mpi in PROGRAMS),
        service_image,
        collect,
    ]
    with ThreadPoolExecutor(max_workers=1) as pool:
        done = pool.map(attempt, tasks)
        attempt(import_images)
        list(done)


def attempt(task: Callable[[], T]) -> T | None:
    """Do a task; a failure is said."""
    try:
        return task()
    except (TareError, AssertionError, OSError) as error:
        print(f"  a test will make this, or say why it cannot: {error}", file=sys.stderr)
        return None


def import_images() -> None:
    """Have the data folders of the lab's Docker daemons know the images."""
    images = [image for recipe in RECIPES.values() if (image := attempt(partial(ensure_image, recipe())))]
    with ExitStack() as stack:
        sites = [stack.enter_context(lab_site(docker=True)) for _ in range(LABS)]
        for image in images:
            tar = ensure_tar(image)
            for site in sites:
                for node in site.daemon_nodes:
                    docker.import_image(node, tar, f"tare:{image.digest[:16]}")


def sif() -> None:
    """Pack the image as a SIF."""
    ensure_file(ensure_image(find_recipe()), "sif", apptainer.find_program() or "")


def site_kernels() -> None:
    """Compile the programs with the compiler that the environment gives."""
    ensure_kernels("site", compiler=MPIS["site"].compiler())


def service_image() -> None:
    """Pack the image of the service in pods of a Kubernetes."""
    ensure_file(ensure_image(service()), "docker-archive")


def host_mpi(mpi: str) -> None:
    """Collect the MPI of this machine that is shown in containers."""
    ensure_host_mpi(mpi, ensure_kernels(mpi).program)


def collect() -> None:
    """Have pytest compile the tests."""
    argv = (sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--quiet", "-p", "no:cacheprovider")
    subprocess.run(argv, cwd=TESTS.parent, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    main()
