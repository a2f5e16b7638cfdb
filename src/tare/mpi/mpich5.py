"""`mpich5`: MPICH 5.0 of the Python package index (tools/mpis), over UCX or libfabric.

Its own shared memory in a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.host import wheels
from tare.launch import Launch
from tare.launch.job import Job, JobHost
from tare.launch.mpi import Mpi
from tare.launch.ways import EAGER, OWN_WITHIN, UCX_DEVICES, Way, libfabric, ucx, way_of
from tare.model import RankOrder
from tare.mpi.mpich import for_srun, hydra

TITLE: Final = "MPICH 5"
SAME: Final = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0"}
"""Neighbours use its own shared memory without single copy, which some containers forbid and others allow."""
SHARED: Final = {"UCX_TLS": "self,sysv"}
OVER_UCX: Final = Way(
    variables={"MPIR_CVAR_CH4_NETMOD": "ucx", **SAME},
    alone=SHARED,
    crowded=EAGER,
    devices={UCX_DEVICES: "{interface}"},
)
"""UCX carries the traffic between hosts, and nothing else. If hosts have several ranks, all its messages are eager, as
with MPICH 4: with rendezvous, ranks that share cores stalled for seconds (observed)."""
BY_TCP: Final = replace(OVER_UCX, variables={**OVER_UCX.variables, "UCX_TLS": "self,tcp"})
OVER_LIBFABRIC: Final = Way(variables={"MPIR_CVAR_CH4_NETMOD": "ofi", **SAME}, cannot=OWN_WITHIN)
WAYS: Final[Mapping[str, Way]] = {
    "tcp": BY_TCP,
    "shm": replace(OVER_UCX, variables={**OVER_UCX.variables, **SHARED}, crowded={}),
    "ipoib": BY_TCP,
    **ucx(OVER_UCX, "self"),
    **libfabric(one=OVER_LIBFABRIC.plus(variables={"FI_PROVIDER": "{detail}"}), free=OVER_LIBFABRIC),
}


class Mpich5(Mpi):
    """Launch with Hydra: `mpiexec` and the proxy that it starts on each host."""

    name = "mpich5"
    family = "mpich"
    inside = str(wheels.program("mpich5", "mpiexec"))
    title = TITLE
    ways = WAYS
    rank_orders = tuple(RankOrder)

    def probe(self) -> str | None:
        return wheels.probe(self.name)

    def lacks(self, transport: str) -> str | None:
        way_of(WAYS, transport, TITLE)
        return None  # the wheel has both of its layers

    def version(self) -> str:
        number = wheels.version(self.name)
        return f"MPICH {number}" if number else ""

    def launch(self, job: Job) -> Launch:
        return hydra(job.wiring.launcher or self.inside, job, way_of(WAYS, job.wiring.transport, TITLE))

    @property
    def pmis(self) -> tuple[str, ...]:
        return ("pmi2",)

    def for_srun(self, job: Job) -> tuple[JobHost, ...]:
        return for_srun(way_of(WAYS, job.wiring.transport, TITLE), job)

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("-wdir", cwd, *(("-prepend-rank",) if by_rank else ()))

    def listen_on(self, port: int) -> Mapping[str, str]:
        return {"MPIEXEC_PORT_RANGE": f"{port}:{port}"}

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        return {"HYDRA_LAUNCHER_EXEC": agent_program, "TMPDIR": str(Path(agent_program).parent)}
