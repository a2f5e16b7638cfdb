"""Tell the study file which names there are: those of the registries of plug-ins."""

from __future__ import annotations

from tare.cluster import CLUSTERS
from tare.images import DEFAULT, MPI_OF, RECIPES
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.study import Known
from tare.workloads.programs import PROGRAMS


def registered() -> Known:
    """Return the names that a study can use here; `fake` ones, which the tests need, are among them.

    The kernels stay as `Known` has them: their registry is in C, and nothing is compiled to read a study.
    """
    return Known(
        runtimes=tuple(RUNTIMES),
        networks=tuple(NETWORKS),
        mpis=tuple(MPIS),
        clusters=tuple(CLUSTERS),
        programs=tuple(PROGRAMS),
        daemons=tuple(name for name, runtime in RUNTIMES.items() if runtime.needs_daemon),
        imageless=tuple(name for name, runtime in RUNTIMES.items() if not runtime.needs_image),
        images=tuple(RECIPES),
        mpi_of=MPI_OF,
        default_image=DEFAULT,
    )
