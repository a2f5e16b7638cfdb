"""Draw charts as SVG. Colours of text, axes and grid are classes, so that one drawing serves light, dark and print.

Points that fall on the same place of the drawing are drawn once, so that the size of a drawing is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Final

import numpy as np
from markupsafe import Markup, escape

from tare.report.plots.charts import Area, Axis, Band, Box, Chart, Dots, Floats, Line, Ranges, Rule
from tare.report.plots.symbols import outline

WIDTH: Final = 600.0
WIDE: Final = 1240.0
MANY: Final = 2_000
"""From this many points of one environment, each is a dot of one unit of the drawing."""
LONGEST: Final = 30
"""Characters of a label; longer ones are cut."""
_ADVANCE: Final = 6.5
"""Mean width of a character of a label."""
_HALVES: Final = tuple(f"{number / 2:g}" for number in range(2 * int(WIDE) + 100))
"""Coordinates on a grid of half a unit as text; a page may have millions of them."""
_DASHES: Final = {
    "dash": "6 4", "dot": "1.5 3", "dashdot": "7 3 1.5 3", "longdash": "11 4", "longdashdot": "11 4 1.5 4",
}  # fmt: skip
FIXED_STYLE: Final = (
    "svg{background:#fff;font-family:'DejaVu Sans',Helvetica,Arial,sans-serif}"
    ".t{font-size:11.5px;fill:#16202b}.m{fill:#566272}.g{stroke:#e8ecf0;fill:none}.l{stroke:#808c9b;fill:none}"
    ".band{fill:#808c9b;fill-opacity:.22}.box{fill:#808c9b;fill-opacity:.12}.halo{stroke:#fff}"
)
"""The style of drawings outside of the page, where the page's style sheet does not apply."""


def svg(chart: Chart, ident: str, title: str, description: str) -> Markup:
    """Return a chart as an SVG element for the page, with a title and a description for those who cannot see it."""
    return Markup(_Drawing(chart).element(ident, title, description))  # noqa: S704 - texts are escaped as they are drawn


def svg_file(drawn: Markup) -> str:
    """Return a drawing of `svg` as a file that needs no page."""
    head, rest = str(drawn).split(">", 1)
    width, height = head.split('viewBox="0 0 ')[1].split('"')[0].split()
    opening = f'{head} xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{opening}><style>{FIXED_STYLE}</style>{rest}\n'


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _n(value: float) -> str:
    """Return a coordinate with one digit after the point."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


@dataclass(frozen=True, slots=True)
class _Scale:
    """Positions of an axis' values in the drawing."""

    axis: Axis
    start: float
    length: float

    def __call__(self, values: Sequence[float] | Floats | float) -> Floats:
        """Return positions, shape (n,); values outside of the axis are clipped to a little beyond it."""
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
        low, high = self.axis.low, self.axis.high
        if self.axis.log:
            array = np.log(np.maximum(array, 1e-300))
            low, high = float(np.log(low)), float(np.log(high))
        parts = (array - low) / (high - low)
        parts = np.minimum(np.maximum(parts, -0.02), 1.02)
        if np.isnan(parts).any():
            parts = np.where(np.isnan(parts), -0.02, parts)
        placed: Floats = self.start + parts * self.length
        return placed

    def one(self, value: float) -> float:
        """Return the position of one value."""
        return float(self(value)[0])


