"""Ranks of one node talk over its network although they could share memory."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, changed, with_placement
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.analysis.summary.mechanisms import transport_loss
from tare.model import Share


class TransportCause:
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
        elif here.environment.transport != base.environment.transport:
            one, other = here.environment.transport, base.environment.transport
            yield Clue(text=f"the transport is {one} here and {other} in the baseline", weight=3.0)

    def change(self, evidence: Evidence) -> Change | None:
        wanted = evidence.base.environment.transport
        if evidence.here.environment.transport != wanted:
            return changed(evidence, f"transport {wanted}", transport=wanted)
        if evidence.here.cell.placement.share is Share.NONE:
            return with_placement(evidence, "one pod for all ranks of a node", share=Share.POD)
        return None

    def remedy(self, evidence: Evidence) -> str:
        if evidence.here.cell.placement.share is Share.NONE:
            return "one pod and one daemon a node (share: pod), so that ranks share memory"
        return f"the baseline's transport (transport: {evidence.base.environment.transport})"
