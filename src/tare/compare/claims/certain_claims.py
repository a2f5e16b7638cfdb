"""Decide claims without statistics: whether cells run, and what ranks report. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from tare.compare.claims.facts import facts_of
from tare.compare.claims.figures import MeasuredStudy
from tare.compare.claims.model import CellPattern, Claim, ClaimVerdict, FactPattern, Judged, Running, Stating
from tare.model import Completed, Failed, Trial
from tare.model.text import printable
from tare.model.trial import NOT_ENDED


def ran(claim: Claim, testing: Running, measured: MeasuredStudy) -> Judged:
    """Judge whether cells run, and whether others fail."""
    launches, reasons = 0, Counter[str]()
    for place in (*testing.places, *testing.failing):
        if lacking := unavailable(claim, place, measured):
            return lacking
        cell = measured.cell(place)
        trials = measured.of_cell(cell)
        if not trials:
            return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=f"{place} has not been launched yet")
        wrong = [what for trial in trials if (what := _wrong(trial))]
        if place in testing.places and wrong:
            return _failed(claim, testing, place, wrong)
        if place in testing.failing and len(wrong) < len(trials):
            why = f"{place}: {len(trials) - len(wrong)} of {len(trials)} launches completed"
            return Judged(claim=claim, verdict=ClaimVerdict.CONTRADICTED, why=why)
        if place in testing.failing and (other := next(_otherwise(trials, testing.saying), "")):
            return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=f"{place} {other}")
        reasons.update(wrong)
        launches += len(trials)
    why = f"{launches} launches completed, with the treatment proven"
    if testing.failing:
        why = f"{launches} launches: those that should complete did, the others failed ({next(iter(reasons))})"
    return Judged(claim=claim, verdict=ClaimVerdict.REPRODUCED, why=why)


def unavailable(claim: Claim, place: CellPattern, measured: MeasuredStudy) -> Judged | None:
    """Return a claim as untestable if a place of it cannot run where its study ran."""
    reason = measured.plan.unavailable.get(measured.cell(place).key)
    if not reason:
        return None
    return Judged(claim=claim, verdict=ClaimVerdict.UNTESTABLE, why=f"{place} is unavailable: {reason}")


def _failed(claim: Claim, testing: Running, place: CellPattern, wrong: Sequence[str]) -> Judged:
    """Judge a cell that should have run: only failures with the text of `saying` contradict, if there is one.

    Beside cells that must fail it is the control, without which their failing means nothing: it has to say why.
    """
    telling = [what for what in wrong if testing.saying in what]
    if telling and (testing.saying or not testing.failing):
        return Judged(claim=claim, verdict=ClaimVerdict.CONTRADICTED, why=f"{place}: {telling[0]}")
    why = f"{place} failed for another reason than {testing.saying!r}: {wrong[0]}"
    if not testing.saying:
        why = f"{place}, beside which others should fail, failed too: {wrong[0]}"
    return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=why)


def _wrong(trial: Trial) -> str:
    """Return what is wrong with a launch, "" if it was completed and nothing of its treatment is unproven."""
    if not isinstance(trial.outcome, Completed):
        return trial.reason or "a launch was not completed"
    return trial.unproven


def _otherwise(trials: Iterable[Trial], saying: str) -> Iterator[str]:
    """Yield what shows that a launch of a cell that must fail did not fail for the reason that the claim is about.

    Without `saying` that is any failure of the launch itself: one that was ended at its time limit may only be slow,
    and one that is invalid or not proven measured something else.
    """
    for trial in trials:
        what = _wrong(trial)
        if saying and saying not in what:
            yield f"failed for another reason than {saying!r}: {what}"
        elif not saying and (not isinstance(trial.outcome, Failed) or what.startswith(NOT_ENDED)):
            yield f"did not fail by itself: {what}"


def stated(claim: Claim, testing: Stating, measured: MeasuredStudy) -> Judged:
    """Judge what ranks report of themselves: the claim holds if all ranks of all completed launches report it."""
    said = []
    for fact in testing.facts:
        if lacking := unavailable(claim, fact.place, measured):
            return lacking
        cell = measured.cell(fact.place)
        completed = [trial for trial in measured.of_cell(cell) if isinstance(trial.outcome, Completed)]
        values = {facts_of(rank).get(fact.name, "") for trial in completed for rank in trial.ranks}
        if not values or "" in values:
            why = f"no rank of {fact.place} reports {fact.name}" if not any(values) else f"not all report {fact.name}"
            return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=why)
        if wrong := sorted(value for value in values if not _agrees(value, fact)):
            why = f"{fact.place}: {fact.name} is {printable(wrong[0])}"
            return Judged(claim=claim, verdict=ClaimVerdict.CONTRADICTED, why=why)
        said.append(f"{fact.place}: {fact.name} is {printable(' or '.join(sorted(values)))}")
    return Judged(claim=claim, verdict=ClaimVerdict.REPRODUCED, why="; ".join(said))


def _agrees(value: str, fact: FactPattern) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in fact.patterns) != fact.differs
