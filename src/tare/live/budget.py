"""Limit what the live page may use: a share of the time since the run began."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

RENDERING_SHARE: Final = 0.008
"""Of a core. With `ANSWERS_SHARE` it is 1 %."""
ANSWERS_SHARE: Final = 0.002
ANSWERS_CREDIT_S: Final = 0.1
WAITING_SHARE: Final = 0.01
"""Of the run's time, in which browsers take their answers and draw the page."""
WAITING_CREDIT_S: Final = 1.0
LONGEST_RENDERING_S: Final = 5.0
"""No rendering that is expected to take longer is made: it would hold the run up."""
FIRST_S: Final = 0.05
TRIAL_S: Final = 0.001
"""What the first rendering is expected to take, and for each further trial; then the last one tells."""


def cpu_s() -> float:
    """Return the CPU time of this thread and of processes that have ended; large results are drawn in one."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


@dataclass(slots=True, kw_only=True)
class Account:
    """Seconds that may be used: a share of those since the run began, and a credit."""

    share: float
    credit_s: float = 0.0
    used_s: float = 0.0

    def left_s(self, run_s: float) -> float:
        """Return how much may be used `run_s` after the beginning."""
        return self.credit_s + self.share * run_s - self.used_s


class Budget:
    """What the page may use of a core for renderings and for answers, and of the run's time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = cpu_s) -> None:
        self._clock, self._cpu = clock, cpu
        self._began_s = clock()
        self.rendering = Account(share=RENDERING_SHARE)
        self.answers = Account(share=ANSWERS_SHARE, credit_s=ANSWERS_CREDIT_S)
        self.waiting = Account(share=WAITING_SHARE, credit_s=WAITING_CREDIT_S)
        self._last = (FIRST_S, 0)

    @contextmanager
    def of_answers(self) -> Iterator[None]:
        """Charge what is done within to answers, and the time that passes to waiting."""
        began_s, cpu_s = self._clock(), self._cpu()
        try:
            yield
        finally:
            self.waiting.used_s += self._clock() - began_s
            self.answers.used_s += self._cpu() - cpu_s

    @contextmanager
    def of_rendering(self, trials: int) -> Iterator[None]:
        """Charge what is done within to renderings; the next is expected to take as long."""
        cpu_s = self._cpu()
        try:
            yield
        finally:
            used_s = self._cpu() - cpu_s
            self.rendering.used_s += used_s
            self._last = (used_s, trials)

    @property
    def waiting_left_s(self) -> float:
        """Return how long the run may still wait for browsers."""
        return self.waiting.left_s(self._clock() - self._began_s)

    def allows_answers(self) -> bool:
        """Tell whether requests may be answered now."""
        return self.answers.left_s(self._clock() - self._began_s) > 0.0 and self.waiting_left_s > 0.0

    def expected_s(self, trials: int) -> float:
        """Return the CPU time that a rendering of so many trials is expected to take."""
        used_s, of = self._last
        return used_s + TRIAL_S * max(0, trials - of)

    def allows_rendering(self, trials: int) -> bool:
        """Tell whether a rendering may be made now."""
        left_s = self.rendering.left_s(self._clock() - self._began_s)
        return self.expected_s(trials) <= min(LONGEST_RENDERING_S, left_s)

    def too_large(self, trials: int) -> bool:
        """Tell whether no rendering will be made any more."""
        return self.expected_s(trials) > LONGEST_RENDERING_S
