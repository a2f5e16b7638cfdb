"""What an MPI is: the base class of every member of `tare.mpi`, with what most of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from tare.launch import Host, Launch
from tare.launch.job_networks import MpiWiring
from tare.launch.ways import Way
from tare.model import Placement

__all__ = ["Mpi"]


class Mpi(ABC):
    """An MPI: a member sets the names below and turns hosts and networks into the launcher's argv in `launch`.

    `inside` is the launcher's program as it is found in an image with this MPI, `title` what a sentence calls it.
    """

    name: str
    inside: str
    title: str

    @property
    def family(self) -> str:
        """Return the MPI whose daemons and libraries are found by the same names: `openmpi` or `mpich`, as a rule."""
        return self.name

    @property
    def ways(self) -> Mapping[str, Way]:
        """Return its table of transports; empty for an MPI that moves nothing."""
        return {}

    @property
    def is_fake(self) -> bool:
        """Return whether no MPI is started: a fake goes with other fakes only, in tests."""
        return False

    def probe(self) -> str | None:
        """Return why the MPI cannot be used here, or None."""
        return None

    def lacks(self, transport: str) -> str | None:
        """Return why the build of the MPI here does not support a transport of its table, or None."""
        return None

    @abstractmethod
    def version(self) -> str:
        """Return the launcher's version line."""

    @abstractmethod
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
        """Return the launch of a job; `programs` and `environments` belong to the hosts, in order. Pure."""

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        """Return the launcher's options for a job whose user looks on: where ranks work, whose output a line is."""
        return ()

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        """Return the variables that the launcher alone needs."""
        return {}
