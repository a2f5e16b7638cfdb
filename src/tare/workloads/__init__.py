"""Define the workloads: the program that a launch runs, and how its output becomes metrics.

One file and one entry in `WORKLOADS` for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from tare.model import MetricInfo, Placement, Workload
from tare.workloads.command import Command
from tare.workloads.kernels import Kernels
from tare.workloads.miniapps import MiniApps
from tare.workloads.output import Began, Parsed
from tare.workloads.program import Program
from tare.workloads.startup import Startup

__all__ = ["WORKLOADS", "Began", "Parsed", "WorkloadPlugin", "plugin_of"]


class WorkloadPlugin(Protocol):
    """The interface of every workload; all of it is pure. Each must declare how its figures are measured."""

    @property
    def name(self) -> str: ...
    @property
    def timer(self) -> str: ...
    @property
    def synchronisation(self) -> str: ...
    @property
    def reduction(self) -> str: ...

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        """Return the command of each rank; `prefix` is the folder of tare's programs in the rank's file system."""

    def environment(self, workload: Workload, prefix: Path) -> Mapping[str, str]:
        """Return the variables that each rank needs."""

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        """Return the metrics that a completed launch will have."""

    def parse(self, workload: Workload, stdout: str, began: Began | None = None) -> Parsed:
        """Return metrics, ranks and samples from a launch's output, or raise `OutputError`.

        `began` gives the times of the launch, for workloads that measure its start.
        """

    def refuse(self, workload: Workload, placement: Placement) -> str | None:
        """Return why the workload cannot run in a placement (a number of ranks) and what is allowed, or None."""

    def memory_bytes(self, workload: Workload, placement: Placement) -> float:
        """Return about how much memory a rank needs, or 0 if unknown."""

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        """Return about how many seconds a launch measures, without its start."""


WORKLOADS: Final[Mapping[str, WorkloadPlugin]] = {
    "kernels": Kernels(),
    "command": Command(),
    "startup": Startup(),
    "miniapp": MiniApps(),
    "program": Program(),
}


def plugin_of(workload: Workload) -> WorkloadPlugin:
    """Return the plug-in that serves a workload of a study."""
    return WORKLOADS[kind_of(workload)]


def kind_of(workload: Workload) -> str:
    """Return the key of a study that defines a workload."""
    if workload.startup is not None:
        return "startup"
    if workload.kernels:
        return "kernels"
    if workload.miniapp:
        return "miniapp"
    return "program" if workload.program else "command"
