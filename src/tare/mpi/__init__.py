"""MPI implementations: each turns hosts and networks into the launcher's argv. One file per member, one entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.mpi.fake import FakeMpi
from tare.mpi.intelmpi import IntelMpi
from tare.mpi.launch.job import MpiWiring
from tare.mpi.launch.mpi import Mpi
from tare.mpi.mpich import Mpich
from tare.mpi.mpich5 import Mpich5
from tare.mpi.openmpi import OpenMpi
from tare.mpi.openmpi5 import OpenMpi5
from tare.mpi.site import SiteMpi

__all__ = ["MPIS", "SITE", "USUAL", "Mpi", "MpiWiring"]


MPIS: Final[Mapping[str, Mpi]] = {
    "openmpi": OpenMpi(),
    "openmpi5": OpenMpi5(),
    "mpich": Mpich(),
    "mpich5": Mpich5(),
    "intelmpi": IntelMpi(),
    "site": SiteMpi(),
    "fake": FakeMpi(),
}
USUAL: Final = OpenMpi.name
"""What a command uses that names none."""
SITE: Final = SiteMpi.name
"""What a machine has on PATH."""
