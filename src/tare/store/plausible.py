"""Explain why a figure is implausible: the statistics take logarithms of costs, and the plots powers of them. Pure.

Launches are checked when they end (`tare.workloads.gate`), and stored ones when they are read (`tare.store.results`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tare.model import Figure, Metric

LEAST_S: Final = 1e-15
MOST_S: Final = 1e10
"""Bounds of a cost: no clock resolves less than a femtosecond, and no launch takes 300 years.

Within them no ratio, square or sum in a study comes near the limits of a double.
"""

MOST_DONE: Final = 1e30
"""Bound of the work in one sample, and of a figure: the largest class of an application does 1e17 operations."""

MOST_DIGITS: Final = 19
"""Digits of an integer in results: those of counters and of numbers of namespaces."""

_TIMES: Final = ("median_s", "p99_s", "rank_average_s", "loop_s", "turn_mean_s", "turn_spread_s")


def why_no_figures(metrics: tuple[Metric, ...], figures: tuple[Figure, ...]) -> str:
    """Return why the values that a launch reported are impossible, or ""."""
    return next((why for complaints in (_of_metrics(metrics), _of_figures(figures)) for why in complaints), "")


def is_time(seconds: float) -> bool:
    """Return whether a duration is plausible; zero is."""
    return 0 <= seconds <= MOST_S


def _of_metrics(metrics: tuple[Metric, ...]) -> Iterator[str]:
    for metric in metrics:
        if not LEAST_S <= metric.value <= MOST_S:
            yield f"{metric.label} is {metric.value:g} s, which is impossible"
        times = tuple(getattr(metric, name) or 0.0 for name in _TIMES)
        if not all(map(is_time, times)):
            what, seconds = next(item for item in zip(_TIMES, times, strict=True) if not is_time(item[1]))
            yield f"{what} of {metric.label} is {seconds:g}, which is impossible"
        if not 0 <= metric.done_per_sample <= MOST_DONE:
            yield f"a sample of {metric.label} does {metric.done_per_sample:g} {metric.rate_unit}, which is impossible"
        if metric.samples < 0 or metric.late < 0 or (metric.message_bytes or 0) < 0:
            yield f"{metric.label} has a negative count"


def _of_figures(figures: tuple[Figure, ...]) -> Iterator[str]:
    for figure in figures:
        if not (math.isfinite(figure.value) and abs(figure.value) <= MOST_DONE):
            yield f"{figure.label} is {figure.value:g}, which is impossible"
