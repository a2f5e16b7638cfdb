"""`mpich5`: MPICH 5.0 of the Python package index (tools/mpis), over UCX; within a host by its own means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tare import wheels
from tare.launch import Host, Launch, contexts
from tare.model import Placement
from tare.mpi.mpich import hydra, with_devices
from tare.mpi.wiring import MpiWiring

PINNED: Final = {"MPIR_CVAR_CH4_NETMOD": "ucx", "MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0"}
"""It is built for UCX and libfabric. Neighbours use its own shared memory, without single copy: that is
forbidden in some containers and allowed in others."""


class Mpich5:
    """Launch with Hydra: `mpiexec` and the proxy that it starts on each host."""

    name = "mpich5"
    inside = str(wheels.program("mpich5", "mpiexec"))

    def probe(self) -> str | None:
        return wheels.missing(self.name)

    def version(self) -> str:
        found = wheels.version(self.name)
        return f"MPICH {found}" if found else ""

    def launch(
        self,
        *,
        head: tuple[str, ...],
        hosts: tuple[Host, ...],
        placement: Placement,
        wiring: MpiWiring,
        programs: tuple[tuple[str, ...], ...],
        environments: tuple[Mapping[str, str], ...],
    ) -> Launch:
        return hydra(
            program=wiring.launcher or self.inside,
            head=head,
            hosts=hosts,
            placement=placement,
            wiring=wiring,
            pinned=transports(wiring, hosts),
            parts=contexts(hosts, programs, with_devices(environments, wiring.interfaces)),
        )

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("-wdir", cwd, *(("-prepend-rank",) if by_rank else ()))

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        return {"HYDRA_LAUNCHER_EXEC": agent_program, "TMPDIR": str(Path(agent_program).parent)}


def transports(wiring: MpiWiring, hosts: tuple[Host, ...]) -> Mapping[str, str]:
    """Return the variables that pin the transports; UCX carries what goes between hosts, and nothing else.

    Where hosts have several ranks all its messages are eager, as with MPICH 4: with rendezvous, ranks that share cores
    stood still for seconds (seen).
    """
    if wiring.transport == "shm" or len(hosts) == 1:
        return {**PINNED, "UCX_TLS": "self,sysv"}
    eager = {"UCX_RNDV_THRESH": "inf"} if any(host.ranks > 1 for host in hosts) else {}
    return {**PINNED, "UCX_TLS": "self,tcp", **eager}
