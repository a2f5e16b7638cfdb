"""Programs of others that the bootstrap brings, called and read by their adapters, on the ranks of a launcher."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tare.model import Placement
from tare.workloads.program import preloaded
from tare.workloads.programs import PROGRAMS

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

RUN = Path(__file__).parents[2] / "kernels" / "run" / "tare-run.sh"


@dataclass(frozen=True)
class Case:
    """A short run of a program, and the metrics that it must have."""

    program: str
    mpi: str
    arguments: tuple[str, ...]
    keys: tuple[str, ...]
    figures: tuple[str, ...] = field(default=())


CASES = {
    "iperf3": Case("iperf3", "openmpi", ("-t", "1"), ("tcp",), ("iperf3.retransmits",)),
    "iperf3-udp": Case("iperf3", "mpich", ("-t", "1", "-u", "-b", "10M"), ("udp",), ("iperf3.loss",)),
    "hpcc": Case(
        "hpcc", "openmpi", ("n=500", "nb=32,64"), ("hpl:32", "hpl:64", "stream", "dgemm", "randomaccess"), ("hpl.n",)
    ),
    "imb": Case(
        "IMB-MPI1", "mpich5", ("-msglog", "0:1", "PingPong", "Barrier"),
        ("PingPong:0", "PingPong:1", "PingPong:2", "Barrier"),
    ),
    "imb-rma": Case(
        "IMB-RMA", "mpich5", ("-msglog", "3:3", "Unidir_put"),
        tuple(f"Unidir_put {mode}:{size}" for mode in ("non-aggregate", "aggregate") for size in (0, 8)),
    ),
    "hnn": Case("hnn", "openmpi", ("tstop=170", "mesh=3"), ("hnn:170:3",), ("hnn.spikes",)),
    "hnn-mpich5": Case("hnn", "mpich5", ("tstop=20", "mesh=10"), ("hnn:20:10",), ("hnn.spikes",)),
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            marks=[
                pytest.mark.requires(name.partition("-")[0], case.mpi),
                *([pytest.mark.long] if name.startswith(("hnn", "imb")) else []),  # `make test` builds neither
            ],
            id=name,
        )
        for name, case in CASES.items()
    ],
)
def test_what_is_brought_runs_on_two_ranks_and_is_read(case: Case, launch, build) -> None:
    adapter = PROGRAMS[case.program]
    placement = Placement(nodes=1, ranks_per_node=2)
    assert adapter.refuse(case.arguments, placement) is None
    program, *arguments = adapter.argv(case.arguments)
    own = adapter.environment(case.arguments)
    environment = {**own, "LD_PRELOAD": preloaded(own, build(case.mpi))}
    run = launch(*arguments, program=RUN if program == "tare-run" else program, variant=case.mpi, env=environment)
    assert run.code == 0, run.stderr
    assert len(run.of_type("rank")) == 2
    said = "".join(f"{line}\n" for line in run.stdout.splitlines() if not line.startswith("@tare "))
    reading = adapter.read(said, case.arguments)
    assert tuple(metric.key for metric in reading.metrics) == case.keys
    assert set(case.figures) <= {figure.key for figure in reading.figures}
    assert reading.wrong == ()
