"""Ranks share cores, because the MPI in each container binds from the first core, or because cores were left idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tare.analysis.explain.cause import Change, Clue, with_placement
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.analysis.summary.mechanisms import binding_collapse, shared_core
from tare.model import Binding as Bound
from tare.model import RankPlace, Share


class BindingCause:
    """Ranks share cores."""

    name = "binding"
    words = "ranks share cores"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = _sharing(evidence.here.ranks), _sharing(evidence.base.ranks)
        if here and not base and not evidence.here.cell.placement.oversubscribe:  # else the study asks for it
            yield Clue(text=f"{here}; not so in the baseline", weight=5.0)

    def change(self, evidence: Evidence) -> Change | None:
        if evidence.here.cell.placement.binding is Bound.DISJOINT:
            return None
        return with_placement(evidence, "each rank bound to a core of its own", binding=Bound.DISJOINT)

    def remedy(self, evidence: Evidence) -> str:
        share = evidence.here.cell.placement.share
        one = " or one pod for all (share: pod)" if share is Share.NONE else ""
        return f"cores of its own for each container (binding: disjoint; docker run --cpuset-cpus){one}"


def _sharing(ranks: Sequence[RankPlace]) -> str:
    if not ranks:
        return ""
    text = binding_collapse(ranks) or shared_core(ranks) or ""
    return text.partition("; remedy")[0].partition(", because")[0]
