"""Ask what can run on a cluster from this machine, as `tare plan` asks it, and whether the machine is quiet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Final

from tare import study
from tare.agent import clean
from tare.agent.probe import probe
from tare.clusters import CLUSTERS, usual_cluster
from tare.errors import TareError
from tare.images import DEFAULT, RECIPES, mpi_programs
from tare.images.build import list_images
from tare.model import Environment, Study
from tare.mpi import MPIS
from tare.mpi.defaults import with_transport
from tare.networks import NETWORKS, Wiring
from tare.runtimes import BARE, RUNTIMES
from tare.study.feasibility.availability import Judge, judge_of, refuse
from tare.system.node import limits
from tare.system.node.cgroups import hierarchies
from tare.system.topology import in_words, read_topology

LOGIN: Final = "this is the login node; compute nodes may have other software: in an allocation, they are asked by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A cluster, runtime, network, MPI or image: why it cannot be used (None: it can), and its version or the like.

    With `never` no installation would change that: it does not go with the cluster.
    """

    family: str
    name: str
    reason: str | None = None
    detail: str = ""
    never: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What can run on a cluster: the parts, and the pairs of runtime and network if they were asked about.

    `unusable` is why the cluster itself cannot be used, "" if it can.
    """

    cluster: str
    where: str
    user: str
    machine: str
    noise: str
    parts: tuple[Capability, ...]
    unusable: str = ""
    pairs: tuple[Capability, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def able(self) -> bool:
        """Return whether any environment can run."""
        return {"runtime", "MPI"} <= {part.family for part in self.parts if part.reason is None}

    def of(self, family: str) -> tuple[Capability, ...]:
        """Return the parts of a family."""
        return tuple(part for part in self.parts if part.family == family)


def diagnose(
    cluster: str, hosts: Sequence[str] = (), ssh_config: str = "", *, noise: str = "", pairs: bool = False
) -> Diagnosis:
    """Ask about a cluster ("": the one that this user has), with `pairs` also about each runtime in each network.

    `noise` is what others use of the machine.
    """
    name = cluster or _usual_cluster(hosts)
    asked = ClusterProbe(name, hosts, ssh_config)
    families = (("cluster", CLUSTERS), ("MPI", MPIS))
    parts = [
        Capability(family=family, name=each, reason=member.probe(), detail=_version(member) if pairs else "")
        for family, members in families
        for each, member in members.items()
        if not member.is_fake
    ]
    built = {image.name for image in list_images()}
    parts += asked.runtimes_and_networks(versions=pairs)
    parts += [
        Capability(
            family="image", name=each, reason=None if each in built else f"not built yet: tare image build {each}"
        )
        for each in RECIPES
    ]
    lacking = limits.missing() if CLUSTERS[name].is_here else None
    return Diagnosis(
        cluster=name,
        where=CLUSTERS[name].location,
        user="root" if os.geteuid() == 0 else "an ordinary user",
        machine=_machine(),
        noise=noise,
        parts=tuple(parts),
        unusable=asked.unusable,
        pairs=tuple(asked.pairs()) if pairs else (),
        notes=tuple(filter(None, (mpi_programs.on_path(), lacking, asked.note, _left()))),
    )


def _usual_cluster(hosts: Sequence[str]) -> str:
    """Return the cluster that a user has: that of the hosts, root's lab, else this machine as it is."""
    if hosts:
        return next(name for name, each in CLUSTERS.items() if each.takes_hosts)
    return usual_cluster()


