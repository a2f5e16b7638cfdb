"""A memory limit makes the kernel reclaim or swap pages while the program runs."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_placement
from tare.analysis.explain.evidence import Evidence, Launches
from tare.analysis.explain.kinds import ALWAYS
from tare.model.text import bytes_label

HIT = ("memory_failcnt",)
RECLAIMED = ("page_scans", "page_steals", "swap_in_pages", "swap_out_pages")
LEAST = 100.0
LEAST_WAIT = 0.01
"""Share of a launch that is more than chance."""


class MemoryLimit:
    """A memory limit is reached."""

    name = "memory limit"
    words = "its memory limit is reached"
    takes = ALWAYS

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        limit, of_base = _limit(evidence.here), _limit(evidence.base)
        hit, waited = evidence.more(*HIT), evidence.more("memory_pressure_s")
        if not limit or limit == of_base:
            return  # pages are reclaimed for the whole machine, too
        if hit < 1 and waited <= LEAST_WAIT * evidence.here.elapsed_s:
            return
        if hit >= 1:
            text = f"the limit of {bytes_label(limit)} was reached {hit:.0f} times per launch"
            yield Clue(text=text, weight=3.0)
        if waited > LEAST_WAIT * evidence.here.elapsed_s:
            yield Clue(text=f"it waited {waited:.2g} s for memory (PSI)", weight=1.0)
        if (reclaimed := evidence.more(*RECLAIMED)) >= LEAST:
            yield Clue(text=f"{reclaimed:.0f} more pages were scanned, reclaimed or swapped", weight=1.5)

    def change(self, evidence: Evidence) -> Change | None:
        if not evidence.here.cell.placement.memory_per_container:
            return None
        return with_placement(evidence, "no memory limit", memory_per_container=0)

    def remedy(self, evidence: Evidence) -> str:
        return "a larger limit (memory_per_container; --memory), with room for the files that the program reads"


def _limit(side: Launches) -> int:
    """Return the memory limit of a cell's containers in bytes: as the kernel shows it, else as the study says."""
    shown = side.facts.get("memory_limit", "")
    return int(shown) if shown.isdecimal() else side.cell.placement.memory_per_container
