"""Say why a change could not be measured: launches of the changed or costly cell or the baseline failed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tare.analysis.explain.cause import Change
from tare.analysis.explain.evidence import Evidence
from tare.analysis.explain.shares import Measured, What, changed_cell, what_of
from tare.model import Failed, Interrupted, Invalid, Outcome, Plan, Trial, Unavailable

TOO_FEW: Final = "it was measured in too few rounds"


def reasons_of(plan: Plan, trials: Iterable[Trial]) -> dict[str, str]:
    """Return for each cell that has no complete launches, or lacks some, the usual reason and how many it is of."""
    ran: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    for trial in trials:
        if isinstance(trial.outcome, Interrupted):
            continue
        ran[trial.key.cell] += 1
        if is_failure(trial.outcome):
            reasons.setdefault(trial.key.cell, Counter())[trial.reason] += 1
    found = dict(plan.unavailable)
    for cell, counted in reasons.items():
        reason, _ = counted.most_common(1)[0]
        found[cell] = f"{counted.total()} of {ran[cell]} launches failed: {reason}"
    return found


def is_failure(outcome: Outcome) -> bool:
    """Return whether a launch failed, could not be made, or did not measure what its cell claims."""
    return isinstance(outcome, Failed | Invalid | Unavailable)


class Failures:
    """The cells of results that failed, looked up by what they measure."""

    def __init__(self, measured: Measured) -> None:
        self._has = {what_of(cell) for cell in measured.plan.cells}
        self._reasons: dict[What, tuple[str, str]] = {}
        for cell in measured.plan.cells:
            if cell.key in measured.failed:
                self._reasons.setdefault(what_of(cell), (cell.environment.name, measured.failed[cell.key]))

    def why_not(self, evidence: Evidence, change: Change) -> str:
        """Return why the share of a change is not known from these results, "" if they do not have its cell."""
        changed = what_of(changed_cell(evidence, change))
        if changed not in self._has:
            return ""
        needed = (changed, what_of(evidence.base.cell), what_of(evidence.here.cell))
        name, reason = next((self._reasons[each] for each in needed if each in self._reasons), ("", TOO_FEW))
        return f"{name}: {reason}" if name else reason


def why_not_measured(evidence: Evidence, change: Change, places: Sequence[Failures]) -> str:
    """Return why a change could not be measured in the first results that have its cell, "" if none has."""
    return next((reason for place in places if (reason := place.why_not(evidence, change))), "")
