"""`openmpi`: Open MPI 4.1. Every component that a cell could differ by is named, so that none is chosen silently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.launch import PADDING, Context, Host, Launch, contexts
from tare.model import Binding, Placement
from tare.mpi.wiring import MpiWiring
from tare.process import find, run

PROGRAMS: Final = ("mpirun.openmpi", "mpirun")
NEWEST: Final = 4
"""The last major version that has its own launcher; from 5 on it is PRRTE's."""
BTLS: Final = {"tcp": "self,vader,tcp", "shm": "self,vader"}


class OpenMpi:
    """Launch with `mpirun` and its `orted` daemons."""

    name = "openmpi"
    inside = "mpirun"

    def probe(self) -> str | None:
        program = self._program()
        if program is None:
            return "Open MPI is not installed: apt-get install openmpi-bin"
        version = self.version()
        if "Open MPI" not in version:
            return f"{program} is not Open MPI but {version!r}: apt-get install openmpi-bin"
        if (found := re.search(r"Open MPI (\d+)", version)) and int(found.group(1)) > NEWEST:
            return (
                f"{program} is {version}, whose options are others: use mpi: openmpi5, or apt-get install openmpi-bin"
            )
        return None

    def version(self) -> str:
        program = self._program()
        if program is None:
            return ""
        lines = run((program, "--version"), check=False, timeout_s=20).stdout.splitlines()
        found = re.search(r"\((?:Open MPI|OpenRTE)\)\s+(\S+)", lines[0]) if lines else None
        return f"Open MPI {found.group(1)}" if found else (lines[0] if lines else "")

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
        if wiring.transport not in BTLS:
            raise RefusedError(f"Open MPI has no transport {wiring.transport!r} here: {', '.join(BTLS)}")
        launcher = (
            wiring.launcher or self._program() or PROGRAMS[-1],
            "--allow-run-as-root",
            *_mca("plm_rsh_no_tree_spawn", "1"),
            *_mca("plm_rsh_pass_environ_mca_params", "0"),
            *_mca("plm", "rsh"),
            *_mca("ras", "^slurm"),
            *_mca("oob_tcp_if_include", wiring.control_subnet),
            *point_to_point(wiring),
            *binding(placement),
            "--map-by", "slot",
        )  # fmt: skip
        parts = tuple(replace(part, options=told(part)) for part in contexts(hosts, programs, environments))
        return Launch(head=head, launcher=launcher, hosts=hosts, contexts=parts)

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("--wdir", cwd, *(("--tag-output",) if by_rank else ()))

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        # As an argument it would reach the daemons, which stop when they cannot find their launcher's agent.
        # Beside the agent is the run's own folder: what a killed mpirun leaves goes with it.
        return {"OMPI_MCA_plm_rsh_agent": agent_program, "TMPDIR": str(Path(agent_program).parent)}

    def _program(self) -> str | None:
        return next((path for name in PROGRAMS if (path := find(name))), None)


def told(part: Context) -> tuple[str, ...]:
    """Return how `mpirun` is told the hosts, ranks and variables of one part of a job."""
    carried = [f"{name}={value}" for name, value in sorted(part.environment.items())]
    return (
        "--host", ",".join(f"{host.name}:{host.ranks}" for host in part.hosts),
        "-n", str(part.ranks),
        *(token for variable in (PADDING, *carried) for token in ("-x", variable)),
    )  # fmt: skip


def point_to_point(wiring: MpiWiring) -> tuple[str, ...]:
    """Return the options that pin the transport.

    Naming the layer also takes 0.3 s off every start. Copy-in/copy-out is named because CMA is forbidden in some
    containers and allowed in others: left to itself it would differ between cells.
    """
    return (
        *_mca("pml", "ob1"),
        *_mca("btl", BTLS[wiring.transport]),
        *_mca("btl_tcp_if_include", wiring.data_subnet),
        *_mca("btl_vader_single_copy_mechanism", "none"),
        *_mca("coll", "self,basic,libnbc,tuned,inter"),
    )


def binding(placement: Placement) -> tuple[str, ...]:
    """Return the options for binding.

    Ranks run where their node, container or wrapper put them: Open MPI itself would bind the first rank of every node
    to core 0 of the machine.
    """
    return () if placement.binding is Binding.MPI_DEFAULT else ("--bind-to", "none")


def _mca(name: str, value: str) -> tuple[str, str, str]:
    return ("--mca", name, value)
