"""Define the base class of every kind of workload, with defaults that suit most of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from tare.model import Caches, Environment, MetricInfo, Placement, Workload
from tare.workloads.declaration_check import DECLARED, check_declared
from tare.workloads.output import LaunchTiming, Parsed


class WorkloadPlugin(ABC):
    """A kind of workload: a member sets the names below, says which workloads it serves, and reads what they print.

    Everything is pure. `timer`, `synchronisation` and `reduction` declare how its figures are made.
    """

    name: str
    timer: str
    synchronisation: str
    reduction: str

    def __init_subclass__(cls) -> None:
        """Refuse a member that does not declare how its figures are made: it does not load (rule 10)."""
        super().__init_subclass__()
        check_declared(cls, *DECLARED)

    @abstractmethod
    def serves(self, workload: Workload) -> bool:
        """Return whether a workload of a study is of this kind."""

    @abstractmethod
    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        """Return the argv of each rank; `prefix` is where tare's programs are in the rank's file system."""

    knows_time: bool = True
    """Whether `expected_s` knows how long a launch measures; otherwise it is a guess for time limits."""

    runs_on_node: bool = False
    """Whether a launch runs the workload's commands on the first node, in place of ranks."""

    def environment(self, workload: Workload, prefix: Path) -> Mapping[str, str]:
        """Return the variables that each rank needs."""
        return {}

    def caches(self, workload: Workload) -> Caches | None:
        """Return the state in which the machine's file caches must be at the begin of a launch, None: any.

        Cold: they are dropped before, which needs root. Warm: a launch that does not count comes before.
        """
        return None

    def takes_turns(self, workload: Workload) -> bool:
        """Return whether a launch can work in shares and sleep in between: its program has the option `--turns`."""
        return False

    @abstractmethod
    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        """Return the metrics that a completed launch will have."""

    @abstractmethod
    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        """Return the metrics, ranks and samples in a launch's output, or raise `OutputError`.

        `began` says when the launch began; a workload that only times what it runs does not need it.
        """

    def refuse(self, workload: Workload, placement: Placement) -> str | None:
        """Return why the workload cannot run in a placement (a number of ranks) and what is allowed, or None."""
        return None

    def refuse_environment(self, workload: Workload, environment: Environment) -> str | None:
        """Return why the workload cannot run in an environment, whatever is installed, or None."""
        return None

    def thin(self, workload: Workload) -> Workload:
        """Return a version that takes as little time as possible and still starts all that the workload starts."""
        return workload

    def memory_bytes(self, workload: Workload, placement: Placement) -> float:
        """Return about how much memory a rank needs, 0 if unknown."""
        return 0.0

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        """Return about how many seconds a launch measures, without its start-up."""
        return 0.0
