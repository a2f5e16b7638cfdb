"""Find what the order of iterations within launches shows: a warm-up that is not reached, and dependence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import scipy

from tare.analysis.stats import FloatArray
from tare.analysis.summary.patterns import ALPHA, MIN_LAUNCHES, significant
from tare.model import Pattern, PatternKind

LEAST_WARM_UP: Final = math.log(1.02)
LEAST_DEPENDENCE: Final = 0.2
"""Smaller effects are not reported, however sure they are."""

OfLaunches = Mapping[tuple[str, str], tuple[FloatArray, FloatArray]]
"""By environment and metric: `stats.lag1_of_launches`, shape (n,), and `stats.profile_of_launches`, shape (n, 10)."""


def patterns_of_iterations(group: str, launches: OfLaunches, share: float = 1.0) -> tuple[Pattern, ...]:
    """Return the slow starts and the dependence of a group's iterations; `share` is the group's share of the error."""
    starts, dependences = [], []
    for (environment, metric), (lags, profiles) in launches.items():
        starts.append(_pattern(group, environment, metric, PatternKind.WARM_UP, profiles[:, 0]))
        dependences.append(_pattern(group, environment, metric, PatternKind.DEPENDENCE, lags))
    return (*_above(starts, LEAST_WARM_UP, share), *_above(dependences, LEAST_DEPENDENCE, share))


def _above(candidates: Iterable[Pattern], least: float, share: float) -> tuple[Pattern, ...]:
    return tuple(one for one in significant(candidates, least, ALPHA * share) if one.value > 0)


def _pattern(group: str, environment: str, metric: str, kind: PatternKind, values: FloatArray) -> Pattern:
    """Test whether the mean of the launches' values is above zero: Student's t, one-sided."""
    n = values.size
    mean = float(np.mean(values)) if n else 0.0
    p = 1.0
    if n >= MIN_LAUNCHES:
        error = float(np.std(values, ddof=1)) / math.sqrt(n)
        p = float(scipy.special.stdtr(n - 1, -mean / error)) if error > 0 else float(mean <= 0)
    return Pattern(group=group, environment=environment, metric=metric, kind=kind, value=mean, p_value=p, n=n)
