"""Wait for a job, and say why it does not begin."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tare.cli.batch.job import BatchSystem
from tare.errors import EXIT_INTERRUPTED, InfrastructureError
from tare.system.process import run

PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 15.0
LIMIT_S: Final = 60.0
UNSEEN: Final = 3
"""How often in a row a batch system may fail to answer before waiting ends with an error."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A job that is waited for; `told_s` is how long it may be pending before that is said, with the reason."""

    system: BatchSystem
    number: str
    told_s: float
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    began_s: float = field(default=0.0)
    last: str = ""

    def to_the_end(self) -> None:
        """Wait until the job and all parts of it have ended; Ctrl-C ends the waiting and not the job."""
        try:
            self._wait()
        except KeyboardInterrupt:
            cancel = f"{self.system.cancel} {self.number}"
            self.say(f"this command no longer waits for job {self.number}, which continues: `{cancel}` ends it")
            raise SystemExit(EXIT_INTERRUPTED) from None

    def _wait(self) -> None:
        self.began_s, pause_s, failed = self.clock(), PAUSE_S, 0
        while True:
            result = run(self.system.queue(self.number), timeout_s=LIMIT_S, check=False)
            states = self.system.states(result.stdout) if result.status == 0 else None
            if states is None and self.system.is_gone(result.stderr):
                return
            failed = failed + 1 if states is None else 0
            if failed >= UNSEEN:
                raise InfrastructureError(
                    f"{self.system.name} does not say what becomes of job {self.number}: {result.stderr.strip()[:200]}",
                    remedy="the job goes on; `tare report` shows its results when it has ended",
                )
            if states is not None:
                if not states:
                    return
                self._tell(states)
            self.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 1.2 * pause_s)

    def _tell(self, states: tuple[tuple[str, str], ...]) -> None:
        """Say why the job waits, once for each reason, if nothing of it runs after `told_s`."""
        running = [state for state, _ in states if state not in self.system.pending]
        if running:
            self.began_s = self.clock()
            return
        waited_s = self.clock() - self.began_s
        reason = next((reason for _, reason in states), "")
        if waited_s >= self.told_s and reason != self.last:
            self.last = reason
            self.say(
                f"job {self.number} has been waiting for {waited_s:.0f} s: {self.system.why(reason)}. It stays in the "
                "queue; Ctrl-C ends this command and not the job"
            )
