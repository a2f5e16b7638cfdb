"""Ranks have more threads than cores, and had enough cores in the baseline."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, baseline_variables, with_placement
from tare.analysis.explain.evidence import Evidence, Launches
from tare.analysis.explain.kinds import RUNNING


class Threads:
    """More threads than cores."""

    name = "threads"
    words = "more threads than cores"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        here, base = _cores(evidence.here), _cores(evidence.base)
        threads = evidence.here.threads
        if 0 < here < min(base, threads):
            text = f"a rank has {threads:.0f} threads for {here} cores, in the baseline for {base}"
            yield Clue(text=text.replace("for 1 cores", "for 1 core"), weight=4.0)

    def change(self, evidence: Evidence) -> Change | None:
        wanted = evidence.base.cell.placement.cpus_per_container
        if wanted == evidence.here.cell.placement.cpus_per_container:
            return baseline_variables(evidence)  # as those by which an MPI binds
        return with_placement(evidence, "the baseline's cores", cpus_per_container=wanted)

    def remedy(self, evidence: Evidence) -> str:
        return (
            f"a core for each thread (placement: {{threads_per_rank: {evidence.here.threads:.0f}}}; "
            "mpirun --map-by slot:PE=N), or fewer threads (OMP_NUM_THREADS)"
        )


def _cores(side: Launches) -> int:
    """Return the fewest cores of a rank, 0 if they are not known."""
    return min((len(rank.cpus) for rank in side.ranks), default=0)
