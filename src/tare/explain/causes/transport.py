"""Ranks of one node talk over its network although they could share memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tare.explain.cause import Change, Clue
from tare.explain.evidence import Evidence, placed
from tare.explain.kinds import RUNNING
from tare.model import Share
from tare.summary.mechanisms import transport_loss


class Transport:
    """Messages within a node take the network."""

    name = "transport"
    words = "no shared memory between ranks"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = evidence.here, evidence.base
        lost = transport_loss(here.ranks) if here.ranks else None
        if lost and not (base.ranks and transport_loss(base.ranks)):
            text = lost.partition("; remedy")[0].partition(", because")[0]
            yield Clue(text=f"{text}; not so in the baseline", weight=5.0)
        elif evidence.differs("transport") and here.cell.placement.ranks_per_node > 1:
            text = f"the MPI uses {here.facts['transport']} here and {base.facts['transport']} in the baseline"
            yield Clue(text=text, weight=3.0)
        elif here.cell.environment.transport != base.cell.environment.transport:
            one, other = here.cell.environment.transport, base.cell.environment.transport
            yield Clue(text=f"the transport is {one} here and {other} in the baseline", weight=3.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment = evidence.here.cell.environment
        wanted = evidence.base.cell.environment.transport
        if environment.transport != wanted:
            return Change(words=f"transport {wanted}", environment=replace(environment, transport=wanted))
        if evidence.here.cell.placement.share is Share.NONE:
            return Change(words="one pod for all ranks of a node", environment=placed(evidence, share=Share.POD))
        return None

    def remedy(self, evidence: Evidence) -> str:
        if evidence.here.cell.placement.share is Share.NONE:
            return "one pod and one daemon a node (share: pod), so that ranks share memory"
        return f"the baseline's transport (transport: {evidence.base.cell.environment.transport})"
