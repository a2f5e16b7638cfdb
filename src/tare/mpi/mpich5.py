"""`mpich5`: MPICH 5.0 of the Python package index (tools/mpis), over UCX or libfabric.

Its own shared memory in a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tare.images import mpi_wheels
from tare.mpi.launch.ways import EAGER, OWN_WITHIN, UCX_DEVICES, TransportSetting, libfabric, ucx, way_of
from tare.mpi.mpich import Mpich

TITLE: Final = "MPICH 5"
SAME: Final = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_XPMEM_ENABLE": "0"}
"""Neighbours use its own shared memory without single copy, which some containers forbid and others allow."""
SHARED: Final = {"UCX_TLS": "self,sysv"}
OVER_UCX: Final = TransportSetting(
    variables={"MPIR_CVAR_CH4_NETMOD": "ucx", **SAME},
    alone=SHARED,
    crowded=EAGER,
    devices={UCX_DEVICES: "{interface}"},
)
"""UCX carries the traffic between hosts, and nothing else. If hosts have several ranks, all its messages are eager, as
with MPICH 4: with rendezvous, ranks that share cores stalled for seconds (observed)."""
BY_TCP: Final = replace(OVER_UCX, variables={**OVER_UCX.variables, "UCX_TLS": "self,tcp"})
OVER_LIBFABRIC: Final = TransportSetting(variables={"MPIR_CVAR_CH4_NETMOD": "ofi", **SAME}, cannot=OWN_WITHIN)
WAYS: Final[Mapping[str, TransportSetting]] = {
    "tcp": BY_TCP,
    "shm": replace(OVER_UCX, variables={**OVER_UCX.variables, **SHARED}, crowded={}),
    "ipoib": BY_TCP,
    **ucx(OVER_UCX, "self"),
    **libfabric(one=OVER_LIBFABRIC.plus(variables={"FI_PROVIDER": "{detail}"}), free=OVER_LIBFABRIC),
}


class Mpich5(Mpich):
    """Launch with Hydra: `mpiexec` and the proxy that it starts on each host."""

    name = "mpich5"
    family = "mpich"
    inside = str(mpi_wheels.program("mpich5", "mpiexec"))
    title = TITLE
    ways = WAYS

    def probe(self) -> str | None:
        return mpi_wheels.probe(self.name)

    def lacks(self, transport: str) -> str | None:
        way_of(WAYS, transport, TITLE)
        return None  # the wheel has both of its layers

    def version(self) -> str:
        number = mpi_wheels.version(self.name)
        return f"MPICH {number}" if number else ""

    def _program(self) -> str:
        return self.inside
