"""Say what kind of time a cost is, before any cause is suspected: ten seconds of sleep are no packet filter. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

from tare.model import Trial


class TimeKind(StrEnum):
    """Where the time of a rank goes, as the scheduler sees it, from its start to its end.

    An MPI that waits for a message polls, so waiting for others is `CORE`, too; `SLEEPING` is what blocks in the
    kernel: a disk, a name server, a timer, a CPU limit. `STOLEN` is what a hypervisor gave to other guests while a core
    had work.
    """

    CORE = "on its cores"
    QUEUED = "waiting for a core"
    SLEEPING = "sleeping"
    STOLEN = "stolen by the hypervisor"


ALWAYS: Final = frozenset(TimeKind)
RUNNING: Final = frozenset({TimeKind.CORE, TimeKind.QUEUED})
"""What polling ranks take while they wait for messages, or compute for longer."""
LEAST_PART: Final = 0.2
"""The part of the added time that must be of a kind that a cause can take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTime:
    """The seconds that a rank of the cell takes longer than one of the baseline, by kind: medians over launches.

    Empty if the launches do not record them, as those before tare 0.3 and programs without tare's library.
    """

    seconds: Mapping[TimeKind, float]

    @property
    def words(self) -> str:
        """Return what the added time is, the largest part first; "" if it is not known."""
        more = sorted(((kind, s) for kind, s in self.seconds.items() if s > 0), key=lambda part: -part[1])
        whole = sum(s for _, s in more)
        return ", ".join(f"{_time(s)} {kind}" for kind, s in more if s >= 0.05 * whole)

    @property
    def total_s(self) -> float:
        """Return the seconds that were added, in all kinds."""
        return sum(self.seconds.values())

    def is_mostly(self, kind: TimeKind) -> bool:
        """Return whether at least half of the added time is of a kind."""
        whole = sum(s for s in self.seconds.values() if s > 0)
        return whole > 0 and self.seconds[kind] >= 0.5 * whole

    def fits(self, kinds: frozenset[TimeKind]) -> bool:
        """Return whether a cause that takes these kinds of time can be that of the cost."""
        whole = sum(s for s in self.seconds.values() if s > 0)
        can = sum(s for kind, s in self.seconds.items() if kind in kinds and s > 0)
        return whole <= 0 or can >= LEAST_PART * whole


def added(here: Mapping[TimeKind, float], base: Mapping[TimeKind, float], cost_s: float) -> AddedTime:
    """Return what kind of time the ranks of a cell take longer than those of its baseline (`spent_by`).

    It is not known if less than half of the cost is found in it, as where a metric is not the time of a whole program.
    """
    seconds = {kind: here[kind] - base[kind] for kind in TimeKind} if here and base else {}
    found_s = sum(s for s in seconds.values() if s > 0)
    return AddedTime(seconds=seconds if 0 < cost_s <= 2 * found_s else {})


def spent_by(trials: Sequence[Trial]) -> dict[TimeKind, float]:
    """Return the seconds of a launch by kind, of a rank on average; {} if no launch has them."""
    spent = [found for trial in trials if (found := _of_launch(trial)) is not None]
    return {kind: median(each[kind] for each in spent) for kind in TimeKind} if spent else {}


def _of_launch(trial: Trial) -> dict[TimeKind, float] | None:
    ranks, steps = len(trial.ranks), trial.startup_s
    used = [sum(of_node.get(name, 0.0) for of_node in trial.node_counters.values()) for name in _USED]
    if not ranks or not used[0] or not {"launch_s", "mpi_init_s"} <= steps.keys():
        return None
    on_core, queued = (seconds / ranks for seconds in used)
    starting = max(0.0, steps["launch_s"] - steps["mpi_init_s"])  # MPI_Init is in the life of a rank
    away = max(0.0, trial.elapsed_s - starting - on_core - queued)
    stolen = min(away, trial.noise.get("steal_s", 0.0) / ranks)  # Linux counts it neither as running nor as waiting
    return {TimeKind.CORE: on_core, TimeKind.QUEUED: queued, TimeKind.SLEEPING: away - stolen, TimeKind.STOLEN: stolen}


_USED: Final = ("on_cpu_s", "run_delay_s")


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.9995 else f"{1e3 * seconds:.3g} ms"
