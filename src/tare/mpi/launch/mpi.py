"""Define the base class of every MPI plug-in in `tare.mpi`, with defaults that suit most of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tare.model import RankOrder
from tare.mpi.launch import Launch
from tare.mpi.launch.job import Job, JobHost
from tare.mpi.launch.ways import TransportSetting


class Mpi(ABC):
    """An MPI: a plug-in sets the names below and turns hosts and networks into the launcher's argv in `launch`.

    `inside` is the launcher program in an image with this MPI, `title` its name in sentences, `rank_orders` how its
    launcher can give ranks to hosts.
    """

    name: str
    inside: str
    title: str
    rank_orders: tuple[RankOrder, ...] = (RankOrder.BLOCK,)

    @property
    def family(self) -> str:
        """Return the MPI whose daemons and libraries are found by the same names: `openmpi` or `mpich`, as a rule."""
        return self.name

    ways: Mapping[str, TransportSetting] = MappingProxyType({})
    """Its table of transports; empty for an MPI that sends no messages."""

    @property
    def alike(self) -> str:
        """Return the name of the MPI whose images suit its launcher: its own, as a rule."""
        return self.name

    pins: bool = True
    """Whether it is told its components, transport and binding; if not, it is measured as it is set up."""
    is_fake: bool = False
    """Whether no MPI is started; a fake can be combined with other fakes only, in tests."""

    def probe(self) -> str | None:
        """Return why the MPI cannot be used here, or None."""
        return None

    def probe_launcher(self) -> str | None:
        """Return why jobs of the MPI can be started by a batch system only, or None."""
        return None

    def only_here(self) -> str | None:
        """Return why its launcher starts ranks on its own machine and in its own network only, or None."""
        return None

    def lacks(self, transport: str) -> str | None:
        """Return why this machine's build of the MPI does not support a transport of its table, or None."""
        return None

    @abstractmethod
    def version(self) -> str:
        """Return the launcher's version line."""

    def compiler(self) -> Path | None:
        """Return the compiler wrapper for its programs, None for the one that `tare.images.kernels` knows."""
        return None

    def host_launcher(self) -> Path | None:
        """Return its launcher on this machine, None for the one that `tare.images.host_mpi` knows."""
        return None

    @abstractmethod
    def launch(self, job: Job) -> Launch:
        """Return the launch of a job. Pure."""

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        """Return the launcher's options for an interactive job: the working folder, and the prefix of output lines."""
        return ()

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        """Return the variables that only the launcher needs."""
        return {}

    @property
    def pmis(self) -> tuple[str, ...]:
        """Return the kinds of PMI by which srun can start its ranks, the preferred first; empty if there is none."""
        return ()

    def for_srun(self, job: Job) -> tuple[JobHost, ...]:
        """Return a job's hosts with the variables by which ranks that srun starts use the job's networks. Pure."""
        return job.members

    def listen_on(self, port: int) -> Mapping[str, str]:
        """Return the variables by which the launcher listens on a TCP port of 127.0.0.1."""
        return {}
