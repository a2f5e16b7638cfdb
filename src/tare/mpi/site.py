"""`site`: the MPI of the user's environment, as the site and the user have set it up (docs/adr/0023-site-mpi.md).

It is launched with what is needed to reach the hosts. No component, transport or binding is named; what the library
chose is asked and recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tare.errors import MissingTool, RefusedError
from tare.images import mpi_programs
from tare.model import Binding
from tare.mpi.intelmpi import hydra_of_intel
from tare.mpi.launch import Context, Launch
from tare.mpi.launch.job import Job, JobHost, group_contexts
from tare.mpi.launch.kept_variables import dropped_names, kept_names
from tare.mpi.launch.mpi import Mpi
from tare.mpi.launch.srun import entered_here, started_by_srun
from tare.mpi.launch.ways import TransportSetting, parameters_of, variables_of
from tare.mpi.mpich import Mpich, hydra
from tare.mpi.openmpi import OpenMpi, by_orte, context_arguments, mca, rank_arguments
from tare.mpi.openmpi5 import OF_SYSTEM, OpenMpi5, by_prrte, no_hosts
from tare.mpi.path_mpi import LauncherKind, recognise
from tare.system.packages import install
from tare.system.process import find

TITLE: Final = "the MPI of the site"
NO_MPI: Final = "no mpirun or mpiexec is on PATH: load the module of an MPI, or {remedy}"
UNKNOWN: Final = "{program} is of no MPI that tare knows: load the module of another MPI, or name one with `mpi`"
NO_LAUNCHER: Final = "{title} has no launcher of its own, the batch system starts its ranks: use launch: srun"
NO_COMPILER: Final = "mpicc, with which programs for the MPI of the site are compiled, is not on PATH"

FREE: Final = TransportSetting(
    asks={
        "FI_LOG_LEVEL": "info", "I_MPI_DEBUG": "5", "MPICH_OFI_VERBOSE": "1", "MPIR_CVAR_DEBUG_SUMMARY": "1",
        "UCX_LOG_LEVEL": "info",
    },
    asks_parameters=dict.fromkeys(
        ("bml_base_verbose", "btl_base_verbose", "mtl_base_verbose", "pml_base_verbose"), "100"
    ),
    tells="chosen by the MPI",
)  # fmt: skip
"""Nothing is set but what makes the libraries report, in a launch of its own."""

COMPONENTS: Final = "OMPI_MCA_mca_base_component_path"
"""Debian's PRRTE gives ranks the folder of its own components, which an Open MPI 4 in an image takes for its own."""
UNDER_PMIX: Final = "JSM_JSRUN_PORT"
"""The variable of a launcher (jsrun) by which Open MPI 4 knows that a PMIx started it; PRRTE's it does not know."""

WAYS: Final[Mapping[str, TransportSetting]] = {"auto": FREE}