class _Drawing:
    """One chart: its margins, its scales, and the parts that are drawn."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.width = WIDE if chart.wide else WIDTH
        self.legend = list(_legend(chart, self.width)) if chart.legend else []
        labels = max((len(_short(text)) for _, text in chart.y.ticks), default=0)
        notes = max((len(_short(text)) for _, text in chart.row_texts), default=0)
        self.left = 12 + labels * _ADVANCE + (18 if chart.y.title else 0)
        self.right = self.width - (14 + notes * _ADVANCE if notes else 16)
        self.top = 10.0 + (18 * (1 + max(line for _, line, _, _ in self.legend)) if self.legend else 0)
        self.bottom = chart.height - (42 if chart.x.title else 26)
        self.x = _Scale(chart.x, self.left, self.right - self.left)
        self.y = _Scale(chart.y, self.bottom, self.top - self.bottom)

    def element(self, ident: str, title: str, description: str) -> str:
        """Return the whole drawing."""
        name = escape(ident)
        draw = self.draw  # each look at a single-dispatch method makes a function
        parts = [
            f'<svg class="chart" viewBox="0 0 {_n(self.width)} {_n(self.chart.height)}" role="img" ',
            f'aria-labelledby="{name}-t {name}-d">',
            f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>',
            *self._axes(),
            *(part for mark in self.chart.marks for part in draw(mark)),
            *self._row_texts(),
            *self._legend(),
            "</svg>",
        ]
        return "".join(parts)

    # --- around the marks ---

    def _axes(self) -> Iterator[str]:
        chart, left, right, top, bottom = self.chart, self.left, self.right, self.top, self.bottom
        places = [(self.x.one(at), text) for at, text in chart.x.ticks]
        kept = _apart(places)
        if chart.x.grid:
            yield f'<path class="g" d="{"".join(f"M{_n(x)} {_n(top)}V{_n(bottom)}" for x, _ in kept)}"/>'
        rows = [(self.y.one(at), text) for at, text in chart.y.ticks]
        if chart.y.grid:
            yield f'<path class="g" d="{"".join(f"M{_n(left)} {_n(y)}H{_n(right)}" for y, _ in rows)}"/>'
        yield f'<path class="l" d="M{_n(left)} {_n(bottom)}H{_n(right)}"/>'
        yield '<g class="t" text-anchor="middle">'
        yield from (f'<text x="{_n(x)}" y="{_n(bottom + 15)}">{escape(_short(text))}</text>' for x, text in kept)
        yield '</g><g class="t" text-anchor="end">'
        yield from (f'<text x="{_n(left - 6)}" y="{_n(y + 4)}">{escape(_short(text))}</text>' for y, text in rows)
        yield "</g>"
        if chart.x.title:
            middle = (left + right) / 2
            yield _text(middle, chart.height - 8, chart.x.title, "t m", "middle")
        if chart.y.title:
            middle = (top + bottom) / 2
            yield (
                f'<text class="t m" text-anchor="middle" transform="rotate(-90 12 {_n(middle)})"'
                f' x="12" y="{_n(middle)}">{escape(chart.y.title)}</text>'
            )

    def _row_texts(self) -> Iterator[str]:
        for at, text in self.chart.row_texts:
            yield _text(self.right + 8, self.y.one(at) + 4, _short(text), "t")

    def _legend(self) -> Iterator[str]:
        for mark, line, x, name in self.legend:
            y = 10.0 + 18 * line
            if isinstance(mark, Area):
                yield f'<rect class="band" x="{_n(x)}" y="{_n(y - 5)}" width="18" height="10"/>'
            if isinstance(mark, Line):
                yield f'<path d="M{_n(x)} {_n(y)}h18"{_stroke(mark)}/>'
            if isinstance(mark, Dots):
                yield f'<path d="M{_n(x + 9)} {_n(y)}{outline(mark.symbol, 7)}"{_paint(mark)}/>'
            yield _text(x + 23, y + 4, _short(name), "t")

    # --- marks ---

    @singledispatchmethod
    def draw(self, mark: object) -> Iterator[str]:
        """Yield the parts of one mark."""
        raise TypeError(f"no drawing of {type(mark).__name__}")

    @draw.register
    def _(self, mark: Dots) -> Iterator[str]:
        x, y = self.x(mark.x), self.y(mark.y)
        if mark.texts:
            for at_x, at_y, text in zip(x, y, mark.texts, strict=True):
                path = f"M{_n(at_x)} {_n(at_y)}{outline(mark.symbol, mark.size)}"
                yield f'<path class="halo" d="{path}"{_paint(mark)}><title>{escape(text)}</title></path>'
        elif x.size:
            many = x.size > MANY
            places = _distinct(x, y, 1.0 if many else 0.5)
            shape = "h0" if many else outline(mark.symbol, mark.size)
            texts = zip(_texts(places[:, 0]), _texts(places[:, 1]), strict=True)
            path = "".join([f"M{across} {along}{shape}" for across, along in texts])
            if many:
                yield f'<path d="{path}" fill="none" stroke="{mark.colour}" stroke-width="2" stroke-linecap="round"/>'
            else:
                yield f'<path d="{path}"{_paint(mark)} opacity=".85"/>'

    @draw.register
    def _(self, mark: Ranges) -> Iterator[str]:
        across, along = (self.x, self.y) if mark.upright else (self.y, self.x)
        parts = []
        for at, low, high in zip(across(mark.at), along(mark.low), along(mark.high), strict=True):
            parts.append(f"M{_n(at)} {_n(low)}V{_n(high)}" if mark.upright else f"M{_n(low)} {_n(at)}H{_n(high)}")
        if parts:
            path = "".join(parts)
            yield f'<path d="{path}" fill="none" stroke="{mark.colour}" stroke-width="{mark.width:g}"/>'

    @draw.register
    def _(self, mark: Line) -> Iterator[str]:
        if path := _path(self.x(mark.x), self.y(mark.y), step=mark.step):
            yield f'<path d="{path}"{_stroke(mark)} stroke-linejoin="round"/>'

    @draw.register
    def _(self, mark: Area) -> Iterator[str]:
        x, low, high = self.x(mark.x), self.y(mark.low), self.y(mark.high)
        outside = np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]])
        if path := _path(*outside, step=False):
            yield f'<path d="{path}z" fill="{mark.colour}" fill-opacity="{mark.opacity:g}"/>'

    @draw.register
    def _(self, mark: Band) -> Iterator[str]:
        low, high = sorted((self.x.one(mark.low), self.x.one(mark.high)))
        yield (
            f'<rect class="band" x="{_n(low)}" y="{_n(self.top)}" width="{_n(max(1.0, high - low))}"'
            f' height="{_n(self.bottom - self.top)}"/>'
        )

    @draw.register
    def _(self, mark: Rule) -> Iterator[str]:
        if mark.upright:
            path = f"M{_n(self.x.one(mark.at))} {_n(self.top)}V{_n(self.bottom)}"
        else:
            path = f"M{_n(self.left)} {_n(self.y.one(mark.at))}H{_n(self.right)}"
        dash = f' stroke-dasharray="{_DASHES[mark.dash]}"' if mark.dash in _DASHES else ""
        yield f'<path class="{"g" if mark.faint else "l"}" d="{path}"{dash}/>'

    @draw.register
    def _(self, mark: Box) -> Iterator[str]:
        low, first, middle, third, high = (_n(at) for at in self.x(mark.values))
        y = self.y.one(mark.row)
        top, bottom = _n(y - 9), _n(y + 9)
        box = f"M{first} {top}H{third}V{bottom}H{first}zM{middle} {top}V{bottom}"
        whiskers = f"M{low} {_n(y)}H{first}M{third} {_n(y)}H{high}"
        yield f'<path class="box" d="{box}{whiskers}" stroke="{mark.colour}" stroke-width="1.3"/>'


def _legend(chart: Chart, width: float) -> Iterator[tuple[Dots | Line | Area, int, float, str]]:
    """Yield the marks with names: mark, line of the legend, position in the line, and name."""
    x, line = 14.0, 0
    for mark in chart.marks:
        if isinstance(mark, Dots | Line | Area) and mark.name:
            needed = 36 + len(_short(mark.name)) * _ADVANCE
            if x + needed > width and x > 14.0:
                x, line = 14.0, line + 1
            yield mark, line, x, mark.name
            x += needed


def _apart(places: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the ticks whose labels do not touch the label before."""
    kept: list[tuple[float, str]] = []
    for x, text in sorted(places):
        if not kept or x - kept[-1][0] > (len(text) + len(kept[-1][1])) * _ADVANCE / 2 + 6:
            kept.append((x, text))
    return kept


