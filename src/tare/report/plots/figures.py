"""Parts shared by all plots: the data class, colours and symbols of environments, axes and lines.

A plot is data for plotly.js, which is embedded in the page; the colours of text and grid come from the page's theme.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tare.model import Summary

Spec = dict[str, Any]

BASE_COLOUR: Final = "#6e7a8a"
SELF_COLOUR: Final = "#a3adba"
_COLOURS: Final = (
    "#2f7fd6", "#e0791b", "#1f9d72", "#c2417f", "#8b63d1", "#0aa3ad", "#b48a08", "#d1442e", "#6f8f2f", "#8a5a44",
)  # fmt: skip
_SYMBOLS: Final = (
    "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "pentagon", "x", "hexagram", "bowtie",
)  # fmt: skip
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
NEUTRAL: Final = "rgba(128,140,155,0.9)"
BAND: Final = "rgba(128,140,155,0.22)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One plot: its title (one sentence, the takeaway), its caption with the number of observations, and the data."""

    ident: str
    title: str
    caption: str
    spec: Spec
    wide: bool = False
    has_tail: bool = False
    has_near: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The colour, symbol and dash of an environment, the same in every plot."""

    colour: str
    symbol: str
    dash: str


def styles(names: Sequence[str], summary: Summary) -> Mapping[str, Style]:
    """Return the colour, symbol and dash of every environment; the baseline and A/A are grey."""
    result = {
        summary.baseline: Style(colour=BASE_COLOUR, symbol="circle", dash="solid"),
        summary.self_name: Style(colour=SELF_COLOUR, symbol="circle-open", dash="dot"),
    }
    for index, name in enumerate(name for name in names if name not in result):
        result[name] = Style(
            colour=_COLOURS[index % len(_COLOURS)],
            symbol=_SYMBOLS[index % len(_SYMBOLS)],
            dash=_DASHES[(index // 2) % len(_DASHES)],
        )
    return result


def rounded(values: Iterable[float], scale: float = 1.0) -> list[float]:
    """Divide by a unit's size and round to five digits, the resolution of a screen."""
    return [float(f"{value / scale:.5g}") for value in values]


def band(low: float, high: float) -> Spec:
    """Return a shaded range over the full height."""
    return {
        "type": "rect", "x0": low, "x1": high, "yref": "paper", "y0": 0, "y1": 1, "fillcolor": BAND,
        "line": {"width": 0}, "layer": "below",
    }  # fmt: skip


def vertical(x: float, dash: str) -> Spec:
    """Return a line over the full height."""
    return {
        "type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "line": {"width": 1.2, "dash": dash, "color": NEUTRAL},
    }  # fmt: skip


def category_axis(names: Sequence[str]) -> Spec:
    """Return an axis that lists these names from top to bottom."""
    return {
        "type": "category", "categoryorder": "array", "categoryarray": list(reversed(names)), "automargin": True,
        "range": [-0.6, len(names) - 0.4], "showgrid": False, "ticklabelstandoff": 6,
    }  # fmt: skip


def n_text(counts: Sequence[int], noun: str) -> str:
    """Return the number of observations behind each element of a plot, as `n = 10 rounds each`."""
    if not counts:
        return f"n = 0 {noun}"
    low, high = min(counts), max(counts)
    return f"n = {low:,} {noun} each" if low == high else f"n = {low:,} to {high:,} {noun}"


def log_ticks(low: float, high: float) -> Spec:
    """Return plain numbers as ticks of a logarithmic axis, or nothing if plotly's ticks are better."""
    for least, steps in ((3, (1, 2, 5)), (2, tuple(range(1, 10))), (2, (1,))):
        ticks = [
            float(f"{step * 10.0**power:.3g}")
            for power in range(-9, 12)
            for step in steps
            if low * 0.97 <= step * 10.0**power <= high * 1.03
        ]
        if least <= len(ticks) <= 9:
            return {"tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    return {}