class SiteMpi(Mpi):
    """Launch with the `mpirun` or `mpiexec` that is on PATH."""

    name = "site"
    inside = "mpirun"
    title = TITLE
    ways = WAYS
    pins = False

    @property
    def family(self) -> str:
        found = recognise(os.environ)
        return "openmpi" if found and found.kind in (LauncherKind.OPEN_MPI_4, LauncherKind.OPEN_MPI_5) else "mpich"

    @property
    def alike(self) -> str:
        found = recognise(os.environ)
        if found is None or found.kind is LauncherKind.OPEN_MPI_4:
            return "openmpi"
        if found.kind is LauncherKind.OPEN_MPI_5:
            return "openmpi" if self.only_here() else "openmpi5"  # without daemons, ranks of version 4 suit it too
        newest_of_debian = 4
        return "mpich" if found.major <= newest_of_debian else "mpich5"

    def probe(self) -> str | None:
        found = recognise(os.environ)
        if found is None:
            program = next((path for name in ("mpirun", "mpiexec") if (path := find(name))), None)
            return UNKNOWN.format(program=program) if program else NO_MPI.format(remedy=install("openmpi-bin"))
        return None if found.kind is LauncherKind.NONE else mpi_programs.on_path()

    def probe_launcher(self) -> str | None:
        found = recognise(os.environ)
        return NO_LAUNCHER.format(title=found.title) if found and found.kind is LauncherKind.NONE else None

    def only_here(self) -> str | None:
        found = recognise(os.environ)
        is_packaged = found and found.kind is LauncherKind.OPEN_MPI_5 and found.launcher.startswith(OF_SYSTEM)
        return no_hosts(found.launcher) if found and is_packaged else None

    def version(self) -> str:
        found = recognise(os.environ)
        return found.title if found else ""

    def compiler(self) -> Path | None:
        path = find("mpicc")
        if path is None:
            raise MissingTool(NO_COMPILER, remedy="load the module of the MPI with its compiler wrappers")
        return Path(path)

    def host_launcher(self) -> Path | None:
        found = recognise(os.environ)
        return Path(found.launcher) if found and found.launcher else None

    def launch(self, job: Job) -> Launch:
        found = recognise(os.environ)
        if found is None or found.kind is LauncherKind.NONE:
            raise RefusedError(self.probe() or self.probe_launcher() or NO_LAUNCHER.format(title=TITLE))
        program = job.wiring.launcher or found.launcher
        reason = self.only_here() if program == found.launcher else None
        way = partial(_open_mpi_here, reason) if reason else STARTS[found.kind]
        own = tuple(replace(each, host=entered_here(each.host)) for each in job.members) if reason else job.members
        members = tuple(with_user_environment(member, os.environ) for member in own)
        placement = replace(job.placement, binding=Binding.MPI_DEFAULT)
        launch = way(program, replace(job, members=members, placement=placement))
        by_rank = LABELS_RANKS[found.kind] if job.wiring.asks else ()
        return replace(launch, launcher=(launch.launcher[0], *by_rank, *launch.launcher[1:]))

    @property
    def pmis(self) -> tuple[str, ...]:
        found = recognise(os.environ)
        return PMIS[found.kind] if found else ()

    def for_srun(self, job: Job) -> tuple[JobHost, ...]:
        parameters = {f"OMPI_MCA_{name}": value for name, value in parameters_of(FREE, job).items()}
        asked = {**parameters, **variables_of(FREE, job)}
        members = (with_user_environment(member, os.environ) for member in job.members)
        return tuple(replace(member, environment={**asked, **member.environment}) for member in members)

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return self._alike.foreground(cwd, by_rank=by_rank)

    def listen_on(self, port: int) -> Mapping[str, str]:
        return self._alike.listen_on(port)

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        own = {name: os.environ[name] for name in ("LD_PRELOAD",) if name in os.environ}  # of the site's MPI
        if (found := recognise(os.environ)) and found.kind is LauncherKind.INTEL:
            folder = str(Path(agent_program).parent)
            return {**own, "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent_program, "TMPDIR": folder}
        return {**own, **self._alike.head_environment(agent_program)}

    @property
    def _alike(self) -> Mpi:
        """Return the MPI whose launcher has the same options."""
        found = recognise(os.environ)
        return ALIKE[found.kind if found else LauncherKind.HYDRA]


def with_user_environment(member: JobHost, environment: Mapping[str, str]) -> JobHost:
    """Return a host whose daemon and ranks get the user's variables: in a container settings, outside paths too."""
    host = member.host
    inside = kept_names(environment, inside=True)
    outside = kept_names(environment, inside=False)
    enters = any(not entry.is_empty for entry in host.enter)
    own = dropped_names(environment) if member.inside else ()
    drops = tuple(name for name in own if name not in member.environment)
    enter = tuple(replace(entry, keeps=inside, drops=drops) for entry in host.enter)
    agent = host.agent
    if agent is not None and member.inside and not enters:
        # docker exec, for one, passes only what is before the command
        agent = replace(agent, keeps=inside, carry=agent.carry or bool(inside))
    elif agent is not None:
        agent = replace(agent, keeps=outside)
    return replace(member, host=replace(host, agent=agent, enter=enter))


def _open_mpi(reaches: Callable[[Job], tuple[str, ...]], program: str, job: Job) -> Launch:
    """Return a launch by Open MPI, with nothing but what reaches the hosts."""
    asked = variables_of(FREE, job)
    members = tuple(replace(member, environment={**asked, **member.environment}) for member in job.members)
    parts = tuple(replace(part, options=context_arguments(part)) for part in group_contexts(members))
    launcher = (program, *reaches(job), *_asking(job))
    return Launch(head=job.head, launcher=launcher, hosts=job.hosts, contexts=parts)


def _open_mpi_here(reason: str, program: str, job: Job) -> Launch:
    """Return a launch by an Open MPI that can be given no host, because of `reason`: its ranks enter by themselves."""
    if len(job.members) > 1:
        raise RefusedError(reason)
    (member,) = job.members
    told = {**variables_of(FREE, job), **member.environment}
    host = started_by_srun(member.host, {**told, UNDER_PMIX: "1"} if member.inside else told)
    if member.inside:
        enter = (replace(own, drops=(*own.drops, COMPONENTS), keeps=(*own.keeps, UNDER_PMIX)) for own in host.enter)
        host = replace(host, enter=tuple(enter))
    context = Context(hosts=(host,), program=member.program, environment={"TARE_HOST": host.name})
    part = replace(context, options=("--map-by", ":OVERSUBSCRIBE", *rank_arguments(context)))
    launcher = (program, *by_prrte(job), *_asking(job))
    return Launch(head=job.head, launcher=launcher, hosts=(host,), contexts=(part,))


def _asking(job: Job) -> tuple[str, ...]:
    """Return the parameters that make Open MPI report its components, if the job asks."""
    named = FREE.asks_parameters if job.wiring.asks else {}
    return tuple(token for name, value in named.items() for token in mca(name, value))


STARTS: Final[Mapping[LauncherKind, Callable[[str, Job], Launch]]] = {
    LauncherKind.OPEN_MPI_4: partial(_open_mpi, by_orte),
    LauncherKind.OPEN_MPI_5: partial(_open_mpi, by_prrte),
    LauncherKind.HYDRA: lambda program, job: hydra(program, job, FREE),
    LauncherKind.INTEL: lambda program, job: hydra_of_intel(program, job, FREE),
}
PMIS: Final[Mapping[LauncherKind, tuple[str, ...]]] = {
    LauncherKind.OPEN_MPI_4: ("pmix",),
    LauncherKind.OPEN_MPI_5: ("pmix",),
    LauncherKind.HYDRA: ("pmi2",),
    LauncherKind.INTEL: ("pmi2",),
    LauncherKind.NONE: ("cray_shasta",),
}
LABELS_RANKS: Final = {
    LauncherKind.OPEN_MPI_4: ("--tag-output",),
    LauncherKind.OPEN_MPI_5: ("--output", "tag"),
    LauncherKind.HYDRA: ("-prepend-rank",),
    LauncherKind.INTEL: ("-prepend-rank",),
}
"""The options that put each line's rank before it."""

ALIKE: Final[Mapping[LauncherKind, Mpi]] = {
    LauncherKind.OPEN_MPI_4: OpenMpi(),
    LauncherKind.OPEN_MPI_5: OpenMpi5(),
    LauncherKind.HYDRA: Mpich(),
    LauncherKind.INTEL: Mpich(),
    LauncherKind.NONE: Mpich(),
}
