"""Segments of one connection overtake each other, so that TCP believes them lost and sends some again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tare.explain.cause import Change, Clue
from tare.explain.causes.drop import DROPS, LEAST
from tare.explain.evidence import Evidence

SIGNS = ("TcpExtTCPSACKReorder", "TcpExtTCPDSACKRecv", "TcpExtTCPOFOQueue")
OFTEN = 10.0
TIMES = 2.0
"""How many times as often as in the baseline."""


class Reorder:
    """Segments arrive out of order."""

    name = "reorder"
    words = "segments arrive out of order"

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = evidence.here.sum(*SIGNS), evidence.base.sum(*SIGNS)
        steered = evidence.differs("rps") and evidence.here.facts.get("rps") != "off"
        if here - base < OFTEN or here < TIMES * base:
            if steered:
                yield Clue(text="packets of one connection are received on several cores (RPS)", weight=1.0)
            return
        yield Clue(
            text=f"{here:.0f} signs of reordering per launch, {base:.0f} in the baseline ({', '.join(SIGNS)})",
            weight=2.5,
        )
        if evidence.more(*DROPS) < LEAST:
            yield Clue(text="no packet was dropped", weight=1.0)
        if steered:
            yield Clue(text="packets of one connection are received on several cores (RPS)", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment = evidence.here.cell.environment
        return Change(
            words="RPS off",
            environment=replace(environment, link=replace(environment.link, rps="off")),
        )

    def remedy(self, evidence: Evidence) -> str:
        return "pin RPS: `echo 0 > /sys/class/net/DEV/queues/rx-0/rps_cpus` (link: {rps: off})"
