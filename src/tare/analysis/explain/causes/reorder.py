"""Segments of one connection overtake each other, so that TCP believes them lost and sends some again."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_link
from tare.analysis.explain.causes.drop import DROPS, LEAST
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.runtimes import RUNTIMES

SIGNS = ("TcpExtTCPSACKReorder", "TcpExtTCPDSACKRecv", "TcpExtTCPOFOQueue")
OFTEN = 10.0
OF_PACKETS = 0.001
"""Fewer signs than this share of the packets cost nothing that could be measured."""
TIMES = 2.0
"""How many times as often as in the baseline."""


class Reorder:
    """Segments arrive out of order."""

    name = "reorder"
    words = "segments arrive out of order"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = evidence.here.sum(*SIGNS), evidence.base.sum(*SIGNS)
        if here - base < max(OFTEN, OF_PACKETS * evidence.here.packets) or here < TIMES * base:
            return
        yield Clue(
            text=f"{here:.0f} signs of reordering per launch, {base:.0f} in the baseline ({', '.join(SIGNS)})",
            weight=2.5,
        )
        if evidence.more(*DROPS) < LEAST:
            yield Clue(text="no packet was dropped", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        if RUNTIMES[evidence.here.environment.runtime].needs_daemon:  # its containers have a /sys that is read-only
            return None
        return with_link(evidence, "RPS off", rps="off")

    def remedy(self, evidence: Evidence) -> str:
        return "pin RPS: `echo 0 > /sys/class/net/DEV/queues/rx-0/rps_cpus` (link: {rps: off})"
