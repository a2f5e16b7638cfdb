"""Packets are dropped, and TCP sends them again (METHOD.md section 3: drops about as many as segments sent again)."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_link
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING

DROPS = (
    "qdisc_drops", "rx_dropped", "tx_dropped", "softnet_dropped", "TcpExtTCPBacklogDrop", "TcpExtTCPRcvQDrop",
    "UdpRcvbufErrors",
)  # fmt: skip
LEAST = 5.0
"""Fewest additional drops per launch that are more than chance."""
QUEUE = 10_000
"""Packets of a queue that no window of TCP fills."""


class Drop:
    """Packets are dropped."""

    name = "drop"
    words = "packets are dropped"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        dropped = evidence.more(*DROPS)
        if dropped < LEAST:
            return
        named = [name for name in DROPS if evidence.more(name) >= LEAST]
        yield Clue(text=f"{dropped:.0f} more packets were dropped per launch ({', '.join(named)})", weight=2.0)
        resent = evidence.more("TcpRetransSegs")
        if resent >= dropped / 2:
            yield Clue(text=f"TCP sent {resent:.0f} more segments again, about as many as were dropped", weight=2.0)
        if evidence.more("TcpExtTCPTimeouts") >= 1:
            yield Clue(text=f"{evidence.more('TcpExtTCPTimeouts'):.0f} more timeouts of TCP", weight=1.0)
        if evidence.more("TcpExtTCPSACKReorder") > dropped:
            yield Clue(text="more segments arrived out of order than were dropped", weight=-1.0)

    def change(self, evidence: Evidence) -> Change | None:
        queue, of_base = evidence.here.environment.link.queue, evidence.base.environment.link.queue
        if not queue:
            return None
        if queue != of_base:
            return with_link(evidence, "the baseline's queue", queue=of_base)
        return with_link(evidence, f"a queue of {QUEUE:,} packets", queue=QUEUE)

    def remedy(self, evidence: Evidence) -> str:
        return "a longer queue on the interface that drops (`ip link set DEV txqueuelen 10000`; link: queue)"
