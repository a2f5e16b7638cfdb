"""`openmpi`: Open MPI 4.1. Every component by which cells could differ is named, so that none is selected silently.

What mpirun says when it fails is read by `tare.workloads.failure_reasons` and `tare.run.symptoms`, for all MPIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tare.model import Binding, Placement, RankOrder
from tare.mpi.launch import PADDING, Context, Launch
from tare.mpi.launch.job import Job, JobHost, group_contexts
from tare.mpi.launch.mpi import Mpi
from tare.mpi.launch.ways import (
    EAGER,
    TransportSetting,
    libfabric,
    parameters_of,
    ucx,
    variables_of,
    way_of,
    with_devices,
)
from tare.system.packages import install
from tare.system.process import find, run

PROGRAMS: Final = ("mpirun.openmpi", "mpirun")
NEWEST: Final = 4
"""The last major version with its own launcher; from 5 on the launcher is PRRTE's."""
TITLE: Final = "Open MPI 4.1"
COMPONENT: Final = re.compile(r"^mca:(\w+):(\w+):", re.MULTILINE)

SAME: Final = {"btl_vader_single_copy_mechanism": "none"}
"""Copy-in/copy-out, because some containers forbid CMA and others allow it: the default would differ between cells."""
WINDOWS: Final = {"osc": "^rdma,ucx"}
"""One-sided messages over TCP are made of two-sided ones: Open MPI 4.1 prefers its RDMA component, in which
MPI_Win_allocate then fails between hosts ("invalid window"). UCX's loads UCX into each rank. What is left out need
not be there: a list of what is wanted would end builds without one of its components."""
POLLS: Final = {"mpi_event_tick_rate": "1"}
"""How often, in microseconds, a rank looks at sockets if it counts no connection (adr/0028-connections-of-open-mpi.md).

Some ranks count none although they have one. By default they look every 10 ms, and every message takes as long.
"""
YIELDS: Final = {"mpi_yield_when_idle": "1"}
"""A rank that waits gives up its core: for placements in which ranks may share cores.

Open MPI does so by itself if a host has more ranks than slots. It does not know that several nodes share cores, and a
rank that waits for one on its own core would then poll until the scheduler ends its time slice.
"""
ASKS_BTL: Final = {"btl_base_verbose": "100", "bml_base_verbose": "100"}
COLLECTIVES: Final = "self,basic,libnbc,tuned,inter"
WITH_PML_UCX: Final = TransportSetting(
    parameters={"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
    alone={"UCX_TLS": "self,sysv"},
    crowded=EAGER,
    needs=("pml ucx",),
)
OVER_LIBFABRIC: Final = TransportSetting(
    parameters={"pml": "cm", "mtl": "ofi"},
    needs=("mtl ofi",),
    by_network=True,
    cannot={"shm": "mtl ofi needs a provider that reaches other hosts too: use transport: shm"},
)
WITHIN: Final = "shm,sm2,udp,rstream"
"""Providers of libfabric that Open MPI must not use: those of one host, or of datagrams that get lost."""

UCT_TRANSPORTS: Final = "{detail}_verbs,{detail}_mlx5"


def ways_of(
    memory: str, provider: str, same: Mapping[str, str], apart: Mapping[str, str], more: Mapping[str, TransportSetting]
) -> dict[str, TransportSetting]:
    """Return the ways of a version of Open MPI.

    `memory` is its component for messages between neighbours, `provider` how its parameters for libfabric begin. `same`
    are parameters of all ways of its own, `apart` those of TCP between hosts, `more` the ways that only it has.
    """
    by_tcp = {"pml": "ob1", "btl": f"self,{memory},tcp", "btl_tcp_if_include": "{subnet}", **same}
    by_uct = {"pml": "ob1", "btl": f"self,{memory},uct", "btl_uct_memory_domains": "{adapter}", **same}
    uct = TransportSetting(parameters=by_uct, needs=("btl uct",), asks_parameters=ASKS_BTL, tells="Open MPI")
    return {
        "tcp": TransportSetting(parameters=by_tcp, apart=apart),
        "shm": TransportSetting(parameters={**by_tcp, "btl": f"self,{memory}"}),
        "ipoib": TransportSetting(parameters=by_tcp, apart=apart),
        **ucx(WITH_PML_UCX, "self,sysv"),
        "uct": uct,
        "uct:": uct.plus(parameters={"btl_uct_transports": UCT_TRANSPORTS}),
        **more,
        **libfabric(
            one=OVER_LIBFABRIC.plus(parameters={f"{provider}_include": "{detail}"}),
            free=OVER_LIBFABRIC.plus(parameters={f"{provider}_exclude": WITHIN}),
        ),
    }


OPENIB: Final = TransportSetting(
    parameters={
        "pml": "ob1",
        "btl": "self,vader,openib",
        "btl_openib_allow_ib": "1",
        "btl_openib_if_include": "{port}",
        **SAME,
    },
    roce={"btl_openib_cpc_include": "rdmacm"},
    needs=("btl openib",),
    asks_parameters=ASKS_BTL,
    tells="Open MPI",
)
WAYS: Final[Mapping[str, TransportSetting]] = ways_of(
    "vader", "mtl_ofi_provider", {**SAME, **WINDOWS}, POLLS, {"openib": OPENIB}
)


SPAWNS: Final = {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
"""Lets programs start processes themselves (MPI_Comm_spawn), for which a job of as many slots as ranks has no room."""


class OpenMpi(Mpi):
    """Launch with `mpirun` and its `orted` daemons."""

    name = "openmpi"
    inside = "mpirun"
    title = TITLE
    ways = WAYS
    rank_orders = tuple(RankOrder)

    def probe(self) -> str | None:
        program = self._program()
        if program is None:
            return f"Open MPI is not installed: {install('openmpi-bin')}"
        version = self.version()
        if "Open MPI" not in version:
            return f"{program} is not Open MPI but {version!r}: {install('openmpi-bin')}"
        if (match := re.search(r"Open MPI (\d+)", version)) and int(match.group(1)) > NEWEST:
            return f"{program} is {version}, whose options differ: use mpi: openmpi5 or mpi: site"
        return None

    def lacks(self, transport: str) -> str | None:
        way = way_of(WAYS, transport, TITLE)
        program = find("ompi_info.openmpi") or find("ompi_info")
        if program is None or not way.needs:  # the query takes a quarter of a second
            return None
        return missing_part(way, components(program), self.version(), transport)

    def version(self) -> str:
        program = self._program()
        if program is None:
            return ""
        lines = run((program, "--version"), check=False, timeout_s=20).stdout.splitlines()
        match = re.search(r"\((?:Open MPI|OpenRTE)\)\s+(\S+)", lines[0]) if lines else None
        return f"Open MPI {match.group(1)}" if match else (lines[0] if lines else "")

    def launch(self, job: Job) -> Launch:
        program = job.wiring.launcher or self._program() or self.inside
        placed = (*binding(job.placement), *mapping(job.placement))
        launcher = (program, *self.reaches(job), *point_to_point(job, self.ways, self.title), *placed)
        members = with_variables(way_of(self.ways, job.wiring.transport, self.title), job)
        parts = tuple(replace(part, options=context_arguments(part)) for part in group_contexts(members))
        return Launch(head=job.head, launcher=launcher, hosts=job.hosts, contexts=parts)

    def reaches(self, job: Job) -> tuple[str, ...]:
        """Return the launcher's options by which it reaches the hosts of a job."""
        return by_orte(job)

    @property
    def pmis(self) -> tuple[str, ...]:
        return ("pmix",)

    def for_srun(self, job: Job) -> tuple[JobHost, ...]:
        return with_parameters(way_of(self.ways, job.wiring.transport, self.title), job)

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("--wdir", cwd, *(("--tag-output",) if by_rank else ()))

    def listen_on(self, port: int) -> Mapping[str, str]:
        return {"OMPI_MCA_oob_tcp_dynamic_ipv4_ports": str(port)}

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        # As an argument it would reach the daemons, which exit if they cannot find their launcher's agent.
        # The agent's folder is the run's own: leftovers of a killed mpirun are removed with it.
        return {"OMPI_MCA_plm_rsh_agent": agent_program, "TMPDIR": str(Path(agent_program).parent), **SPAWNS}

    def _program(self) -> str | None:
        return next((path for name in PROGRAMS if (path := find(name))), None)


def context_arguments(part: Context) -> tuple[str, ...]:
    """Return the arguments of `mpirun` for the hosts, ranks and variables of one part of a job."""
    return (
        "--host", ",".join(f"{host.name}:{host.ranks}" for host in part.hosts),
        *rank_arguments(part),
    )  # fmt: skip


def rank_arguments(part: Context) -> tuple[str, ...]:
    """Return the arguments of `mpirun` for the ranks and variables of one part of a job."""
    carried = [f"{name}={value}" for name, value in sorted(part.environment.items())]
    return ("-n", str(part.ranks), *(token for variable in (PADDING, *carried) for token in ("-x", variable)))


def point_to_point(job: Job, ways: Mapping[str, TransportSetting], title: str) -> tuple[str, ...]:
    """Return the options that pin the transport; naming the layer also saves 0.3 s at every start."""
    named = parameters_in(way_of(ways, job.wiring.transport, title), job)
    return tuple(token for name, value in named.items() for token in mca(name, value))


def parameters_in(way: TransportSetting, job: Job) -> dict[str, str]:
    """Return the parameters of an MPI in a job."""
    shared = YIELDS if job.placement.oversubscribe else {}
    return {**parameters_of(way, job), "coll": COLLECTIVES, **shared}


def with_parameters(way: TransportSetting, job: Job) -> tuple[JobHost, ...]:
    """Return a job's hosts with the variables of their transport, and those that set the MPI's parameters."""
    named = parameters_in(way, job)
    told = {f"OMPI_MCA_{name}": value for name, value in named.items()}
    return tuple(replace(each, environment={**told, **each.environment}) for each in with_variables(way, job))


def with_variables(way: TransportSetting, job: Job) -> tuple[JobHost, ...]:
    """Return a job's hosts with the variables of their transport."""
    same = variables_of(way, job)
    members = (replace(each, environment={**same, **each.environment}) for each in job.members)
    return with_devices(way, tuple(members))


@lru_cache
def components(program: str) -> frozenset[str]:
    """Return the components that an Open MPI was built with, as in `btl openib`.

    Empty if its program does not list them.
    """
    output = run((program, "--parsable"), check=False, timeout_s=20).stdout
    return frozenset(f"{framework} {name}" for framework, name in COMPONENT.findall(output))


def missing_part(way: TransportSetting, built: frozenset[str], version: str, transport: str) -> str | None:
    """Return a sentence on the component that a build lacks for a transport, or None."""
    lacking = [part for part in way.needs if part not in built] if built else []
    if not lacking:
        return None
    return f"{version} was built without {' and '.join(lacking)}, which transport: {transport} needs"


def binding(placement: Placement) -> tuple[str, ...]:
    """Return the options for binding.

    Ranks run where their node, container or wrapper put them: Open MPI's own binding would put the first rank of every
    node on core 0 of the machine.
    """
    return () if placement.binding is Binding.MPI_DEFAULT else ("--bind-to", "none")


def mapping(placement: Placement) -> tuple[str, ...]:
    """Return the option that fills one host after the other, or gives ranks to the hosts in turn."""
    return ("--map-by", "node" if placement.rank_order is RankOrder.CYCLIC else "slot")


def by_orte(job: Job) -> tuple[str, ...]:
    """Return the options by which `mpirun` reaches hosts, up to Open MPI 4."""
    return reached(mca, "rsh", "oob_tcp_if_include", job)


def reached(setting: Callable[[str, str], tuple[str, ...]], shell: str, subnet: str, job: Job) -> tuple[str, ...]:
    """Return a launcher's options, given how it is told a parameter, and the names of those that differ.

    Without the name `subnet` the launcher chooses its network.
    """
    return (
        "--allow-run-as-root",
        *setting(f"plm_{shell}_no_tree_spawn", "1"),
        *setting(f"plm_{shell}_pass_environ_mca_params", "0"),
        *setting("plm", shell),
        *setting("ras", "^slurm"),
        *(setting(subnet, job.wiring.control_subnet) if subnet else ()),
    )


def mca(name: str, value: str) -> tuple[str, str, str]:
    """Return the arguments that set an MCA parameter."""
    return ("--mca", name, value)
