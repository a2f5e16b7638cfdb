"""Limit what the live page may use: a share of the time since the run began."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SHARE: Final = 0.01
"""Of a core, and of the run's time."""
RENDER_SHARE: Final = 0.8 * SHARE
"""Renderings leave the rest to answers about progress."""
CPU_CREDIT_S: Final = 0.1
HOLD_CREDIT_S: Final = 1.0
"""What may be used at the start of a run: opening the page holds the run up while the browser draws it."""
LONGEST_RENDERING_S: Final = 5.0
"""No rendering that is expected to take longer is made: it would hold the run up."""
FIXED_S: Final = 0.2
TRIAL_S: Final = 0.001
"""What the first rendering is expected to take, and per trial; the next is expected to take as long as the last."""


def cpu_s() -> float:
    """Return the CPU time of this thread and of processes that have ended; large results are drawn in one."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


@dataclass(slots=True, kw_only=True)
class Account:
    """A clock that may advance by `SHARE` of the time since the beginning, and by a credit."""

    credit_s: float
    began_s: float
    used_s: float = 0.0

    def left_s(self, now_s: float) -> float:
        """Return how much may still be used."""
        return self.credit_s + SHARE * (now_s - self.began_s) - self.used_s


class Budget:
    """What the page has used of CPU time and of the run's time, and what a rendering takes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = cpu_s) -> None:
        self._clock, self._cpu_clock = clock, cpu
        self.cpu = Account(credit_s=CPU_CREDIT_S, began_s=clock())
        self.hold = Account(credit_s=HOLD_CREDIT_S, began_s=clock())
        self._at = (0.0, 0.0)
        self._last: tuple[float, int] | None = None

    def start(self) -> None:
        """Start to count."""
        self._at = (self._clock(), self._cpu_clock())

    def stop(self) -> None:
        """Add what was used since `start`."""
        now_s, cpu_s = self._clock(), self._cpu_clock()
        self.hold.used_s += now_s - self._at[0]
        self.cpu.used_s += cpu_s - self._at[1]

    @property
    def hold_left_s(self) -> float:
        """Return how long the run may still be held up."""
        return self.hold.left_s(self._clock()) - (self._clock() - self._at[0])

    def allows_answers(self) -> bool:
        """Tell whether requests may be answered now."""
        now_s = self._clock()
        return self.cpu.left_s(now_s) > 0.0 and self.hold.left_s(now_s) > 0.0

    def expected_s(self, trials: int) -> float:
        """Return how long a rendering of so many trials is expected to take."""
        if self._last is None:
            return FIXED_S + TRIAL_S * trials
        took_s, of = self._last
        return took_s * max(1.0, trials / max(1, of))

    def allows_rendering(self, trials: int) -> bool:
        """Tell whether a rendering may be made now."""
        expected_s = self.expected_s(trials)
        may_use_s = RENDER_SHARE * (self._clock() - self.cpu.began_s) - self.cpu.used_s
        return expected_s <= min(LONGEST_RENDERING_S, may_use_s)

    def too_large(self, trials: int) -> bool:
        """Tell whether a rendering will never be made any more."""
        return self.expected_s(trials) > LONGEST_RENDERING_S

    def rendered(self, took_s: float, trials: int) -> None:
        """Record how long a rendering took."""
        self._last = (took_s, trials)