def _distinct(x: Floats, y: Floats, step: float) -> Floats:
    """Return the distinct places (n, 2) on a grid of this step, in order."""
    grid = np.round(np.stack([x, y], axis=1) / step).astype(np.int64)
    first = np.unique((grid[:, 0] << 32) + grid[:, 1], return_index=True)[1]  # `axis=0` takes much longer
    ordered: Floats = grid[np.sort(first)].astype(np.float64) * step
    return ordered


def _texts(places: Floats) -> list[str]:
    """Return coordinates that are multiples of half a unit as text."""
    halves = (places * 2).astype(np.int64)
    if halves.size and halves.min() > 0 and halves.max() < len(_HALVES):
        return [_HALVES[number] for number in halves.tolist()]
    return [f"{place:g}" for place in places.tolist()]


def _path(x: Floats, y: Floats, *, step: bool) -> str:
    """Return a path through points on a grid of half a unit, without those on the place of the one before."""
    if x.size == 0:
        return ""
    px, py = np.rint(x * 2) / 2, np.rint(y * 2) / 2
    kept = np.ones(px.size, dtype=np.bool_)
    kept[1:] = (px[1:] != px[:-1]) | (py[1:] != py[:-1])
    first, *others = zip(_texts(px[kept]), _texts(py[kept]), strict=True)
    form = "H%sV%s" if step else "L%s %s"
    return f"M{first[0]} {first[1]}" + "".join([form % place for place in others])


def _stroke(mark: Line) -> str:
    dash = f' stroke-dasharray="{_DASHES[mark.dash]}"' if mark.dash in _DASHES else ""
    return f' fill="none" stroke="{mark.colour}" stroke-width="{mark.width:g}"{dash}'


def _paint(mark: Dots) -> str:
    if mark.symbol.endswith("-open"):
        return f' fill="none" stroke="{mark.colour}" stroke-width="1.4"'
    return f' fill="{mark.colour}"'


def _text(x: float, y: float, text: str, css: str, anchor: str = "start") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{css}"{where} x="{_n(x)}" y="{_n(y)}">{escape(text)}</text>'
