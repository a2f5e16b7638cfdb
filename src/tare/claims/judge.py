"""Judge claims from results: a verdict for each, all of them under Holm's control. Pure.

A contrast of costs is a sum of logarithms a round, so its mean has a t interval over rounds. A claim is a region of it.
Two one-sided tests show that the contrast is in the region, and one that it is outside (Schuirmann 1987); as only one
of both can be wrong, the clearer one is taken. Their p values are adjusted over all claims that are judged together
(Holm 1979), so that with 95 % probability none of the verdicts "reproduced" and "contradicted" is wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare import stats
from tare.claims.figures import Measured
from tare.claims.model import Claim, Comparing, Contrast, Judged, Needs, Place, Region, Running, Test, Text, Verdict
from tare.errors import ResultsError
from tare.model import Completed, Estimate, Trial
from tare.stats import MIN_ROUNDS

ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What the rounds show of a contrast: p of "not in the region" and of "in the region", and its interval."""

    inside_p: float
    outside_p: float
    estimate: Estimate | None
    contrast: Contrast
    region: Region
    rounds: int
    label: str


def judge(claims: Iterable[Claim], results: Mapping[str, Measured]) -> tuple[Judged, ...]:
    """Return each claim with its verdict; `results` are those of studies, by the study's name.

    Raises `ResultsError` if results lack what a claim compares.
    """
    first = [_judged(claim, results) for claim in claims]
    tested = [number for number, each in enumerate(first) if each.p is not None]
    adjusted = stats.holm([first[number].p or 0.0 for number in tested])
    p_holm = dict(zip(tested, adjusted, strict=True))
    return tuple(_decided(each, p_holm.get(number)) for number, each in enumerate(first))


def _judged(claim: Claim, results: Mapping[str, Measured]) -> Judged:
    """Return a claim with a verdict that does not consider the other claims."""
    by = claim.by
    if isinstance(by, Text):
        return Judged(claim=claim, verdict=by.verdict, why=f"by its own words: {by.because}")
    if isinstance(by, Needs):
        study = f"; study {by.study} does it where that is" if by.study else ""
        return Judged(claim=claim, verdict=Verdict.UNTESTABLE, why=f"needs {by.what}{study}")
    measured = results.get(by.study)
    if measured is None:
        why = f"no results of study {by.study} are given"
        return Judged(claim=claim, verdict=Verdict.UNDECIDED, why=why)
    if measured.plan.study.thin:
        return Judged(
            claim=claim, verdict=Verdict.UNDECIDED, why=f"{measured.label} is a thin run, which decides nothing"
        )
    try:
        testing = by.testing
        found = _ran(claim, testing, measured) if isinstance(testing, Running) else _compared(claim, testing, measured)
    except ResultsError as error:
        raise ResultsError(f"claim {claim.number}: {error}", remedy=error.remedy) from error
    made = _unless_another(found, by, measured)
    return replace(made, results=measured.label, conditions=measured.conditions(_places(by)))


def _places(test: Test) -> Iterator[Place]:
    """Yield the places that a test looks at."""
    if isinstance(test.testing, Running):
        yield from (*test.testing.places, *test.testing.failing)
    else:
        yield from (place for contrast, _ in test.testing.contrasts for place, _ in contrast.places)


def _decided(judged: Judged, p_holm: float | None) -> Judged:
    """Return a judged claim with Holm's p, which may leave it undecided."""
    if p_holm is None:
        return judged
    if p_holm <= ALPHA:
        return replace(judged, p_holm=p_holm)
    why = f"{judged.why}; not clear enough beside the other claims (p = {p_holm:.2g} after Holm)"
    return replace(judged, p_holm=p_holm, verdict=Verdict.UNDECIDED, why=why)


def _ran(claim: Claim, testing: Running, measured: Measured) -> Judged:
    """Judge whether cells run, and whether others fail."""
    launches, reasons = 0, Counter[str]()
    for place in (*testing.places, *testing.failing):
        cell = measured.cell(place)
        if reason := measured.plan.unavailable.get(cell.key):
            return Judged(claim=claim, verdict=Verdict.UNTESTABLE, why=f"{place} is unavailable: {reason}")
        trials = measured.of_cell(cell)
        if not trials:
            return Judged(claim=claim, verdict=Verdict.UNDECIDED, why=f"{place} has not been launched yet")
        wrong = [what for trial in trials if (what := _wrong(trial))]
        if place in testing.places and wrong:
            return Judged(claim=claim, verdict=Verdict.CONTRADICTED, why=f"{place}: {wrong[0]}")
        if place in testing.failing and len(wrong) < len(trials):
            why = f"{place}: {len(trials) - len(wrong)} of {len(trials)} launches completed"
            return Judged(claim=claim, verdict=Verdict.CONTRADICTED, why=why)
        other = [what for what in wrong if testing.saying not in what]
        if place in testing.failing and other:
            why = f"{place} failed for another reason than {testing.saying!r}: {other[0]}"
            return Judged(claim=claim, verdict=Verdict.UNDECIDED, why=why)
        reasons.update(wrong)
        launches += len(trials)
    why = f"{launches} launches completed, with the treatment proven"
    if testing.failing:
        why = f"{launches} launches: those that should complete did, the others failed ({next(iter(reasons))})"
    return Judged(claim=claim, verdict=Verdict.REPRODUCED, why=why)


