"""A memory limit makes the kernel reclaim or swap pages while the program runs."""

from __future__ import annotations

from collections.abc import Iterator

from tare.explain.cause import Change, Clue
from tare.explain.evidence import Evidence, placed

HIT = ("memory_failcnt",)
RECLAIMED = ("page_scans", "page_steals", "swap_in_pages", "swap_out_pages")
LEAST = 100.0


class MemoryLimit:
    """A memory limit is reached."""

    name = "memory limit"
    words = "its memory limit is reached"

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        hit, reclaimed = evidence.more(*HIT), evidence.more(*RECLAIMED)
        if hit >= 1:
            yield Clue(text=f"the limit was reached {hit:.0f} times per launch", weight=3.0)
        if reclaimed >= LEAST:
            yield Clue(text=f"{reclaimed:.0f} more pages were scanned, reclaimed or swapped", weight=1.5)
        if evidence.more("memory_pressure_s") > 0.01 * evidence.here.elapsed_s > 0:
            yield Clue(text=f"it waited {evidence.more('memory_pressure_s'):.2g} s for memory (PSI)", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        if not evidence.here.cell.placement.memory_per_container:
            return None
        return Change(words="no memory limit", environment=placed(evidence, memory_per_container=0))

    def remedy(self, evidence: Evidence) -> str:
        return "a larger limit (memory_per_container; --memory), with room for the files that the program reads"
