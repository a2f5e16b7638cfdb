"""A container has to be started: its file system mounted, its namespaces made, its processes begun."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, without_container
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import ALWAYS


class StartUp:
    """Starting the container takes time."""

    name = "start-up"
    words = "starting containers takes time"
    takes = ALWAYS

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        if evidence.here.cell.workload.startup is None:
            return
        here, base = (side.environment.runtime for side in (evidence.here, evidence.base))
        if here != base:
            yield Clue(
                text=f"the metric is a step of the start-up, by {here} here and by {base} in the baseline", weight=3.0
            )

    def change(self, evidence: Evidence) -> Change | None:
        same = evidence.here.environment.runtime == evidence.base.environment.runtime
        return None if same else without_container(evidence)

    def remedy(self, evidence: Evidence) -> str:
        return "one container a node, kept for many launches (launch: daemon), or a runtime without a daemon"
