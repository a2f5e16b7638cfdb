"""Collect what is not proven of the treatment of a cell's launches. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tare.model import Completed, ProofGap, Trial


def proof_gaps_of(environment: str, group: str, trials: Iterable[Trial]) -> Iterator[ProofGap]:
    """Yield each statement of a cell's completed launches, with the number of these launches; the gravest first."""
    completed = [trial for trial in trials if isinstance(trial.outcome, Completed)]
    unproven = Counter(trial.unproven for trial in completed if trial.unproven)
    partly_proven = Counter(trial.partly_proven for trial in completed if trial.partly_proven)
    for partly, texts in ((False, unproven), (True, partly_proven)):
        for text, launches in texts.items():
            yield ProofGap(
                group=group, environment=environment, text=text, partly=partly, launches=launches, of=len(completed)
            )
