"""Define `program`: a third-party program that tare knows (`tare.workloads.programs`), run with the preload library.

The library reports where its ranks ran, as for `command`; the figures are those that the program itself prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.model import MetricInfo, Placement, Workload
from tare.workloads.gate import gate
from tare.workloads.output import LaunchTiming, Parsed, Payload, about, records, wall_s
from tare.workloads.plugin import WorkloadPlugin
from tare.workloads.programs import PROGRAMS, ProgramAdapter
from tare.workloads.work import own_output, work_of

OURS: Final = "tare-"
"""Prefix in the names of tare's own programs, which are under the prefix folder and not on PATH."""


class Program(WorkloadPlugin):
    """Run a known third-party program and read its output."""

    name = "program"
    timer = "the program's own: see `tare workloads`"
    synchronisation = "the program's own: see `tare workloads`"
    reduction = "the program's own: see `tare workloads`"

    def serves(self, workload: Workload) -> bool:
        return bool(workload.program)

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        first, *rest = adapter_of(workload).argv(workload.arguments, workload.path)
        return (str(prefix / "bin" / first) if first.startswith(OURS) else first, *rest)

    def environment(self, workload: Workload, prefix: Path) -> Mapping[str, str]:
        own = adapter_of(workload).environment(workload.arguments)
        return {**own, "LD_PRELOAD": preloaded(own, prefix / "lib")}

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        infos = adapter_of(workload).metrics(workload.arguments, placement)
        return tuple(replace(info, group=workload.name) for info in infos)

    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        return gate(lambda: _parsed(workload, stdout))

    def refuse(self, workload: Workload, placement: Placement) -> str | None:
        return adapter_of(workload).refuse(workload.arguments, placement)

    def thin(self, workload: Workload) -> Workload:
        return replace(workload, arguments=adapter_of(workload).thin(workload.arguments))

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        return adapter_of(workload).expected_s(workload.arguments, placement)


def preloaded(own: Mapping[str, str], folder: Path) -> str:
    """Return the value of LD_PRELOAD: the library that times the program, then the libraries that its adapter lists."""
    names = ("libtare_wall.so", *own.get("LD_PRELOAD", "").split(":"))
    return ":".join(str(folder / name) for name in names if name)


def adapter_of(workload: Workload) -> ProgramAdapter:
    """Return the adapter of a workload's program."""
    return PROGRAMS[workload.program]


def _parsed(workload: Workload, stdout: str) -> Parsed:
    adapter, all_records = adapter_of(workload), records(stdout)
    measured_s = wall_s(all_records, adapter.name)
    text = own_output(stdout)
    reading = adapter.read(text, workload.arguments)
    return Parsed(
        metrics=reading.metrics,
        **about(all_records),
        payload=Payload(),
        measured_s=measured_s,
        wrong=reading.wrong,
        figures=reading.figures,
        work=work_of(all_records, text),
    )
