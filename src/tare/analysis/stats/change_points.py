"""Find the points at which a series of results changed its level: binary segmentation with tests of known error.

Source: circular binary segmentation (Olshen, Venkatraman, Lucito & Wigler, Biostatistics 5, 2004), which tests the
largest difference between any stretch of a series and the rest of it, so that a slowdown that was repaired later is
found as well. Their reference distribution is that of permutations, which cannot reach small p values with the ten
results that a history often has: here it is that of normal noise, simulated with a seed. The statistic does not depend
on the noise's size, so the distribution depends on the number of results alone (as in Worsley, JASA 74, 1979).
Related: Daly et al., "The use of change point detection to identify software performance regressions in a continuous
integration system", ICPE'20 (arXiv:2003.00584).

False alarms: with noise that is normal and independent, a series without a change is said to have one with probability
alpha. With alpha = 5 % and the heavy tails of Student's t with 4 degrees of freedom it is 5 % for 12 results and 11 %
for 30, because two bad days in a row look like a level (tests/unit/analysis/stats/test_change_points.py simulates all
three). Noise that is correlated from result to result, as of a machine that drifts, raises it further.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from tare.analysis.stats.arrays import ROUNDING, FloatArray, t_quantile, vector
from tare.model import Estimate

FEWEST: Final = 2
"""Results of a level: a single result that differs is not a change, because it cannot be told from a bad day."""
MOST_RESULTS: Final = 200
SIMULATIONS: Final = 9_999
_SEED: Final = 20_040_501
_TOGETHER: Final = 1_111
"""Simulated series that are examined together; all at once would take a gigabyte for 200 results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """A change of level: `at` is the index of the first result of the new one.

    `shift` is the difference of the new level and the one before, in the unit of the values, with an interval from the
    spread around all levels. `p_value`: two-sided t test between the two, which takes the place as given.
    """

    at: int
    shift: Estimate
    p_value: float


def change_points(
    values: ArrayLike, errors: ArrayLike = (), *, alpha: float = 0.05, least: float = 0.0, confidence: float = 0.95
) -> tuple[ChangePoint, ...]:
    """Return the changes of level in a series, in order.

    `values`, shape (n,): one per result in order of time, such as mean logs of costs. `errors`, shape (n,) or empty:
    their standard errors (0: unknown). The spread around a level is taken to be no smaller than the errors say, which
    can only prevent false alarms. `alpha` is the probability of a false alarm in a series without a change. Shifts
    smaller than `least` are not reported. The result is the same for the same input. Raises ValueError if values are
    not finite or there are more than MOST_RESULTS.
    """
    series = vector(values)
    if series.size > MOST_RESULTS:
        raise ValueError(f"{series.size} results: at most {MOST_RESULTS} are examined together")
    known = vector(errors)
    floor = float(np.mean(known**2)) if known.size else 0.0
    floor = max(floor, (ROUNDING * max(1.0, float(np.abs(series).max(initial=0.0)))) ** 2)
    cuts = sorted(_split(series, 0, floor, alpha, least))
    return _pruned(series, cuts, floor, alpha, least, confidence)


def levels(values: ArrayLike, changes: Sequence[ChangePoint]) -> tuple[tuple[int, int, float], ...]:
    """Return the levels between changes as (first index, index after the last, mean); none for no values."""
    series = vector(values)
    ends = [0, *(change.at for change in changes), series.size] if series.size else []
    return tuple((start, stop, float(series[start:stop].mean())) for start, stop in pairwise(ends))


def _split(series: FloatArray, offset: int, floor: float, alpha: float, least: float) -> Iterator[int]:
    """Yield the indices at which a stretch of the series divides significantly, and those of its parts."""
    n = series.size
    if n < 2 * FEWEST:
        return
    start, stop, gain = _best_stretch(series)
    total = float(np.square(series - series.mean()).sum())
    spread = max((total - gain) / (n - 2), floor)
    t_squared = gain / spread
    share = t_squared / (t_squared + n - 2)
    shift = math.sqrt(gain * n / ((stop - start) * (n - stop + start)))
    if shift < least or _p_value(share, n) > alpha:
        return
    cuts = [cut for cut in (start, stop) if 0 < cut < n]
    yield from (offset + cut for cut in cuts)
    for first, last in pairwise([0, *cuts, n]):
        yield from _split(series[first:last], offset + first, floor, alpha, least)


