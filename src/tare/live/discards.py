"""Keep what a run discards: launches without figures, launches that were repeated, blocks that were run again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tare.model import Completed, Trial, TrialKey
from tare.model.text import printable
from tare.summary.disturbance import is_disturbed, migrated_within

MOST_SHOWN: Final = 8
MOST_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """A launch that was discarded, and why; or a block, with an empty `cell`."""

    cell: str
    round: int
    reason: str


@dataclass(slots=True, kw_only=True)
class Discards:
    """What was discarded since the run began: the number, and the last of them."""

    count: int = 0
    last: deque[Discard] = field(default_factory=lambda: deque(maxlen=MOST_SHOWN))
    _state: dict[TrialKey, str] = field(default_factory=dict)

    def round_started(self, number: int, attempt: int) -> None:
        """Note a block that is run again because an earlier run was ended within it."""
        self._state.clear()
        if attempt:
            self._add("", number, "a block that was interrupted is run again; its earlier launches do not count")

    def trial_ended(self, trial: Trial) -> None:
        """Note a launch without figures, and the one that a repeat replaces."""
        key = trial.key
        if not isinstance(trial.outcome, Completed):
            word = type(trial.outcome).__name__.lower()
            self._add(key.cell, key.round, f"{word}: {printable(trial.outcome.reason)}")
        if key.repeat:
            first = TrialKey(cell=key.cell, round=key.round, block=key.block, attempt=key.attempt)
            self._add(key.cell, key.round, f"repeated: {self._state.pop(first, 'the machine was disturbed')}")
        elif state := _state_of(trial):
            self._state[key] = state

    def _add(self, cell: str, round_: int, reason: str) -> None:
        self.count += 1
        self.last.appendleft(Discard(cell=printable(cell), round=round_ + 1, reason=reason[:MOST_CHARACTERS]))


def _state_of(trial: Trial) -> str:
    """Return the state of the machine that can require a repeat; "" if there is none."""
    if is_disturbed(trial):
        return "background load during the launch"
    return "the host migrated the vCPUs during the launch" if migrated_within(trial.noise) else ""
