"""Define `command`: the user's program, measured by its wall time from the end of MPI_Init to MPI_Finalize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.model import MetricInfo, MetricKind, Placement, Workload
from tare.workloads.gate import gate
from tare.workloads.output import LaunchTiming, Parsed, Payload, about, metric_of, records, wall_s
from tare.workloads.plugin import WorkloadPlugin
from tare.workloads.work import own_output, work_of

WALL: Final = MetricInfo(key="wall", label="wall time", kind=MetricKind.COST, statistic="maximum over ranks", group="")
EXPECTED_S: Final = 10.0


class Command(WorkloadPlugin):
    """Run the user's program with the preload library that measures its wall time."""

    name = "command"
    timer = "CLOCK_MONOTONIC"
    synchronisation = "none: each rank from its own MPI_Init to its own MPI_Finalize"
    reduction = WALL.statistic
    knows_time = False

    def serves(self, workload: Workload) -> bool:
        others = workload.kernels or workload.miniapp or workload.program or workload.startup or workload.commands
        return not others

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        return workload.command

    def environment(self, workload: Workload, prefix: Path) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(prefix / "lib" / "libtare_wall.so")}

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        return (replace(WALL, group=workload.name),)

    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        return gate(lambda: _parsed(stdout))

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        return EXPECTED_S


def _parsed(stdout: str) -> Parsed:
    all_records = records(stdout)
    seconds = wall_s(all_records, "the program")
    return Parsed(
        metrics=(metric_of(WALL, seconds),),
        **about(all_records),
        payload=Payload(),
        measured_s=seconds,
        work=work_of(all_records, own_output(stdout)),
    )
