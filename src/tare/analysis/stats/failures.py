"""Failure rates of launches: the interval of a share, and tests of two shares. Exact, because counts are small."""

from __future__ import annotations

from functools import lru_cache

import scipy


@lru_cache(maxsize=4096)
def share_interval(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share (Clopper & Pearson, Biometrika 26, 1934); (0, 1) for n = 0."""
    tail = (1.0 - confidence) / 2.0
    low = float(scipy.special.betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(scipy.special.betaincinv(hits + 1, n - hits, 1.0 - tail)) if hits < n else 1.0
    return low, high


def more_often_p(hits: int, n: int, base_hits: int, base_n: int) -> float:
    """Return the one-sided p of "not more often than the base" (Fisher's exact test); 1 without hits or launches."""
    if n == 0 or base_n == 0 or hits == 0:
        return 1.0
    return _tail(hits, n, base_hits, base_n)


def as_often_p(hits: int, n: int, base_hits: int, base_n: int) -> float:
    """Return the two-sided p of "as often as the base": twice the smaller tail of Fisher's exact test, at most 1."""
    if n == 0 or base_n == 0:
        return 1.0
    return min(1.0, 2.0 * min(_tail(hits, n, base_hits, base_n), _tail(base_hits, base_n, hits, n)))


def missed_share(n: int, confidence: float = 0.95) -> float:
    """Return the largest share of events that n launches may all have missed: (1 - share)^n = 1 - confidence."""
    return 1.0 - (1.0 - confidence) ** (1.0 / n) if n else 1.0


@lru_cache(maxsize=4096)
def _tail(hits: int, n: int, base_hits: int, base_n: int) -> float:
    """Return P(at least `hits` hits in the first row), given the margins of the table."""
    return min(1.0, float(scipy.stats.hypergeom.sf(hits - 1, n + base_n, hits + base_hits, n)))
