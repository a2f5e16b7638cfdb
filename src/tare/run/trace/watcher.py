"""A watcher of a run that traces each of its launches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tare.clusters import CLUSTERS
from tare.errors import MissingTool, RefusedError
from tare.model import Cell, Completed, Plan, Trial, TrialKey
from tare.run.runner import Watcher
from tare.run.trace import bpftrace
from tare.run.trace.bpftrace import Tracer
from tare.run.trace.record import KernelNames, Trace, added, write_traces
from tare.system import process
from tare.system.user_namespace import is_real_root
from tare.workloads import plugin_of


def check_can_trace(cluster: str) -> None:
    """Raise `RefusedError` if launches on a cluster cannot be traced, `MissingTool` if bpftrace is missing."""
    if not CLUSTERS[cluster].is_here:
        here = " or ".join(name for name, each in CLUSTERS.items() if each.is_here)
        raise RefusedError(
            f"the study runs on cluster {cluster}, and only launches on this machine can be traced",
            remedy=f"trace the same study, as root, on cluster {here}",
        )
    if not is_real_root():
        raise RefusedError("tracing the kernel needs root", remedy="the same command with sudo")
    if process.find(bpftrace.BPFTRACE) is None:
        raise MissingTool("bpftrace is not installed", remedy="apt-get install bpftrace")


class Tracing:
    """A watcher that passes everything on, and runs bpftrace beside each launch.

    `traces` has what was traced of each cell, of completed launches only.
    """

    def __init__(self, watcher: Watcher, plan: Plan, folder: Path) -> None:
        self._watcher = watcher
        self._cells = {cell.key: cell for cell in plan.cells}
        self._log = folder / "bpftrace.log"
        self._names = KernelNames(reasons=bpftrace.reasons(), calls=bpftrace.system_calls())
        self._running = ExitStack()
        self._tracer: Tracer | None = None
        self.traces: dict[str, Trace] = {}

    def round_started(self, number: int, attempt: int) -> None:
        """Pass it on."""
        self._watcher.round_started(number, attempt)

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        """Pass it on."""
        self._watcher.calibrated(cell, elapsed_s)

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        """Pass it on."""
        self._watcher.launch_started(key, done, total)

    def launching(self, keys: Sequence[TrialKey]) -> None:
        """Begin to trace."""
        self._watcher.launching(keys)
        self.end()
        cell = self._cells[keys[0].cell]
        name = Path(plugin_of(cell.workload).argv(cell.workload, Path("/"))[0]).name
        self._tracer = self._running.enter_context(bpftrace.traced(name, self._log))

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Note what was traced."""
        tracer = self.end()
        if tracer is not None and isinstance(trial.outcome, Completed):
            cell = self._cells[trial.key.cell]
            before = self.traces.get(cell.key, Trace(group=cell.group, environment=cell.environment.name))
            self.traces[cell.key] = added(before, tracer.counted(), ranks_of(trial, tracer), self._names)
        self._watcher.trial_ended(trial, done, total)

    def end(self) -> Tracer | None:
        """End what is being traced, and return it; None if nothing is."""
        tracer, self._tracer = self._tracer, None
        self._running.close()
        return tracer


@contextmanager
def tracing(watcher: Watcher, plan: Plan, folder: Path) -> Iterator[Tracing]:
    """Provide the watcher; what was traced is written to the folder at the end, also if the block is interrupted."""
    with tempfile.TemporaryDirectory(prefix="tare-trace-") as scratch:
        made = Tracing(watcher, plan, Path(scratch))
        try:
            yield made
        finally:
            made.end()
            write_traces(folder, made.traces.values())


def ranks_of(trial: Trial, tracer: Tracer) -> dict[int, int]:
    """Return the ranks of a trial by the number that their process has on this machine."""
    seen = tracer.processes
    places = ((rank.rank, (rank.namespaces.get("pid", 0), rank.pid)) for rank in trial.ranks)
    return {seen[inside]: rank for rank, inside in places if inside in seen}
