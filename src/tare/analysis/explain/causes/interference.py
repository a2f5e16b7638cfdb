"""Other programs use the cores during the launches of one environment more than during the baseline's."""

from __future__ import annotations

from collections.abc import Iterator

from tare.analysis.explain.cause import Change, Clue, with_placement
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.kinds import RUNNING

LEAST_SHARE = 0.03
MOST_WEIGHT = 10_000


class Interference:
    """Others use its cores."""

    name = "interference"
    words = "other programs use its cores"
    takes = RUNNING

    def clues(self, evidence: Evidence) -> Iterator[Clue]:
        more = evidence.more_share("background")
        if more > LEAST_SHARE:
            text = f"other programs used {100 * more:.0f} % more of the machine than during the baseline"
            yield Clue(text=text, weight=3.0 if more > 2 * LEAST_SHARE else 1.5)
        waited = evidence.more("run_delay_s")
        if evidence.here.elapsed_s > 0 and waited > LEAST_SHARE * evidence.here.elapsed_s:
            yield Clue(text=f"ranks waited {waited:.2g} s more for a core", weight=1.5)
        if evidence.more_share("steal") > LEAST_SHARE:
            text = f"other guests of the host took {100 * evidence.more_share('steal'):.0f} % more of the cores"
            yield Clue(text=text, weight=1.5)

    def change(self, evidence: Evidence) -> Change | None:
        words = "its job preferred to other programs (CPU weight 10,000)"
        return with_placement(evidence, words, cpu_weight=MOST_WEIGHT)

    def remedy(self, evidence: Evidence) -> str:
        return (
            "cores of its own for the job, or more weight (placement: {cpu_weight: 10000}; systemd's CPUWeight); "
            "`tare doctor --noise` says what else runs there"
        )
