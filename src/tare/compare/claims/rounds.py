"""Say what the rounds show of a contrast: its values by round, and tests of its region. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from numpy.typing import ArrayLike

from tare.analysis import stats
from tare.analysis.stats import MIN_ROUNDS
from tare.compare.claims.figures import MeasuredStudy
from tare.compare.claims.model import CellPattern, Contrast, Region, Slope
from tare.errors import ResultsError
from tare.model import Estimate

ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastEvidence:
    """What the rounds show of a contrast: p of "not in the region" and of "in the region", and its interval."""

    inside_p: float
    outside_p: float
    estimate: Estimate | None
    contrast: Contrast | Slope
    region: Region
    rounds: int
    label: str


def shown(contrast: Contrast | Slope, region: Region, measured: MeasuredStudy) -> ContrastEvidence:
    """Return what the rounds that all places of a contrast have show of it."""
    values, label = _grown(contrast, measured) if isinstance(contrast, Slope) else _of_contrast(contrast, measured)
    by_round = [values[number] for number in sorted(values)]
    if len(by_round) < MIN_ROUNDS:
        n = len(by_round)
        return ContrastEvidence(
            inside_p=1.0, outside_p=1.0, estimate=None, contrast=contrast, region=region, rounds=n, label=label
        )
    low, high = (_scaled(contrast, bound) for bound in (region.low, region.high))
    inside = inside_p(by_round, low, high, least=MIN_ROUNDS)
    outside = outside_p(by_round, low, high, least=MIN_ROUNDS)
    return ContrastEvidence(
        inside_p=outside if region.beyond else inside,
        outside_p=inside if region.beyond else outside,
        estimate=_estimate(contrast, by_round),
        contrast=contrast,
        region=region,
        rounds=len(by_round),
        label=label,
    )


def _of_contrast(contrast: Contrast, measured: MeasuredStudy) -> tuple[dict[int, float], str]:
    """Return the values of a contrast by round, in logarithms unless it counts, and the label of its columns."""
    read: Callable[[CellPattern], tuple[dict[int, float], str]] = measured.counts if contrast.counts else measured.logs
    found = [(*read(place), power) for place, power in contrast.places]
    common = set.intersection(*(set(logs) for logs, _, _ in found))
    values = {number: sum(power * logs[number] for logs, _, power in found) for number in common}
    return values, " / ".join(dict.fromkeys(label for _, label, _ in found))


def _grown(slope: Slope, measured: MeasuredStudy) -> tuple[dict[int, float], str]:
    """Return by round how much the line through the points grows from the least to the largest x.

    x is the mean over all rounds, so that its noise does not differ from round to round with that of the contrast.
    """
    xs, ys, labels = [], [], []
    for place, contrast in slope.points:
        numbers, x_label = measured.counts(place)
        values, y_label = _of_contrast(contrast, measured)
        xs.append(sum(numbers.values()) / len(numbers) if numbers else math.nan)
        ys.append(values)
        labels.append(f"{y_label} along {x_label}")
    label = next(iter(dict.fromkeys(labels)))
    if any(map(math.isnan, xs)):
        return {}, label
    if max(xs) == min(xs):
        raise ResultsError(f"all workloads have the same {label}", remedy="give workloads that differ in x")
    common = set.intersection(*map(set, ys))
    middle = sum(xs) / len(xs)
    weights = [(x - middle) / sum((each - middle) ** 2 for each in xs) * (max(xs) - min(xs)) for x in xs]
    return {number: sum(w * y[number] for w, y in zip(weights, ys, strict=True)) for number in common}, label


def _scaled(contrast: Contrast | Slope, bound: float | None) -> float | None:
    """Return a bound on the scale of a contrast's values."""
    if bound is None or contrast.counts:
        return bound
    return math.log(bound) if contrast.absolute else math.log1p(bound)


def _estimate(contrast: Contrast | Slope, values: Sequence[float]) -> Estimate | None:
    """Return a contrast with its interval: a difference, a product, or how much more than 1 that is."""
    found = stats.mean_interval(values, 1.0 - ALPHA)
    if not contrast.absolute or found is None:
        return found if contrast.counts else stats.paired_t(values, 1.0 - ALPHA)
    low, value, high = map(math.exp, (found.low, found.value, found.high))
    return Estimate(value=value, low=low, high=high, n=found.n)


def inside_p(values: ArrayLike | stats.Moments, low: float | None, high: float | None, *, least: int) -> float:
    """Return p of "the mean is not between both bounds": that of the bound that is less clearly kept.

    1 for fewer than `least` values.
    """
    above = 0.0 if low is None else stats.not_above_p(values, low, least=least)
    below = 0.0 if high is None else stats.not_below_p(values, high, least=least)
    return max(above, below)


def outside_p(values: ArrayLike | stats.Moments, low: float | None, high: float | None, *, least: int) -> float:
    """Return p of "the mean is between both bounds": that of the bound that is more clearly broken.

    With two bounds it is doubled, as either may be broken by chance. 1 for fewer than `least` values.
    """
    below = 1.0 if low is None else stats.not_below_p(values, low, least=least)
    above = 1.0 if high is None else stats.not_above_p(values, high, least=least)
    sides = 1 if low is None or high is None else 2
    return min(1.0, sides * min(below, above))
