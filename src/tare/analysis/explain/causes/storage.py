"""It waits for a disk: files are read or written that the baseline has in memory, or on another disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.analysis.explain.cause import Change, Clue, changed
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import TimeKind

LEAST: Final = 0.2
"""The part of the added time in which something on the machine waited for a disk."""


class Storage:
    """It waits for a disk."""

    name = "storage"
    words = "waits for a disk"
    takes = frozenset({TimeKind.SLEEPING})

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        waited, more_s = evidence.more("io_pressure_s"), evidence.added.total_s
        if more_s > 0 and waited > LEAST * more_s:
            text = f"for {waited:.2g} s more per launch something on the machine waited for a disk (PSI)"
            yield Clue(text=text, weight=2.0)
            if (faults := evidence.more("major_faults")) >= 1:
                yield Clue(text=f"{faults:.0f} more pages were read from a disk", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        binds = evidence.base.environment.binds
        if evidence.here.environment.binds == binds:
            return None  # no key of a study makes a disk faster
        return changed(evidence, "the baseline's folders", binds=binds)

    def remedy(self, evidence: Evidence) -> str:
        return "the image and the program's files on a disk of the node, or read once before (startup: warm)"
