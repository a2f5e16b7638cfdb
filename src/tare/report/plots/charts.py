"""What a figure shows, without how it is drawn: two axes, and marks in the units of the axes.

`tare.report.plots.svg` draws it, for the page and for files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

NEUTRAL: Final = "#808c9b"
"""The colour of lines that belong to no environment; it is visible on light and on dark pages."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from `low` (left or bottom) to `high`; `ticks` are positions with their labels."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    log: bool = False
    grid: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """Symbols at points; `texts` are the tooltips of the points, if they have any. `name` is for the legend."""

    x: Sequence[float] | Floats
    y: Sequence[float] | Floats
    colour: str
    symbol: str = "circle"
    size: float = 6.0
    name: str = ""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Intervals from `low` to `high` at positions `at` of the other axis; `upright` ones are along the y axis."""

    at: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str
    width: float
    upright: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line through points in their order, or a step function of them. `name` is for the legend."""

    x: Sequence[float] | Floats
    y: Sequence[float] | Floats
    colour: str
    dash: str = "solid"
    width: float = 1.8
    step: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """The area between two lines over the same `x`. `name` is for the legend."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str
    opacity: float = 0.25
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A shaded range of the x axis over the full height."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A line over the full height at a position of the x axis, or over the full width if not `upright`."""

    at: float
    dash: str = "solid"
    upright: bool = True
    faint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The quartiles and whiskers of values in row `row` of the y axis."""

    row: float
    values: tuple[float, float, float, float, float]
    colour: str


Mark = Dots | Ranges | Line | Area | Band | Rule | Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure; marks are drawn in their order. `row_texts` stand on the right, at positions of the y axis."""

    height: float
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    row_texts: tuple[tuple[float, str], ...] = ()
    legend: bool = False
    wide: bool = False


def row_axis(names: Sequence[str]) -> Axis:
    """Return an axis that lists these names from top to bottom, at 0, 1, 2, ..."""
    return Axis(low=len(names) - 0.4, high=-0.6, ticks=tuple(enumerate(map(str, names))), grid=False)


def linear_axis(low: float, high: float, title: str = "", suffix: str = "", *, signed: bool = False) -> Axis:
    """Return an axis over a range, with four to eight round ticks."""
    if not low < high:
        low, high = low - max(abs(low), 1e-9) * 0.05, high + max(abs(high), 1e-9) * 0.05
    step = _round_step((high - low) / 5)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    places = [float(f"{number * step:.10g}") for number in range(first, last + 1)]
    return Axis(
        low=low,
        high=high,
        title=title,
        ticks=tuple((at, f"{_number(at, signed)}{suffix if at else ''}") for at in places),
    )


def _round_step(rough: float) -> float:
    power = 10.0 ** np.floor(np.log10(rough))
    return float(power * next(step for step in (1, 2, 5, 10) if step * power >= rough * 0.999))


def _number(value: float, signed: bool = False) -> str:
    text = f"{value:+,.6g}" if signed and value else f"{value:,.6g}"
    return text.replace("-", "\u2212")


def log_axis(low: float, high: float, title: str = "") -> Axis:
    """Return a logarithmic axis over a positive range."""
    low = max(low, 1e-12)
    high = max(high, low * 1.001)
    return Axis(
        low=low, high=high, title=title, log=True, ticks=tuple((at, _number(at)) for at in _log_ticks(low, high))
    )


def _log_ticks(low: float, high: float) -> list[float]:
    """Return at most nine round numbers, with the finest steps that give no more."""
    powers = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    ticks: list[float] = []
    for steps in (tuple(range(1, 10)), (1, 2, 5), (1, 3), (1,)):
        ticks = [
            float(f"{step * 10.0**power:.3g}")
            for power in powers
            for step in steps
            if low * 0.999 <= step * 10.0**power <= high * 1.001
        ]
        if len(ticks) <= 9:
            break
    if len(ticks) > 9:
        return ticks[:: -(-len(ticks) // 9)]
    return ticks if len(ticks) >= 2 else [at for at, _ in linear_axis(low, high).ticks]


def padded(low: float, high: float, part: float = 0.04, *, log: bool = False) -> tuple[float, float]:
    """Return a range that is wider by this part of its width on both sides."""
    if log and low > 0:
        factor = (high / low) ** part if high > low else 1.05
        return low / factor, high * factor
    pad = (high - low) * part or abs(high) * 0.05 or 1.0
    return low - pad, high + pad
