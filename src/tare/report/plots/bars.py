"""Draw the interval bars of the first screen as inline SVG, with one scale per column, so that cells are comparable.

The scale is linear up to about 10 % and compressed beyond (asinh), so that a margin of 2 % and a cost of 60 % are both
visible in one column; the ticks are in the column's header.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from tare.model import Estimate
from tare.report import units

WIDTH: Final = 160.0
HEIGHT: Final = 13.0
_EDGE: Final = 6.0
_LINEAR_TO: Final = 0.10
_TICKS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
_ADVANCES: Final = {" ": 3.0, ".": 3.0, ",": 3.0, "%": 8.9, "+": 7.8, units.MINUS: 7.8, "×": 7.8}
"""Widths of characters in units of the drawing, in DejaVu Sans at 9.2 px, the widest of the page's usual fonts."""
_DIGIT_ADVANCE: Final = 5.9
_GAP: Final = 8.0
"""Least distance between neighbouring labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The text of a tick, its anchor point, and its left and right edges."""

    text: str
    at: float
    anchor: str
    left: float
    right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The position of an overhead in a bar, in units of the drawing."""

    low: float
    high: float

    @classmethod
    def of(cls, estimates: Iterable[Estimate], margin: float) -> Scale:
        """Return a scale that contains zero, twice the margin on both sides, and all these intervals."""
        bounds = [bound for estimate in estimates for bound in (estimate.low, estimate.high) if math.isfinite(bound)]
        return cls(low=_compress(min([-2 * margin, *bounds])), high=_compress(max([2 * margin, *bounds])))

    @classmethod
    def around(cls, overheads: Iterable[float]) -> Scale:
        """Return a scale that contains zero and these overheads, with a quarter of their range on both sides."""
        places = [0.0, *(_compress(overhead) for overhead in overheads if math.isfinite(overhead))]
        room = (max(places) - min(places)) / 4 or 1.0
        return cls(low=min(places) - room, high=max(places) + room)

    def x(self, overhead: float) -> float:
        """Return the position of an overhead, clipped to the drawing."""
        part = (_compress(overhead) - self.low) / (self.high - self.low)
        return round(_EDGE + min(1.0, max(0.0, part)) * (WIDTH - 2 * _EDGE), 1)

    def ticks(self) -> list[float]:
        """Return zero and at most three round overheads whose labels do not overlap; larger ones take precedence."""
        chosen = [0.0]
        for tick in (tick for size in reversed(_TICKS) for tick in (size, -size)):
            inside = self.low <= _compress(tick) <= self.high
            if inside and len(chosen) < 4 and all(_are_apart(self.label(tick), self.label(other)) for other in chosen):
                chosen.append(tick)
        return sorted(chosen)

    def label(self, tick: float) -> Label:
        """Return the label of a tick; near an edge it is aligned inwards."""
        text = "0" if tick == 0 else units.percent(tick).replace(".0 ", " ").removesuffix(".0")
        x, width = self.x(tick), sum(_ADVANCES.get(character, _DIGIT_ADVANCE) for character in text)
        if x < width / 2:
            return Label(text=text, at=x - 2, anchor="start", left=x - 2, right=x - 2 + width)
        if x > WIDTH - width / 2:
            return Label(text=text, at=x + 5, anchor="end", left=x + 5 - width, right=x + 5)
        return Label(text=text, at=x, anchor="middle", left=x - width / 2, right=x + width / 2)


def _are_apart(one: Label, other: Label) -> bool:
    return one.left >= other.right + _GAP or other.left >= one.right + _GAP


def _compress(overhead: float) -> float:
    return math.asinh(overhead / _LINEAR_TO)


def axis(scale: Scale) -> Markup:
    """Return the tick labels of a column."""
    parts = []
    for tick in scale.ticks():
        label = scale.label(tick)
        parts.append(f'<text x="{label.at}" y="9" text-anchor="{label.anchor}">{label.text}</text>')
        parts.append(f'<path class="tick" d="M{scale.x(tick)} 11V14"/>')
    return picture(parts, 14)


def bar(
    scale: Scale, estimate: Estimate | None, outer: Estimate | None, noise: Estimate | None, margin: float
) -> Markup:
    """Return the bar of one cell: noise floor and margin in the background, interval thick, adjusted interval thin."""
    middle = HEIGHT / 2
    parts = []
    if noise is not None:
        left, right = scale.x(noise.low), scale.x(noise.high)
        parts.append(
            f'<rect class="floor" x="{left}" y="0" width="{max(1.0, round(right - left, 1))}" height="{HEIGHT:g}"/>'
        )
    parts += [f'<path class="margin" d="M{scale.x(bound)} 0V{HEIGHT:g}"/>' for bound in (-margin, margin)]
    parts.append(f'<path class="zero" d="M{scale.x(0.0)} 0V{HEIGHT:g}"/>')
    if outer is not None:
        parts.append(f'<path class="outer" d="M{scale.x(outer.low)} {middle:g}H{scale.x(outer.high)}"/>')
    if estimate is not None:
        parts.append(interval(scale.x(estimate.low), scale.x(estimate.value), scale.x(estimate.high), middle))
    return picture(parts)


def interval(left: float, at: float, right: float, middle: float) -> str:
    """Return an interval as a thick bar, and its value as a point on it."""
    width = max(1.5, round(right - left, 1))
    bar = f'<rect class="inner" x="{left}" y="{middle - 2.75:g}" width="{width}" height="5.5" rx="1"/>'
    return f'{bar}<circle class="point" cx="{at}" cy="{middle:g}" r="3.6"/>'


def picture(parts: Iterable[str], height: float = HEIGHT, css: str = "bar", label: str = "") -> Markup:
    """Return parts, numbers and fixed text only, as an element; without a label it is for those who see it."""
    told = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true" focusable="false"'
    opening = f'<svg class="{css}" viewBox="0 0 {WIDTH:g} {height:g}" {told}>'
    return Markup("".join([opening, *parts, "</svg>"]))  # noqa: S704 - as above; the label is escaped
