"""Judge what every launch counts: each is held against the claim's range, and so is the interval of their mean. Pure.

Packets and bytes hardly vary from launch to launch. One launch is enough to see that it is in a range ten times as wide
as they vary, but not how sure that is. With LAUNCHES or more, the mean has a t interval over launches (Welch's, between
the launches of two cells, which no round pairs), and its p is adjusted together with those of the other claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare.analysis import stats
from tare.compare.claims.certain_claims import unavailable
from tare.compare.claims.figures import MeasuredStudy
from tare.compare.claims.model import CellPattern, Claim, ClaimVerdict, Contrast, Counting, Judged, Region
from tare.compare.claims.rounds import ALPHA, inside_p, outside_p

LAUNCHES: Final = 3
"""With as many launches of each cell a number has an interval: that of t, which is wide with so few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """A number of a cell's launches, or how much more it is than that of another cell's; `said` in words."""

    numbers: Sequence[float]
    others: Sequence[float] | None
    contrast: Contrast
    region: Region
    said: str

    @property
    def inside(self) -> float:
        """Return the share of launches, or of pairs of launches of two cells, that are in the region."""
        values = _differences(self.numbers, self.others)
        return sum(_is_in(value, self.region) for value in values) / len(values)

    @property
    def moments(self) -> stats.Moments:
        """Return the mean, its error, and the launches, or for two cells those that Welch's test has."""
        if self.others is None:
            return stats.moments_of(stats.vector(self.numbers), 0.0)
        return stats.two_sample(self.others, self.numbers)


def counted(claim: Claim, testing: Counting, of: Callable[[CellPattern], MeasuredStudy]) -> Judged:
    """Judge numbers that hardly vary: the claim holds if every launch is in the region.

    With a second cell, every launch is held against every one of that cell. It is contradicted if one of its numbers is
    outside in all launches.
    """
    found = []
    for place, against, region in testing.counts:
        for each in (place, against):
            if each is not None and (lacking := unavailable(claim, each, of(each))):
                return lacking
        numbers, label = of(place).each(place)
        others = None if against is None else of(against).each(against)[0]
        values = _differences(numbers, others)
        if not values:
            why = f"no launch has {label} of {place}" + ("" if against is None else f" and of {against}")
            return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=why)
        places = ((place, 1),) if against is None else ((place, 1), (against, -1))
        found.append(
            _Counted(
                numbers=numbers,
                others=others,
                contrast=Contrast(places=places, counts=True),
                region=region,
                said=_said(place, against, values, label),
            )
        )
    return _decided(claim, found)


def _decided(claim: Claim, found: Sequence[_Counted]) -> Judged:
    """Return a claim with its verdict: by every launch, and with the interval that decides where there is one."""
    if outside := [each for each in found if each.inside == 0.0]:
        deciding = min(outside, key=_outside_p)
        p = min(1.0, len(found) * _outside_p(deciding))
        return _with_interval(Judged(claim=claim, verdict=ClaimVerdict.CONTRADICTED, why=deciding.said), deciding, p)
    least = min(found, key=lambda each: each.inside)
    if least.inside < 1.0:
        return Judged(claim=claim, verdict=ClaimVerdict.UNDECIDED, why=f"{least.said}: launches differ")
    deciding = max(found, key=_inside_p)
    made = Judged(claim=claim, verdict=ClaimVerdict.REPRODUCED, why="; ".join(each.said for each in found))
    return _with_interval(made, deciding, _inside_p(deciding))


def _with_interval(made: Judged, deciding: _Counted, p: float) -> Judged:
    """Return a judged claim with the interval and p of the number that decides, if its launches vary and are enough."""
    estimate = stats.mean_interval(deciding.moments, 1.0 - ALPHA)
    if estimate is None or estimate.low == estimate.high or deciding.moments.n < LAUNCHES:
        return made
    return replace(made, estimate=estimate, contrast=deciding.contrast, region=deciding.region, counts=True, p=p)


def _inside_p(each: _Counted) -> float:
    return inside_p(each.moments, each.region.low, each.region.high, least=LAUNCHES)


def _outside_p(each: _Counted) -> float:
    return outside_p(each.moments, each.region.low, each.region.high, least=LAUNCHES)


def _differences(numbers: Sequence[float], others: Sequence[float] | None) -> list[float]:
    return list(numbers) if others is None else [number - other for number in numbers for other in others]


def _said(place: CellPattern, against: CellPattern | None, values: Sequence[float], label: str) -> str:
    """Say how many of something launches have, or how many more or less than those of another cell."""
    lowest, highest = min(values), max(values)
    fewer = against is not None and highest < 0
    if fewer:
        lowest, highest = -highest, -lowest
    range_ = " to ".join(dict.fromkeys(f"{value:.4g}" for value in (lowest, highest)))
    than = "" if against is None else f" {'less' if fewer else 'more'} than {against}"
    times = f", in each of {len(values)} comparisons" if against is not None and len(values) > 1 else ""
    return f"{place} has {range_} {label}{than}{times}"


def _is_in(value: float, region: Region) -> bool:
    return (region.low is None or value > region.low) and (region.high is None or value < region.high)
