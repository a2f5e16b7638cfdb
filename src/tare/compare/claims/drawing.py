"""Draw the figure of a claim as inline SVG, with what the claim says behind it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from tare.compare.claims.model import Region
from tare.compare.claims.wording import bound_text, words
from tare.model import Estimate
from tare.report.plots.bars import WIDTH, Scale, interval, picture

BAND: Final = 17.0
"""Height of the drawing above the labels of bounds."""
HEIGHT: Final = 29.0
_LINEAR: Final = 100.0
"""Counts are divided by this many times the largest, where the scale of overheads is linear."""
_ADVANCE: Final = 5.6
"""Mean width of a character of a label, in units of the drawing."""
_APART: Final = 6.0


@dataclass(frozen=True, slots=True)
class _Axis:
    """The position of figures of one claim: overheads as in the report, compressed beyond 10 %; counts linear."""

    scale: Scale
    unit: float

    def x(self, figure: float) -> float:
        return self.scale.x(figure / self.unit)


def drawing(estimate: Estimate, region: Region, *, counts: bool) -> Markup:
    """Return the interval of a claim's figure over the region in which the claim puts it."""
    axis = _axis(estimate, region, counts=counts)
    name = f"{words(region, counts=counts)} is claimed; {position(estimate, region)}"
    low, at, high = map(axis.x, (estimate.low, estimate.value, estimate.high))
    parts = [
        *_region(axis, region),
        f'<path class="zero" d="M{axis.x(0.0)} 0V{BAND:g}"/>',
        interval(low, at, high, BAND / 2),
        *_labels(axis, region, counts=counts),
    ]
    return picture(parts, HEIGHT, "bar claim", name)


def position(estimate: Estimate, region: Region) -> str:
    """Say where the interval of a figure lies, seen from a region."""
    low, high = _ends(region)
    if low <= estimate.low and estimate.high <= high:
        return "the whole interval is inside"
    if estimate.high < low or high < estimate.low:
        return "the whole interval is outside"
    return "the interval is partly inside"


def _ends(region: Region) -> tuple[float, float]:
    low = -math.inf if region.low is None else region.low
    return low, math.inf if region.high is None else region.high


def _axis(estimate: Estimate, region: Region, *, counts: bool) -> _Axis:
    figures = [
        figure
        for figure in (estimate.value, estimate.low, estimate.high, region.low, region.high)
        if figure is not None and math.isfinite(figure)
    ]
    unit = (_LINEAR * max((abs(figure) for figure in figures), default=0.0) or 1.0) if counts else 1.0
    return _Axis(Scale.around(figure / unit for figure in figures), unit)


def _region(axis: _Axis, region: Region) -> Iterator[str]:
    """Yield the region, which reaches the edge where it has no bound, and a line at each bound."""
    left = 0.0 if region.low is None else axis.x(region.low)
    right = WIDTH if region.high is None else axis.x(region.high)
    width = max(1.0, round(right - left, 1))
    yield f'<rect class="region" x="{left:g}" y="0" width="{width:g}" height="{BAND:g}"/>'
    for bound in (region.low, region.high):
        if bound is not None:
            yield f'<path class="edge" d="M{axis.x(bound)} 0V{BAND + 2:g}"/>'


def _labels(axis: _Axis, region: Region, *, counts: bool) -> Iterator[str]:
    """Yield the labels of the bounds, those of two bounds outwards from the region, and that of zero if it has room."""
    bounds = [bound for bound in (region.low, region.high) if bound is not None]
    taken = []
    for bound, outwards in zip(bounds, ("end", "start") if len(bounds) > 1 else ("middle",), strict=False):
        text = bound_text(bound, counts=counts)
        wide, at = len(text) * _ADVANCE, axis.x(bound)
        left = {"end": at + 4 - wide, "start": at - 4, "middle": at - wide / 2}[outwards]
        left = min(max(0.0, left), WIDTH - wide) if outwards == "middle" else left
        taken.append((left, left + wide))
        yield _label(left if outwards != "end" else left + wide, text, "end" if outwards == "end" else "start")
    zero = axis.x(0.0)
    if 0.0 not in bounds and all(zero + _APART < left or right < zero - _APART for left, right in taken):
        yield _label(zero, "0", "middle")


def _label(at: float, text: str, anchor: str) -> str:
    return f'<text x="{at:.1f}" y="{HEIGHT - 1.5:g}" text-anchor="{anchor}">{escape(text)}</text>'