class ClusterProbe:
    """The questions about environments on a cluster. Each answer is kept."""

    def __init__(self, cluster: str, hosts: Sequence[str], ssh_config: str) -> None:
        """Ask whether the cluster itself can be used."""
        nodes = len(hosts) or (2 if cluster in CLUSTERS and CLUSTERS[cluster].emulated else 1)
        self._study = study.moved(_study(nodes), cluster, hosts, ssh_config)
        asked = CLUSTERS[cluster]
        self._outside = asked.runs_jobs and not asked.in_job
        self.note = f"{LOGIN} `tare doctor --cluster {cluster}`" if self._outside else ""
        self.unusable = asked.probe() or ""
        self._environments = environments()
        self._reason = cache(self._ask)
        self._judge: Judge = lambda *_: self.unusable
        try:
            self._judge = judge_of(self._study, {})
        except TareError as error:
            self.unusable = self.unusable or _sentence(error)

    def runtimes_and_networks(self, *, versions: bool) -> list[Capability]:
        """Return every runtime and network: one that can be used with one of the others."""
        runtimes = [name for name, each in RUNTIMES.items() if not each.is_fake]
        networks = [name for name, each in NETWORKS.items() if not each.is_fake]
        found = [self._part("runtime", name, [(name, other) for other in networks]) for name in runtimes]
        usable = [part.name for part in found if part.reason is None] or runtimes
        found += [self._part("network", name, [(other, name) for other in usable]) for name in networks]
        if not versions:
            return found
        members: Mapping[str, object] = {**RUNTIMES, **NETWORKS}
        return [part if part.reason else replace(part, detail=_version(members[part.name])) for part in found]

    def pairs(self) -> Iterator[Capability]:
        """Yield every runtime in every network."""
        for (runtime, network), environment in self._environments.items():
            reason, never = self._reason(runtime, network)
            yield Capability(family="environment", name=environment.name, reason=reason, never=never)

    def _part(self, family: str, name: str, pairs: Sequence[tuple[str, str]]) -> Capability:
        """Return whether a part can be used in any of its pairs; if not, with the reason that is the part's own."""
        found: dict[str, bool] = {}
        for pair in pairs:
            reason, never = self._reason(*pair)
            if reason is None:
                return Capability(family=family, name=name)
            if reason in found and not never:
                break  # it is the part's own, whatever the other
            found[reason] = never
        reason = min(found, key=lambda each: found[each])
        return Capability(family=family, name=name, reason=reason, never=found[reason])

    def _ask(self, runtime: str, network: str) -> tuple[str | None, bool]:
        environment, (placement,) = self._environments[runtime, network], self._study.placements
        if self.unusable:
            return self.unusable, False
        try:
            if reason := refuse(self._study, environment, placement):
                return reason, True
            here = probe(environment, real=True) if self._outside else None
            return here or self._judge(environment, placement), False
        except TareError as error:
            return _sentence(error), False


def _sentence(error: TareError) -> str:
    return f"{error.message}: {error.remedy}" if error.remedy else error.message


def environments() -> Mapping[tuple[str, str], Environment]:
    """Return every environment that the plug-ins can form, with an MPI that is available here."""
    formed = {}
    mpi = next((name for name, mpi in MPIS.items() if not mpi.is_fake and mpi.probe() is None), "openmpi")
    for runtime, network in product(RUNTIMES.values(), NETWORKS.values()):
        if runtime.is_fake or network.is_fake:
            continue
        plain = not runtime.makes_containers and network.wiring is Wiring.NODE
        name = runtime.name if plain else f"{runtime.name}+{network.name}"
        image = DEFAULT if runtime.needs_image else ""
        stated = Environment(name=name, runtime=runtime.name, network=network.name, mpi=mpi, image=image)
        formed[runtime.name, network.name] = with_transport(stated)
    return formed


def _study(nodes: int) -> Study:
    values = {
        "placements": [{"nodes": nodes}],
        "environments": [BARE],
        "workloads": {"any": {"command": ["true"]}},
    }
    return study.build(values, file="tare doctor")


def _machine() -> str:
    cpus = in_words(read_topology(os.sched_getaffinity(0)))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    groups = hierarchies()
    version = f"cgroup v{groups[0].version}" if groups else "no writable cgroup (cores are limited by affinity only)"
    return f"{cpus}, {memory:.0f} GiB, Linux {os.uname().release}, {version}"


def _version(member: object) -> str:
    version = getattr(member, "version", None)
    return str(version()) if version is not None else ""


def _left() -> str:
    leftovers = clean.find(dead_only=True)
    return f"killed runs left {len(leftovers)} items behind: `tare clean` removes them" if leftovers else ""
