"""MPI implementations: each turns hosts and networks into the launcher's argv. One file a member, one entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from tare.launch import Host, Launch
from tare.launch.job_networks import MpiWiring
from tare.launch.ways import Way
from tare.model import Placement
from tare.mpi.fake import FakeMpi
from tare.mpi.intelmpi import IntelMpi
from tare.mpi.mpich import Mpich
from tare.mpi.mpich5 import Mpich5
from tare.mpi.openmpi import OpenMpi
from tare.mpi.openmpi5 import OpenMpi5

__all__ = ["MPIS", "Mpi", "MpiWiring"]


class Mpi(Protocol):
    """What every MPI offers. `launch` is pure."""

    @property
    def name(self) -> str: ...

    @property
    def inside(self) -> str:
        """Return the launcher's program as it is found in an image with this MPI."""

    @property
    def title(self) -> str:
        """Return what a sentence calls it."""

    @property
    def ways(self) -> Mapping[str, Way]:
        """Return its table of transports; empty for an MPI that moves nothing."""

    def probe(self) -> str | None:
        """Return why the MPI cannot be used here, or None."""

    def lacks(self, transport: str) -> str | None:
        """Return why the build of the MPI here has not what a transport of its table needs, or None."""

    def version(self) -> str:
        """Return the launcher's version line."""

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
        """Return the launch of a job; `programs` and `environments` belong to the hosts, in order."""

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        """Return the launcher's options for a job whose user looks on: where ranks work, whose output a line is."""

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        """Return the variables that the launcher alone needs."""


MPIS: Final[Mapping[str, Mpi]] = {
    "openmpi": OpenMpi(),
    "openmpi5": OpenMpi5(),
    "mpich": Mpich(),
    "mpich5": Mpich5(),
    "intelmpi": IntelMpi(),
    "fake": FakeMpi(),
}
