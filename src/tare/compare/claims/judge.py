"""Judge claims from results: a verdict for each, all of them under Holm's control. Pure.

A contrast of costs is a sum of logarithms a round, so its mean has a t interval over rounds. A claim is a region of it.
Two one-sided tests show that the contrast is in the region, and one that it is outside (Schuirmann 1987); as only one
of both can be wrong, the clearer one is taken. Their p values are adjusted over all claims that are judged together
(Holm 1979), so that with 95 % probability none of the verdicts "reproduced" and "contradicted" is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tare.analysis import stats
from tare.analysis.stats import MIN_ROUNDS
from tare.compare.claims.certain_claims import ran, stated
from tare.compare.claims.counting import counted
from tare.compare.claims.figures import MeasuredStudy
from tare.compare.claims.model import (
    CellPattern,
    Claim,
    ClaimVerdict,
    Comparing,
    Contrast,
    Counting,
    Judged,
    Running,
    Stating,
    Test,
    Testing,
    Text,
    Undecided,
)
from tare.compare.claims.rounds import ALPHA, shown
from tare.errors import ResultsError


def judge(claims: Iterable[Claim], results: Mapping[str, MeasuredStudy]) -> tuple[Judged, ...]:
    """Return each claim with its verdict; `results` are those of studies, by the study's name.

    Raises `ResultsError` if results lack what a claim compares.
    """
    first = [_judged(claim, results) for claim in claims]
    tested = [number for number, each in enumerate(first) if each.p is not None]
    adjusted = stats.holm([first[number].p or 0.0 for number in tested])
    p_holm = dict(zip(tested, adjusted, strict=True))
    return tuple(_decided(each, p_holm.get(number)) for number, each in enumerate(first))


def _judged(claim: Claim, results: Mapping[str, MeasuredStudy]) -> Judged:
    """Return a claim with a verdict that does not consider the other claims."""
    by = claim.by
    if isinstance(by, Text):
        return Judged(claim=claim, verdict=by.verdict, why=f"by its own words: {by.because}")
    if isinstance(by, Undecided):
        study = f"; study {by.study} tests it then" if by.study else ""
        return Judged(claim=claim, verdict=ClaimVerdict.UNTESTABLE, why=f"needs {by.what}{study}")
    for name in studies_of(by):
        if name not in results:
            why = f"no results of study {name} are given"
            return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=why)
        if results[name].plan.study.thin:
            why = f"{results[name].label} is a thin run, which decides nothing"
            return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=why)
    measured = results[by.study]
    try:
        found = _found(claim, by.testing, measured, results)
    except ResultsError as error:
        raise ResultsError(f"claim {claim.number}: {error.message}", remedy=error.remedy) from error
    made = _unless_another(found, by, measured)
    here = [place for place in places_of(by) if place.study in {"", by.study}]
    return replace(made, results=measured.label, conditions=measured.conditions(here))


def _found(claim: Claim, testing: Testing, measured: MeasuredStudy, results: Mapping[str, MeasuredStudy]) -> Judged:
    def of_place(place: CellPattern) -> MeasuredStudy:
        return results[place.study] if place.study else measured

    if isinstance(testing, Comparing):
        return _compared(claim, testing, of_place)
    if isinstance(testing, Running):
        return ran(claim, testing, measured)
    if isinstance(testing, Counting):
        return counted(claim, testing, of_place)
    return stated(claim, testing, measured)


def places_of(test: Test) -> Iterator[CellPattern]:
    """Yield the places that a test looks at, but those of the x of a slope."""
    testing = test.testing
    if isinstance(testing, Running):
        yield from (*testing.places, *testing.failing)
    elif isinstance(testing, Counting):
        yield from (place for of, against, _ in testing.counts for place in (of, against) if place)
    elif isinstance(testing, Stating):
        yield from (fact.place for fact in testing.facts)
    else:
        yield from (place for contrast, _ in testing.contrasts for place, _ in contrast.places)


def studies_of(test: Test) -> tuple[str, ...]:
    """Return the studies that a test looks at, its own first."""
    return tuple(name for name in dict.fromkeys((test.study, *(place.study for place in places_of(test)))) if name)


def _decided(judged: Judged, p_holm: float | None) -> Judged:
    """Return a judged claim with Holm's p, which may leave it undecided."""
    if p_holm is None:
        return judged
    if p_holm <= ALPHA:
        return replace(judged, p_holm=p_holm)
    why = f"{judged.why}; not clear after correction for the number of claims"
    return replace(judged, p_holm=p_holm, verdict=ClaimVerdict.UNDECIDED, why=why)


def _unless_another(judged: Judged, test: Test, measured: MeasuredStudy) -> Judged:
    """Return a judged claim, undecided if another thing was measured than the claim is about."""
    if judged.verdict not in {ClaimVerdict.REPRODUCED, ClaimVerdict.CONTRADICTED}:
        return judged
    if test.rebuilt:
        return replace(judged, verdict=ClaimVerdict.UNDECIDED, why=f"rebuilt: {test.rebuilt} ({judged.why})", p=None)
    if measured.cores < test.cores:
        why = f"needs {test.cores} cores, had {measured.cores} ({judged.why})"
        return replace(judged, verdict=ClaimVerdict.UNDECIDED, why=why, p=None)
    return judged


def _compared(claim: Claim, testing: Comparing, measured_of: Callable[[CellPattern], MeasuredStudy]) -> Judged:
    """Judge a comparison by its contrasts, all of which must be in their regions; each is of one study."""
    found = [shown(contrast, region, measured_of(contrast.places[0][0])) for contrast, region in testing.contrasts]
    few = min(each.rounds for each in found)
    if few < MIN_ROUNDS:
        why = f"{few} rounds have all its cells, {MIN_ROUNDS} are needed"
        return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=why)
    inside_p = max(each.inside_p for each in found)
    outside_p = min(1.0, len(found) * min(each.outside_p for each in found))
    holds = inside_p <= outside_p
    deciding = max(found, key=lambda each: each.inside_p) if holds else min(found, key=lambda each: each.outside_p)
    plain = not deciding.contrast.absolute and not deciding.region.beyond
    drawn = deciding.contrast if plain and isinstance(deciding.contrast, Contrast) else None
    figure = f"{deciding.label}, {deciding.rounds} rounds"
    return Judged(
        claim=claim,
        verdict=ClaimVerdict.REPRODUCED if holds else ClaimVerdict.CONTRADICTED,
        why=figure,
        estimate=deciding.estimate,
        contrast=drawn,
        region=None if drawn is None else deciding.region,
        counts=deciding.contrast.counts or deciding.contrast.absolute,
        p=inside_p if holds else outside_p,
    )
