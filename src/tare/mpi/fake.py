"""`fake`: an MPI that runs one small program, which prints at once what kernels of known times would print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tare.host.namespaces import plain_python
from tare.launch import Context, Host, Launch
from tare.launch.job_networks import MpiWiring
from tare.launch.mpi import Mpi
from tare.launch.ways import Way
from tare.model import Placement
from tare.networks.fake import FACTORS

PROGRAM: Final = Path(__file__).parent / "fake_program.py"
WAYS: Final[Mapping[str, Way]] = {}


class FakeMpi(Mpi):
    """Launch the fake program, once for all ranks."""

    name = "fake"
    inside = str(PROGRAM)
    title = "the fake MPI"
    ways = WAYS
    is_fake = True

    def version(self) -> str:
        return "fake 1"

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
        launcher = (
            plain_python(), "-IS", str(PROGRAM),
            "--factor", f"{FACTORS.get(wiring.data_subnet, 1.0):g}", "--hosts", ",".join(host.name for host in hosts),
            "--ranks-per-node", str(placement.ranks_per_node),
        )  # fmt: skip
        return Launch(head=head, launcher=launcher, hosts=hosts, contexts=(Context(hosts=hosts, program=programs[0]),))
