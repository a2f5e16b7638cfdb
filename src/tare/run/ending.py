"""Decide when a run begins no further round: its budget is used up, its allocation ends, or it has done its share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tare.analysis.summary.allocations import KEY, node_hours
from tare.clusters.base import Allocated
from tare.model import Repetition
from tare.model.text import counted

MARGIN_S: Final = 30.0
"""What a run needs beyond its rounds to remove its pods and to write its report."""
SLACK: Final = 1.25
"""How much longer than the longest so far the next round may take."""
PER_HOUR: Final = 3600.0


@dataclass(slots=True, kw_only=True)
class Ending:
    """The limits of a run on a number of nodes; `most_rounds` are the rounds that this run may do, None for all.

    `reason` is why it ended before its study was complete, "" as long as it has not; with `time_is_up` the end of the
    allocation was the reason.
    """

    repetition: Repetition
    nodes: int
    facts: Mapping[str, Any]
    allocation: Allocated | None = None
    most_rounds: int | None = None
    began_s: float = field(default_factory=time.monotonic)
    longest_s: float = 0.0
    rounds: tuple[int, ...] = ()
    reason: str = ""
    time_is_up: bool = False

    def reached(self) -> bool:
        """Return whether no further round may begin, and keep the reason; the first round always may."""
        self.reason = self._reason() if self.rounds else ""
        return bool(self.reason)

    def ended_round(self, number: int, took_s: float) -> dict[str, Any]:
        """Count a round that took so long; return the facts to record, none outside of an allocation."""
        self.rounds = (*self.rounds, number)
        self.longest_s = max(self.longest_s, took_s)
        if self.allocation is None:
            return {}
        earlier = dict(self.facts.get(KEY) or {})
        before = earlier.get(self.allocation.label) or {}
        own = {
            "nodes": ", ".join(self.allocation.nodes),
            "rounds": sorted({*before.get("rounds", ()), *self.rounds}),
            "node hours": round(float(before.get("node hours", 0.0)) + self._node_hours(), 4),
        }
        return {KEY: {**earlier, self.allocation.label: own}}

    def _reason(self) -> str:
        wanted = self.repetition
        if self.most_rounds is not None and len(self.rounds) >= self.most_rounds:
            return f"this allocation's share of {counted(self.most_rounds, 'round')} is done"
        if wanted.budget_s is not None and time.monotonic() - self.began_s > wanted.budget_s:
            return "its budget of time is used up"
        hours = node_hours(self.facts) + self._node_hours()
        if wanted.budget_node_hours is not None and hours + self._next_node_hours() > wanted.budget_node_hours:
            return f"its budget of {wanted.budget_node_hours:g} node-hours does not suffice for another round"
        if self.allocation is not None and self.allocation.left_s() < SLACK * self.longest_s + MARGIN_S:
            self.time_is_up = True
            return "the allocation ends before another round could"
        return ""

    def _node_hours(self) -> float:
        return (time.monotonic() - self.began_s) * self.nodes / PER_HOUR

    def _next_node_hours(self) -> float:
        return self.longest_s * self.nodes / PER_HOUR
