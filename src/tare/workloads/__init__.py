"""Define the workloads: the program that a launch runs, and how its output becomes metrics.

One file and one entry in `WORKLOADS` for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.model import Workload
from tare.workloads.command import Command
from tare.workloads.commands import Commands
from tare.workloads.kernels import Kernels
from tare.workloads.miniapps import MiniApps
from tare.workloads.output import LaunchTiming, Parsed
from tare.workloads.plugin import WorkloadPlugin
from tare.workloads.program import Program
from tare.workloads.startup import Startup

__all__ = ["WORKLOADS", "LaunchTiming", "Parsed", "WorkloadPlugin", "plugin_of"]


WORKLOADS: Final[Mapping[str, WorkloadPlugin]] = {
    "kernels": Kernels(),
    "command": Command(),
    "startup": Startup(),
    "miniapp": MiniApps(),
    "program": Program(),
    "commands": Commands(),
}


def plugin_of(workload: Workload) -> WorkloadPlugin:
    """Return the plug-in that serves a workload of a study."""
    return next(plugin for plugin in WORKLOADS.values() if plugin.serves(workload))
