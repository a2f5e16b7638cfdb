"""`openmpi5`: Open MPI 5.0 of the Python package index (tools/mpis), launched by PRRTE, whose options are its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare import wheels
from tare.errors import RefusedError
from tare.launch import Host, Launch, contexts
from tare.model import Placement
from tare.mpi.openmpi import binding, told
from tare.mpi.wiring import MpiWiring

BTLS: Final = {"tcp": "self,sm,tcp", "shm": "self,sm"}


class OpenMpi5:
    """Launch with `mpirun`, which is PRRTE's `prterun`, and its `prted` daemons."""

    name = "openmpi5"
    inside = str(wheels.program("openmpi5", "mpirun"))

    def probe(self) -> str | None:
        return wheels.missing(self.name)

    def version(self) -> str:
        found = wheels.version(self.name)
        return f"Open MPI {found}" if found else ""

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
        # gds hash: else each rank is told of its job in 190 kB over lo, which then is not silent; so it is in 20.
        launcher = (
            wiring.launcher or self.inside,
            "--allow-run-as-root",
            *_prte("plm_ssh_no_tree_spawn", "1"),
            *_prte("plm_ssh_pass_environ_mca_params", "0"),
            *_prte("plm", "ssh"),
            *_prte("ras", "^slurm"),
            *_prte("prte_if_include", wiring.control_subnet),
            *("--pmixmca", "gds", "hash"),
            *point_to_point(wiring),
            *binding(placement),
            "--map-by", "slot",
        )  # fmt: skip
        parts = tuple(replace(part, options=told(part)) for part in contexts(hosts, programs, environments))
        return Launch(head=head, launcher=launcher, hosts=hosts, contexts=parts)

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("--wdir", cwd, *(("--output", "tag") if by_rank else ()))

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        # As an argument it would reach the daemons, as with Open MPI 4.1.
        return {"PRTE_MCA_plm_ssh_agent": agent_program, "TMPDIR": str(Path(agent_program).parent)}


def point_to_point(wiring: MpiWiring) -> tuple[str, ...]:
    """Return the options that pin the transport; without single copy, for the reason that Open MPI 4.1 has it so."""
    return (
        *_mca("pml", "ob1"),
        *_mca("btl", BTLS[wiring.transport]),
        *_mca("btl_tcp_if_include", wiring.data_subnet),
        *_mca("smsc", "^cma"),
        *_mca("coll", "self,basic,libnbc,tuned,inter"),
    )


def _mca(name: str, value: str) -> tuple[str, str, str]:
    return ("--mca", name, value)


def _prte(name: str, value: str) -> tuple[str, str, str]:
    return ("--prtemca", name, value)
