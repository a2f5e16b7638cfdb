"""Define `startup`: the time until a job's ranks are ready, and until an interpreter has opened many small files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.model import Caches, MetricInfo, MetricKind, Placement, Workload
from tare.workloads.gate import gate
from tare.workloads.output import (
    LaunchTiming,
    OutputError,
    Parsed,
    Payload,
    metric_of,
    number,
    ranks_of,
    records,
    usage_of,
)
from tare.workloads.plugin import WorkloadPlugin

MODULES: Final = 1000
LABELS: Final = {
    "pods": "containers up",
    "main": "ranks start",
    "mpi_init": "MPI_Init",
    "ready": "ranks ready",
    "start": "containers up and ranks ready",
    "modules": f"{MODULES} files",
}
REDUCTION: Final = "maximum over ranks"
STEPS: Final = tuple(
    MetricInfo(key=key, label=label, kind=MetricKind.COST, statistic=REDUCTION, group="", added_first=True)
    for key, label in LABELS.items()
)
"""The metrics in the order in which a start-up reaches them; docs/startup.md explains each."""


class Startup(WorkloadPlugin):
    """Run `tare-startup`, which does nothing but start up."""

    name = "startup"
    timer = "CLOCK_MONOTONIC, of the launcher and of ranks"
    synchronisation = "none until MPI_Init; one barrier after it"
    reduction = REDUCTION

    def serves(self, workload: Workload) -> bool:
        return workload.startup is not None

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        return (str(prefix / "bin" / "tare-startup"), str(prefix / "share" / "tare" / "modules"))

    def caches(self, workload: Workload) -> Caches | None:
        return workload.startup

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        return tuple(replace(info, group=workload.name) for info in STEPS)

    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        if began is None:
            raise OutputError("a start-up is timed from its launch, but the times of the launch are missing")
        return gate(lambda: _parsed(stdout, began))


def _parsed(stdout: str, began: LaunchTiming) -> Parsed:
    all_records = records(stdout)
    startup = next((record for record in all_records if record["type"] == "startup"), None)
    if startup is None:
        raise OutputError("the program printed no record of its start-up")
    places = ranks_of(all_records)
    main, init, ready, modules = (
        [number(value) for value in startup[f"rank_{name}_s"]] for name in ("main", "init", "ready", "modules")
    )
    if not len(main) == len(init) == len(ready) == len(modules) == len(places):
        raise OutputError(f"not all of {len(places)} ranks reported their start-up")
    if not began.launched_s <= min(main) <= max(ready) <= began.ended_s:
        raise OutputError("the clocks of launcher and ranks differ, so a start-up cannot be timed across them")
    times = {
        "pods": [began.pods_s],
        "main": [moment - began.launched_s for moment in main],
        "mpi_init": init,
        "ready": [moment - began.launched_s for moment in ready],
        "start": [began.pods_s + moment - began.launched_s for moment in ready],
        "modules": modules,
    }
    return Parsed(
        metrics=tuple(
            metric_of(step, max(times[step.key]), rank_average_s=sum(times[step.key]) / len(times[step.key]))
            for step in STEPS
        ),
        ranks=places,
        usage=usage_of(all_records),
        payload=Payload(),
        mpi_library=str(all_records[0]["mpi_library"]),
        init_s=max(init),
        measured_s=max(modules),
        wrong=() if startup["verified"] else (f"{startup['wrong_modules']} of {startup['modules']} small files",),
    )
