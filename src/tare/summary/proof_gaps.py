"""Collect what is not proven of the treatment of a cell's launches. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tare.model import Completed, ProofGap, Trial

_COUNTS: Final = re.compile(r"\d{4,}")
"""Counts of bytes, which differ from launch to launch. The numbers of nodes and ranks are shorter."""


def proof_gaps_of(environment: str, group: str, trials: Iterable[Trial]) -> Iterator[ProofGap]:
    """Yield each statement of a cell's completed launches, with the number of these launches; the gravest first.

    Statements that differ in a count of bytes are one, in the words of the first launch.
    """
    completed = [trial for trial in trials if isinstance(trial.outcome, Completed)]
    unproven = [trial.unproven for trial in completed if trial.unproven]
    partly_proven = [trial.partly_proven for trial in completed if trial.partly_proven]
    for partly, texts in ((False, unproven), (True, partly_proven)):
        of_form = Counter(_form(text) for text in texts)
        first = {_form(text): text for text in reversed(texts)}
        for form, launches in of_form.items():
            yield ProofGap(
                group=group,
                environment=environment,
                text=first[form],
                partly=partly,
                launches=launches,
                of=len(completed),
            )


def _form(text: str) -> str:
    return _COUNTS.sub("#", text)
