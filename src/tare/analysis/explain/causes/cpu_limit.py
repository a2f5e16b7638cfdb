"""A quota of CPU time stops the container's processes for parts of each period."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_placement
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import ALWAYS

LEAST_SHARE = 0.005


class CpuLimit:
    """A CPU quota throttles."""

    name = "CPU limit"
    words = "a CPU quota throttles it"
    takes = ALWAYS

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        more = evidence.more_share("throttled")
        if more > LEAST_SHARE:
            yield Clue(text=f"its processes were throttled for {100 * more:.1f} % of a launch", weight=4.0)

    def change(self, evidence: Evidence) -> Change | None:
        if not evidence.here.cell.placement.cpus_per_container:
            return None
        return with_placement(evidence, "no limit of CPUs", cpus_per_container=0.0)

    def remedy(self, evidence: Evidence) -> str:
        return "whole cores in place of a quota (cpus_per_container: 0; --cpuset-cpus, not --cpus)"
