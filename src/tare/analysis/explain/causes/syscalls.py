"""System calls take longer: a seccomp filter runs before each, or SSBD is on for tasks with a filter."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, baseline_variables, without_container
from tare.analysis.explain.evidence import Evidence, Launches
from tare.analysis.explain.kinds import RUNNING

CALL = "system_call_ns"
"""The time of a system call, as the first rank measured it."""
LONGER = 1.5


class SystemCalls:
    """System calls are filtered or slowed."""

    name = "system calls"
    words = "slower system calls (seccomp, SSBD)"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = evidence.here, evidence.base
        if _filters(here) > _filters(base):
            text = f"{_filters(here)} seccomp filters here, {_filters(base)} in the baseline"
            yield Clue(text=text, weight=1.0)
        name = "speculation_store_bypass"
        if "mitigated" in here.rights.get(name, "") and "mitigated" not in base.rights.get(name, ""):
            yield Clue(text="the kernel forbids bypassing stores speculatively (SSBD)", weight=1.0)
        slow, fast = (float(side.rights.get(CALL, 0)) for side in (here, base))
        if slow and fast and slow > LONGER * fast:
            yield Clue(text=f"a system call takes {slow:.0f} ns here, {fast:.0f} ns in the baseline", weight=3.0)
        elif slow and fast:
            yield Clue(text=f"a system call takes as long as in the baseline ({slow:.0f} ns)", weight=-2.0)

    def change(self, evidence: Evidence) -> Change | None:
        same = evidence.here.environment.runtime == evidence.base.environment.runtime
        return baseline_variables(evidence) if same else without_container(evidence)

    def remedy(self, evidence: Evidence) -> str:
        return "a shorter filter, or none for trusted programs (--security-opt seccomp=unconfined)"


def _filters(side: Launches) -> int:
    return int(side.rights.get("seccomp_filters", side.rights.get("seccomp", "0") == "2"))
