"""A collective operation uses another algorithm than in the baseline."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, changed
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING
from tare.model import Environment, Verdict

CHOOSES = re.compile(
    r"^(?:OMPI_MCA_coll_|MPIR_CVAR_\w*(?:COLL|ALLREDUCE|ALLTOALL|BCAST|BARRIER|REDUCE|GATHER)|I_MPI_ADJUST_)"
)
POINT_TO_POINT = ("latency", "bw", "bibw")


class Collective:
    """Another algorithm of a collective operation."""

    name = "collective"
    words = "another collective algorithm"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = (_chosen(side.environment) for side in (evidence.here, evidence.base))
        kernel = evidence.info.key.partition(":")[0].partition("/")[0]
        if here == base:
            return
        names = sorted(name for name in here.keys() | base.keys() if here.get(name) != base.get(name))
        yield Clue(text=f"set differently: {', '.join(names)}", weight=2.5)
        if kernel in POINT_TO_POINT:
            yield Clue(text="the metric is about messages from rank to rank", weight=-4.0)
            return
        plain = [cost for info, cost in evidence.others if info.key.startswith(POINT_TO_POINT)]
        if plain and all(cost.verdict is not Verdict.COSTS for cost in plain):
            yield Clue(text="messages from rank to rank cost nothing", weight=1.0)
        here_packets, base_packets = evidence.here.packets, evidence.base.packets
        if base_packets and abs(here_packets / base_packets - 1.0) > 0.05:
            more = here_packets / base_packets - 1.0
            yield Clue(text=f"{100 * more:+.0f} % packets per launch for the same work", weight=1.0)

    def change(self, evidence: Evidence) -> Change | None:
        environment = evidence.here.environment
        own = [value for value in environment.env if not CHOOSES.match(value)]
        wanted = [value for value in evidence.base.environment.env if CHOOSES.match(value)]
        if (*own, *wanted) == environment.env:
            return None
        return changed(evidence, "the baseline's choice of algorithms", env=(*own, *wanted))

    def remedy(self, evidence: Evidence) -> str:
        names = sorted(_chosen(evidence.here.environment))
        return f"leave {', '.join(names) or 'the choice of algorithms'} out of the image and the environment"


def _chosen(environment: Environment) -> dict[str, str]:
    pairs = (value.partition("=") for value in environment.env)
    return {name: value for name, _, value in pairs if CHOOSES.match(name)}
