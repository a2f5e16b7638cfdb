"""`mpich`: MPICH 4.0 over UCX, as in Debian 12. Transports and devices are named: none is selected silently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.images.mpi_programs import MPICH, find_launcher
from tare.model import Binding, Placement, RankOrder
from tare.mpi.launch import PADDING, Context, Host, Launch
from tare.mpi.launch.job import Job, JobHost, group_contexts
from tare.mpi.launch.mpi import Mpi
from tare.mpi.launch.ways import (
    EAGER,
    UCX_DEVICES,
    TransportSetting,
    libfabric,
    ucx,
    variables_of,
    way_of,
    with_devices,
)
from tare.system.packages import install
from tare.system.process import find, run

PROGRAMS: Final = ("mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra")
UNNAMED: Final = ("mpiexec", "mpirun")
"""Names that every MPI uses: these are taken only if they say that they are MPICH's."""
TITLE: Final = "MPICH"
LAYER: Final = re.compile(r"ch4:(\w+)")

SHARED: Final = {"UCX_TLS": "self,sysv"}
"""CMA is excluded because some containers forbid it and others allow it. TCP is named only if there are several hosts:
otherwise UCX would use it for long messages between neighbours, through `lo`."""
OVER_UCX: Final = TransportSetting(alone=SHARED, crowded=EAGER, devices={UCX_DEVICES: "{interface}"}, needs=("ucx",))
BY_TCP: Final = replace(OVER_UCX, variables={"UCX_TLS": "self,sysv,tcp"})
OVER_LIBFABRIC: Final = TransportSetting(needs=("ofi",))
WAYS: Final[Mapping[str, TransportSetting]] = {
    "tcp": BY_TCP,
    "shm": replace(OVER_UCX, variables=SHARED, crowded={}),
    "ipoib": BY_TCP,
    **ucx(OVER_UCX, "self,sysv"),
    **libfabric(one=OVER_LIBFABRIC.plus(variables={"FI_PROVIDER": "{detail}"}), free=OVER_LIBFABRIC),
}


class Mpich(Mpi):
    """Launch with Hydra: `mpiexec` and the proxy that it starts on each host."""

    name = "mpich"
    inside = "mpirun"
    title = TITLE
    ways = WAYS
    rank_orders = tuple(RankOrder)

    def probe(self) -> str | None:
        program = self._program()
        if program is None:
            return f"MPICH is not installed: {install('mpich')}"
        version = self.version()
        if not version.startswith("MPICH "):
            return f"{program} is not MPICH but {version!r}: {install('mpich')}"
        if "ucx" not in _build(program):
            return f"{program} belongs to an MPICH without UCX: {install('mpich')}"
        return None

    def lacks(self, transport: str) -> str | None:
        way = way_of(WAYS, transport, TITLE)
        program = self._program()
        built = LAYER.findall(_build(program)) if program else []
        if not built or built[0] in way.needs:
            return None
        return (
            f"{self.version()} here is built for {built[0]}, and transport: {transport} is {way.needs[0]}'s: use mpich5"
        )

    def version(self) -> str:
        program = self._program()
        if program is None:
            return ""
        build = _build(program)
        match = re.search(r"^\s*Version:\s+(\S+)", build, re.MULTILINE)
        lines = build.splitlines()
        return f"MPICH {match.group(1)}" if match else (lines[0] if lines else "")

    def launch(self, job: Job) -> Launch:
        program = job.wiring.launcher or self._program() or PROGRAMS[0]
        return hydra(program, job, way_of(self.ways, job.wiring.transport, self.title))

    @property
    def pmis(self) -> tuple[str, ...]:
        return ("pmi2",)

    def for_srun(self, job: Job) -> tuple[JobHost, ...]:
        return for_srun(way_of(self.ways, job.wiring.transport, self.title), job)

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("-wdir", cwd, *(("-prepend-rank",) if by_rank else ()))

    def listen_on(self, port: int) -> Mapping[str, str]:
        return {"MPIEXEC_PORT_RANGE": f"{port}:{port}"}

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        # The agent's folder is the run's own: leftovers of a killed mpiexec are removed with it.
        return {"HYDRA_LAUNCHER_EXEC": agent_program, "TMPDIR": str(Path(agent_program).parent)}

    def _program(self) -> str | None:
        named = next((path for name in PROGRAMS if (path := find(name))), None)
        return named or find_launcher(UNNAMED, MPICH)


def for_srun(way: TransportSetting, job: Job) -> tuple[JobHost, ...]:
    """Return a job's hosts with the variables of their transport."""
    pinned = variables_of(way, job)
    return tuple(replace(each, environment={**pinned, **each.environment}) for each in with_devices(way, job.members))


def hydra(program: str, job: Job, way: TransportSetting) -> Launch:
    """Return a launch by MPICH's launcher, Hydra; `way` has the settings that leave the MPI no choice.

    Hydra begins again at the first host when all have as many ranks as their number says.
    """
    pinned, in_turn = variables_of(way, job), job.placement.rank_order is RankOrder.CYCLIC
    parts = group_contexts(with_devices(way, job.members))
    launcher = (
        program,
        "-launcher", "rsh",
        "-rmk", "user",
        "-iface", job.wiring.control_interface,
        "-disable-hostname-propagation",
        *_pmi(job.hosts),
        *_binding(job.placement),
        "-hosts", ",".join(f"{host.name}:{1 if in_turn else host.ranks}" for host in job.hosts),
        "-genvlist", PADDING,
        *(token for name, value in pinned.items() for token in ("-genv", name, value)),
    )  # fmt: skip
    with_options = tuple(replace(part, options=_options(part)) for part in parts)
    return Launch(head=job.head, launcher=launcher, hosts=job.hosts, contexts=with_options)


def _build(program: str) -> str:
    """Return Hydra's report on how it and its MPI were built."""
    return run((program, "-info"), check=False, timeout_s=20).stdout


def _options(part: Context) -> tuple[str, ...]:
    carried = (("-env", name, value) for name, value in sorted(part.environment.items()))
    return (*(token for variable in carried for token in variable), "-n", str(part.ranks))


def _pmi(hosts: tuple[Host, ...]) -> tuple[str, ...]:
    # A rank talks to its proxy over an inherited file descriptor, which entering by docker exec closes. There the rank
    # gets a port of the proxy.
    return ("-pmi-port",) if any(entry.carry for host in hosts for entry in host.enter) else ()


def _binding(placement: Placement) -> tuple[str, ...]:
    return () if placement.binding is Binding.MPI_DEFAULT else ("-bind-to", "none")
