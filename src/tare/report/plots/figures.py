"""Parts shared by all plots: the data class, axes and lines. The colours of environments are in `styles`.

A plot is data for plotly.js, which is embedded in the page; the colours of text and grid come from the page's theme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Spec = dict[str, Any]

NEUTRAL: Final = "rgba(128,140,155,0.9)"
BAND: Final = "rgba(128,140,155,0.22)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One plot: its title (one sentence, the takeaway), its caption with the number of observations, and the data.

    The data are in `spec`, or in `json` as the page has them.
    """

    ident: str
    title: str
    caption: str
    spec: Spec
    wide: bool = False
    has_tail: bool = False
    has_near: bool = False
    json: str = ""


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