def _best_stretch(series: FloatArray) -> tuple[int, int, float]:
    """Return the stretch that differs most from the rest, and the sum of squares between the two."""
    best = (0, FEWEST, -1.0)
    for start, length, gains in _gains(series[None, :]):
        place = int(np.argmax(gains[0]))
        if gains[0, place] > best[2]:
            best = (start + place, start + place + length, float(gains[0, place]))
    return best


def _gains(series: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield first start, length and sums of squares between for all stretches of series of shape (m, n).

    No part of a series that a stretch leaves over has fewer than FEWEST results. A stretch at the end is the rest of
    one at the beginning.
    """
    n = series.shape[1]
    sums = np.zeros((series.shape[0], n + 1))
    np.cumsum(series - series.mean(axis=1, keepdims=True), axis=1, out=sums[:, 1:])
    for length in range(FEWEST, n - FEWEST + 1):
        weight = n / (length * (n - length))
        yield 0, length, sums[:, [length]] ** 2 * weight
        inner = sums[:, FEWEST + length : n - FEWEST + 1] - sums[:, FEWEST : n - FEWEST - length + 1]
        if inner.shape[1]:
            yield FEWEST, length, inner**2 * weight


def _p_value(share: float, n: int) -> float:
    """Return the probability that noise alone has a stretch which explains at least this share of its squares."""
    null = _null(n)
    return (1 + null.size - int(np.searchsorted(null, share))) / (1 + null.size)


@lru_cache(maxsize=MOST_RESULTS)
def _null(n: int) -> FloatArray:
    """Return the largest shares of squares that a stretch explains in simulated noise of length n, ascending."""
    generator = np.random.default_rng([_SEED, n])
    shares = np.empty(SIMULATIONS)
    for first in range(0, SIMULATIONS, _TOGETHER):
        noise = generator.standard_normal((_TOGETHER, n))
        largest = np.zeros(_TOGETHER)
        for _, _, gains in _gains(noise):
            np.maximum(largest, gains.max(axis=1), out=largest)
        shares[first : first + _TOGETHER] = largest / np.square(noise - noise.mean(axis=1, keepdims=True)).sum(axis=1)
    return np.sort(shares)


def _pruned(
    series: FloatArray, cuts: list[int], floor: float, alpha: float, least: float, confidence: float
) -> tuple[ChangePoint, ...]:
    """Return the changes without those that the levels on both sides do not support.

    A stretch has two ends, of which one may be arbitrary (Olshen et al., section 4).
    """
    while True:
        changes = [_change(series, cuts, place, floor, confidence) for place in range(len(cuts))]
        weak = [change for change in changes if change.p_value > alpha or abs(change.shift.value) < least]
        if not weak:
            return tuple(changes)
        cuts.remove(max(weak, key=lambda change: change.p_value).at)


def _change(series: FloatArray, cuts: Sequence[int], place: int, floor: float, confidence: float) -> ChangePoint:
    ends = [0, *cuts, series.size]
    parts = [series[start:stop] for start, stop in pairwise(ends)]
    before, after = parts[place], parts[place + 1]
    freedom = series.size - len(parts)
    squares = sum(float(np.square(part - part.mean()).sum()) for part in parts)
    error = math.sqrt(max(squares / freedom, floor) * (1 / before.size + 1 / after.size))
    shift = float(after.mean() - before.mean())
    half = t_quantile(freedom + 1, confidence) * error
    p_value = min(1.0, 2.0 * float(scipy.special.stdtr(freedom, -abs(shift) / error)))
    estimate = Estimate(value=shift, low=shift - half, high=shift + half, n=before.size + after.size)
    return ChangePoint(at=cuts[place], shift=estimate, p_value=p_value)
