"""Limit what renewing the report takes from a run: a share of the time since the run began."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SHARE: Final = 0.01
"""Of a core, over the run."""
CREDIT_S: Final = 2.0
LONGEST_S: Final = 5.0
"""No report is drawn that is expected to take longer: it would hold the run up."""
FIRST_S: Final = 0.05
TRIAL_S: Final = 0.001
"""What drawing the first report is expected to take, and for each further trial; then the last one tells."""


def cpu_s() -> float:
    """Return the CPU time of this thread and of processes that have ended; large results are drawn in one."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


class CpuBudget:
    """The CPU time that may be used, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = cpu_s) -> None:
        self._clock, self._cpu = clock, cpu
        self._began_s = clock()
        self._last_s, self._last_trials = FIRST_S, 0
        self.used_s = 0.0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Charge what is done within."""
        began_s = self._cpu()
        try:
            yield
        finally:
            self.used_s += self._cpu() - began_s

    @contextmanager
    def drawing(self, trials: int) -> Iterator[None]:
        """Expect the next report to take as long as this one; it is charged by `spent`, which is around it."""
        began_s = self._cpu()
        try:
            yield
        finally:
            self._last_s, self._last_trials = self._cpu() - began_s, trials

    @property
    def left_s(self) -> float:
        """Return how much may be used now."""
        return CREDIT_S + SHARE * (self._clock() - self._began_s) - self.used_s

    def _expected_s(self, trials: int) -> float:
        return self._last_s + TRIAL_S * max(0, trials - self._last_trials)

    def too_large(self, trials: int) -> bool:
        """Tell whether no report of so many trials will be drawn any more."""
        return self._expected_s(trials) > LONGEST_S

    def allows(self, trials: int) -> bool:
        """Tell whether a report of so many trials may be drawn now."""
        return not self.too_large(trials) and self._expected_s(trials) <= self.left_s
