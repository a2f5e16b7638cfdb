"""`fake`: an MPI that runs one small program, which prints at once what kernels of known times would print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tare.model import RankOrder
from tare.mpi.launch import Context, Launch
from tare.mpi.launch.job import Job
from tare.mpi.launch.mpi import Mpi
from tare.mpi.launch.ways import TransportSetting
from tare.networks.fake import FACTORS
from tare.system.namespaces import plain_python

PROGRAM: Final = Path(__file__).parent / "fake_program.py"
WAYS: Final[Mapping[str, TransportSetting]] = {}


class FakeMpi(Mpi):
    """Launch the fake program, once for all ranks."""

    name = "fake"
    inside = str(PROGRAM)
    title = "the fake MPI"
    ways = WAYS
    is_fake = True
    rank_orders = tuple(RankOrder)

    def version(self) -> str:
        return "fake 1"

    def launch(self, job: Job) -> Launch:
        order = job.placement.rank_order
        launcher = (
            plain_python(), "-IS", str(PROGRAM),
            "--factor", f"{FACTORS.get(job.wiring.data_subnet, 1.0):g}",
            "--hosts", ",".join(host.name for host in job.hosts),
            "--ranks-per-node", str(job.placement.ranks_per_node),
            *(("--rank-order", order) if order is not RankOrder.BLOCK else ()),
        )  # fmt: skip
        context = Context(hosts=job.hosts, program=job.members[0].program)
        return Launch(head=job.head, launcher=launcher, hosts=job.hosts, contexts=(context,))