def _unless_another(judged: Judged, test: Test, measured: Measured) -> Judged:
    """Return a judged claim, undecided if another thing was measured than the claim is about."""
    if judged.verdict not in {Verdict.REPRODUCED, Verdict.CONTRADICTED}:
        return judged
    if test.rebuilt:
        return replace(judged, verdict=Verdict.UNDECIDED, why=f"rebuilt: {test.rebuilt} ({judged.why})", p=None)
    if measured.cores < test.cores:
        why = f"needs {test.cores} cores, had {measured.cores} ({judged.why})"
        return replace(judged, verdict=Verdict.UNDECIDED, why=why, p=None)
    return judged


def _wrong(trial: Trial) -> str:
    """Return what is wrong with a launch, "" if it was completed and nothing of its treatment is unproven."""
    if not isinstance(trial.outcome, Completed):
        return str(getattr(trial.outcome, "reason", "") or "a launch was not completed")
    return trial.unproven


def _compared(claim: Claim, testing: Comparing, measured: Measured) -> Judged:
    """Judge a comparison by its contrasts, all of which must be in their regions."""
    shown = [_shown(contrast, region, measured) for contrast, region in testing.contrasts]
    few = min(each.rounds for each in shown)
    if few < MIN_ROUNDS:
        why = f"{few} rounds have all its cells, {MIN_ROUNDS} are needed"
        return Judged(claim=claim, verdict=Verdict.UNDECIDED, why=why)
    inside_p = max(each.inside_p for each in shown)
    outside_p = min(1.0, len(shown) * min(each.outside_p for each in shown))
    holds = inside_p <= outside_p
    deciding = max(shown, key=lambda each: each.inside_p) if holds else min(shown, key=lambda each: each.outside_p)
    figure = f"{deciding.label}, {deciding.rounds} rounds"
    return Judged(
        claim=claim,
        verdict=Verdict.REPRODUCED if holds else Verdict.CONTRADICTED,
        why=figure,
        estimate=deciding.estimate,
        contrast=deciding.contrast,
        region=deciding.region,
        counts=testing.contrasts[0][0].counts,
        p=inside_p if holds else outside_p,
    )


def _shown(contrast: Contrast, region: Region, measured: Measured) -> _Shown:
    """Return what the rounds that all places of a contrast have show of it."""
    read = measured.counts if contrast.counts else measured.logs
    found = [(*read(place), power) for place, power in contrast.places]
    common = sorted(set.intersection(*(set(logs) for logs, _, _ in found)))
    values = [sum(power * logs[number] for logs, _, power in found) for number in common]
    label = " / ".join(dict.fromkeys(label for _, label, _ in found))
    if len(values) < MIN_ROUNDS:
        return _Shown(
            inside_p=1.0,
            outside_p=1.0,
            estimate=None,
            contrast=contrast,
            region=region,
            rounds=len(values),
            label=label,
        )
    low, high = region.low, region.high
    if not contrast.counts:
        low, high = (None if bound is None else math.log1p(bound) for bound in (low, high))
    confidence = 1.0 - ALPHA
    return _Shown(
        inside_p=_inside_p(values, low, high),
        outside_p=_outside_p(values, low, high),
        estimate=stats.mean_interval(values, confidence) if contrast.counts else stats.paired_t(values, confidence),
        contrast=contrast,
        region=region,
        rounds=len(values),
        label=label,
    )


def _inside_p(values: Sequence[float], low: float | None, high: float | None) -> float:
    """Return p of "the mean is not between both bounds": that of the bound that is less clearly kept."""
    above = 0.0 if low is None else stats.not_above_p(values, low)
    below = 0.0 if high is None else stats.not_above_p([-value for value in values], -high)
    return max(above, below)


def _outside_p(values: Sequence[float], low: float | None, high: float | None) -> float:
    """Return p of "the mean is between both bounds": that of the bound that is more clearly broken."""
    below = 1.0 if low is None else stats.not_above_p([-value for value in values], -low)
    above = 1.0 if high is None else stats.not_above_p(values, high)
    return min(below, above)
