"""Build the kernels and images of a study's pods, once for each MPI and image of its cells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.agent.protocol import NodeService
from tare.agent.remote.at_once import on_each
from tare.clusters import Site
from tare.errors import RefusedError
from tare.images import find_recipe
from tare.images.build import Image, ensure_image, ensure_tar
from tare.images.cache import Progress, silent
from tare.images.convert import ensure_file
from tare.images.host_mpi import HostMpi, ensure_host_mpi
from tare.images.kernels import KernelBuild, ensure_kernels
from tare.images.own_images import ensure_own
from tare.images.registry.reference import is_reference
from tare.images.usage import prune
from tare.model import Cell, Environment, Launching, Plan
from tare.mpi import MPIS
from tare.runtimes import RUNTIMES, apptainer
from tare.runtimes.containers.deployment import Files
from tare.study import is_path
from tare.study.feasibility.fit import has_kernels, unfit_for_kernels
from tare.study.plan.cells import available
from tare.system.binds import bind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFiles:
    """The files of every environment of a study, by MPI and image."""

    made: Mapping[tuple[str, str], Files]

    def of(self, environment: Environment) -> Files:
        """Return the files of an environment, which must belong to one of the study's cells."""
        return self.made[_parts(environment)]

    @property
    def every(self) -> tuple[Files, ...]:
        """Return the files of all MPIs and images."""
        return tuple(self.made.values())

    @property
    def seen_by_nodes(self) -> tuple[str, ...]:
        """Return the folders that must be visible on the nodes, wherever they are."""
        return tuple(dict.fromkeys(place for files in self.every for place in files.seen_by_nodes))


def make_files(plan: Plan, say: Progress = silent, shown: tuple[str, ...] = (), *, measured: bool = True) -> StudyFiles:
    """Return the files for the pods; build those that are not in the cache.

    If nothing is `measured`, a user's own image need not be able to run the kernels.
    """
    parts: dict[tuple[str, str], list[Cell]] = {}
    for cell in available(plan):
        parts.setdefault(_parts(cell.environment), []).append(cell)
    made = {each: _files(cells, say, shown, measured=measured) for each, cells in parts.items()}
    if any(files.rootfs for files in made.values()):
        prune(progress=say)
    return StudyFiles(made=made)


def import_images(site: Site, every: Collection[Files]) -> None:
    """Import the images for Docker into the daemon of every node that has one."""
    archives = {files.image_tag: files.tar for files in every if files.tar}

    def import_all(node: NodeService) -> None:
        for tag, archive in archives.items():
            node.import_image(tag, archive)

    if site.daemon_nodes and archives:
        on_each([site.service(node) for node in site.daemon_nodes], import_all)


def _parts(environment: Environment) -> tuple[str, str]:
    return environment.mpi, environment.image


def _files(cells: Sequence[Cell], say: Progress, shown: tuple[str, ...], *, measured: bool) -> Files:
    """Return the files of cells that share one MPI, and one image or none."""
    mpi, name = _parts(cells[0].environment)
    if MPIS[mpi].is_fake:
        return Files(host_prefix=Path("/nowhere"))
    host_prefix = ensure_kernels(mpi, progress=say, compiler=MPIS[mpi].compiler()).prefix
    seen = tuple(bind_of(text).source for cell in cells for text in cell.environment.binds)
    if not name:
        return Files(host_prefix=host_prefix, seen=seen, shown=(str(host_prefix), *shown))
    if is_reference(name):  # the nodes pull it, and this machine never does
        return Files(host_prefix=host_prefix, image_tag=name)
    image = ensure_own(Path(name), progress=say) if is_path(name) else ensure_image(find_recipe(name), progress=say)
    shows_kernels = bool(image.source) and not has_kernels(image)
    own_mpi = any(cell.environment.launch is not Launching.HOST_MPI for cell in cells)
    build = KernelBuild(prefix=host_prefix, digest="")
    if measured and shows_kernels and own_mpi and (reason := unfit_for_kernels(image, build)):
        raise RefusedError(reason)
    return Files(
        host_mpi=_host_mpi(cells, build, say),
        host_prefix=host_prefix,
        rootfs=image.rootfs,
        tar=ensure_tar(image, say) if any(RUNTIMES[c.environment.runtime].needs_daemon for c in cells) else None,
        packed=_packed(cells, image, say),
        variables=image.variables if image.source else (),
        foreign=image.foreign,
        shows_kernels=shows_kernels,
        seen=seen,
        image_tag=f"tare:{image.digest[:16]}",
        shown=(str(host_prefix), *shown),
    )


def _packed(cells: Sequence[Cell], image: Image, say: Progress) -> tuple[tuple[str, Path], ...]:
    """Return with each runtime the image in the form that it starts from, if that is not the root file system."""
    names = dict.fromkeys(cell.environment.runtime for cell in cells if RUNTIMES[cell.environment.runtime].starts_from)
    pairs = ((name, _in_format(image, RUNTIMES[name].starts_from, say)) for name in names)
    return tuple((name, RUNTIMES[name].stored(packed, say)) for name, packed in pairs)


def _in_format(image: Image, wanted: str, say: Progress) -> Path:
    """Return the image as a file of the cache, or the user's own; convert it first if there is none."""
    if wanted == "sif" and image.sif is not None:
        return image.sif
    return ensure_file(image, wanted, apptainer.find_program() or "", say).path


def _host_mpi(cells: Sequence[Cell], build: KernelBuild, say: Progress) -> HostMpi | None:
    wanted = {cell.environment.mpi for cell in cells if cell.environment.launch is Launching.HOST_MPI}
    if not wanted:
        return None
    mpi = wanted.pop()
    return ensure_host_mpi(mpi, build.program, say, launcher=MPIS[mpi].host_launcher(), family=MPIS[mpi].family)
