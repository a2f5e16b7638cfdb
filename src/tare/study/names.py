"""Collect the names that a study can use from the registries, and read the shorthand of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tare.clusters import CLUSTERS
from tare.images import DEFAULT, MPI_OF, RECIPES
from tare.model import Environment
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.networks.wiring import transports
from tare.networks.wiring.conflist import is_conflist
from tare.runtimes import RUNTIMES
from tare.study.messages import unknown
from tare.workloads.answers import WORDS
from tare.workloads.declared import MINIAPPS, MiniApp
from tare.workloads.programs import PROGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that a study can use: those of the registries of plug-ins, including the `fake` ones for tests.

    `imageless` lists the runtimes that can use the files of the host; every other always has an image, by default
    `image_for` its MPI. `daemons` lists the runtimes that have a daemon, `with_hosts` the clusters whose nodes a study
    lists, `with_jobs` those that a batch system gives. `mpi_of` gives the MPI inside each image. The kernels' registry
    is in C (kernels/kernels/registry.c); Python needs these parts of it: which kernels take no message size, a window,
    a rate, only whole floats or doubles, at least a byte. `programs` are the third-party programs that have an adapter,
    `words` those that are replaced in commands, where they are in braces.
    Messages leave out `fakes`.
    """

    runtimes: tuple[str, ...] = tuple(RUNTIMES)
    networks: tuple[str, ...] = tuple(NETWORKS)
    transports: tuple[str, ...] = tuple(transports.NAMES)
    mpis: tuple[str, ...] = tuple(MPIS)
    clusters: tuple[str, ...] = tuple(CLUSTERS)
    with_hosts: tuple[str, ...] = tuple(name for name, cluster in CLUSTERS.items() if cluster.takes_hosts)
    with_jobs: tuple[str, ...] = tuple(name for name, cluster in CLUSTERS.items() if cluster.runs_jobs)
    kernels: tuple[str, ...] = (
        "latency", "bw", "bibw", "sendrecv", "barrier", "alltoall", "alltoallv", "allgather", "allreduce", "halo",
        "spacing",
    )  # fmt: skip
    miniapps: Mapping[str, MiniApp] = field(default_factory=lambda: MINIAPPS)
    programs: tuple[str, ...] = tuple(PROGRAMS)
    words: tuple[str, ...] = tuple(WORDS)
    imageless: tuple[str, ...] = tuple(name for name, runtime in RUNTIMES.items() if not runtime.needs_image)
    daemons: tuple[str, ...] = tuple(name for name, runtime in RUNTIMES.items() if runtime.needs_daemon)
    images: tuple[str, ...] = tuple(RECIPES)
    mpi_of: Mapping[str, str] = field(default_factory=lambda: MPI_OF)
    default_image: str = DEFAULT
    fakes: frozenset[str] = frozenset(
        name for registry in (RUNTIMES, NETWORKS, MPIS, CLUSTERS) for name, member in registry.items() if member.is_fake
    )
    unsized: tuple[str, ...] = ("barrier",)
    windowed: tuple[str, ...] = ("bw", "bibw")
    paced: tuple[str, ...] = ("spacing",)
    of_floats: tuple[str, ...] = ("allreduce",)
    of_doubles: tuple[str, ...] = ("halo",)
    other_names: Mapping[str, str] = field(
        default_factory=lambda: {
            other: name for name, each in reversed(tuple(RUNTIMES.items())) for other in each.other_names
        }
    )
    never_empty: tuple[str, ...] = ("bw", "bibw", "alltoall", "alltoallv", "allgather", "allreduce", "halo")

    def unknown(self, what: str, name: object, allowed: Iterable[str]) -> str:
        """Return the sentence about an unknown name, with the allowed names that are not for tests."""
        return unknown(what, name, [each for each in allowed if each not in self.fakes], self.other_names)

    def image_for(self, mpi: object) -> str:
        """Return the image of an environment for which the study names none: the first that contains its MPI."""
        wanted = MPIS[mpi].alike if isinstance(mpi, str) and mpi in MPIS else mpi
        return next((image for image in self.images if self.mpi_of.get(image) == wanted), self.default_image)


KNOWN: Final = Known()


def is_path(image: str) -> bool:
    """Return whether an image is given as the path of a file or folder, not as a recipe."""
    return image.startswith(("/", "./", "../", "~/"))


def read_name(name: str, known: Known) -> tuple[dict[str, str], tuple[str, str] | None]:
    """Return the fields of `runtime[+dockerd][+image][+network]`, and (field, complaint) if the name is invalid."""
    runtime, *rest = name.split("+")
    if runtime not in known.runtimes:
        return {}, ("runtime", known.unknown("runtime", runtime, known.runtimes))
    parts = {"runtime": runtime, "network": "host", "image": "" if runtime in known.imageless else known.default_image}
    if rest and rest[0] in {f"{daemon}d" for daemon in known.daemons}:
        parts["daemon"] = rest.pop(0).removesuffix("d")
    if rest and rest[0] == "image":
        parts["image"] = known.default_image
        rest = rest[1:]
    if rest:
        parts["network"] = rest[0]
        if rest[0] not in known.networks and not is_conflist(rest[0]):
            return {}, ("network", known.unknown("network", rest[0], known.networks))
    if len(rest) > 1:
        return {}, ("network", f"{name!r} is not an environment: write it as runtime[+dockerd][+image][+network]")
    return parts, None


def full_name(environment: Environment, known: Known) -> str:
    """Return the name of an environment as tare itself writes it: `docker` and `docker+host` are one environment.

    A name that a study gave to keys of its own stays as it is.
    """
    parts, complaint = read_name(environment.name, known)
    stated = (parts.get("runtime"), parts.get("network"), parts.get("daemon", ""))
    if complaint is not None or stated != (environment.runtime, environment.network, environment.daemon):
        return environment.name
    name, default = environment.name, "+host"  # as read_name has it
    if environment.network != default[1:] or environment.runtime in known.imageless:
        return name.removesuffix(default)
    return name if name.endswith(default) else f"{name}{default}"
