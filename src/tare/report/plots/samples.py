"""Plot the samples within launches: cumulative distributions, and gaps between messages."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tare.report import units
from tare.report.plots import takeaways
from tare.report.plots.figures import NEUTRAL, Drawing, Spec, log_ticks, n_text, rounded
from tare.report.plots.styles import Style
from tare.report.samples import Curve, Floats, LogHistogram
from tare.report.view import Column


def ecdf(
    column: Column, curves: Mapping[str, Curve], style: Mapping[str, Style], baseline: str, *, is_gap: bool
) -> Drawing:
    """Plot the fraction of samples that do not exceed a time; the page can switch to the tail."""
    unit = units.time_unit(max((curve.at(0.5) for curve in curves.values()), default=1.0))
    traces: list[Spec] = []
    first = next(iter(curves.values()), None)
    for name, curve in curves.items():
        look = style[name]
        shared = first is not None and curve is not first and np.array_equal(curve.fractions, first.fractions)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": rounded(curve.values_s.tolist(), unit.size),
                "y": "as first" if shared else [float(f"{fraction:.7g}") for fraction in curve.fractions],
                "line": {"color": look.colour, "width": 2, "dash": look.dash, "shape": "hv"},
                "hovertemplate": f"{name}<br>%{{y:.2%}} of samples within %{{x}} {unit.suffix}<extra></extra>",
            }
        )
    low, high = _ends(curves, 0.001, unit.size)
    layout: Spec = {
        "height": 330,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "xaxis": {
            "type": "log",
            "title": {"text": f"{'gap between messages' if is_gap else 'time of one iteration'}, {unit.suffix}"},
        }
        | _log_range(low, high),
        "yaxis": {
            "title": {"text": "fraction of samples"},
            "range": [0, 1.02],
            "tickformat": ".0%",
            "automargin": True,
        },
    }
    counts = [curve.n for curve in curves.values()]
    return Drawing(
        ident=f"ecdf-{column.ident}",
        title=takeaways.tail(column, curves, baseline, "gaps" if is_gap else "iterations"),
        caption="Samples of all launches, pooled for this plot only; verdicts do not use them. Times are within 0.2 % "
        f"of the exact quantile. {n_text(counts, 'samples')}.",
        spec={"data": traces, "layout": layout, "whole": _log_range(low, _ends(curves, 0.0, unit.size)[1])["range"]},
        has_tail=True,
    )


def _ends(curves: Mapping[str, Curve], outside: float, scale: float) -> tuple[float, float]:
    """Return the times outside which at most this fraction of any curve lies, at either end."""
    lowest = min((curve.at(outside) for curve in curves.values()), default=scale)
    return lowest / scale, max((curve.at(1 - outside) for curve in curves.values()), default=scale) / scale


def _log_range(low: float, high: float) -> Spec:
    low = max(low, 1e-12)
    high = max(high, low * 1.001)
    pad = 0.02 * math.log10(high / low)
    return {"range": rounded([math.log10(low) - pad, math.log10(high) + pad])} | log_ticks(low, high)


Gaps = Mapping[str, Mapping[str, LogHistogram]]
"""Histograms by environment and column, the receive side's column first."""


def gaps(column: Column, histograms: Gaps, style: Mapping[str, Style], baseline: str) -> Drawing:
    """Plot the distribution of gaps between messages: one row per environment, one shape per side."""
    names = list(histograms)
    curves = {
        name: {side: histogram.curve() for side, histogram in sides.items()} for name, sides in histograms.items()
    }
    all_curves = [curve for sides in curves.values() for curve in sides.values()]
    low, high = min(curve.at(1e-3) for curve in all_curves), max(curve.at(1 - 1e-3) for curve in all_curves)
    unit = units.time_unit(all_curves[0].at(0.5))
    traces: list[Spec] = []
    for index, name in enumerate(names):
        floor = len(names) - 1 - index
        for number, (side, histogram) in enumerate(histograms[name].items()):
            centres, shares = histogram.density(low, high)
            traces += _ridge(f"{name}, {side}", style[name], floor, number == 0, rounded(centres, unit.size), shares)
            traces[-1]["hovertemplate"] = traces[-1]["hovertemplate"].replace("UNIT", unit.suffix)
    layout: Spec = {
        "height": 110 + 46 * len(names),
        "margin": {"l": 8, "r": 16, "t": 8, "b": 44},
        "showlegend": False,
        "xaxis": {"title": {"text": f"gap between messages, {unit.suffix}"}, "type": "log"}
        | _log_range(low / unit.size, high / unit.size),
        "yaxis": {
            "tickvals": [len(names) - 1 - index for index in range(len(names))],
            "ticktext": names,
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
            "range": [-0.15, len(names)],
            "ticklabelstandoff": 6,
        },
    }
    receive = {name: next(iter(sides.values())) for name, sides in curves.items()}
    return Drawing(
        ident=f"gaps-{column.ident}",
        title=takeaways.gaps(receive, baseline),
        caption="Filled: gaps at the receiver; dotted: at the sender. The height is the square root of the share, so "
        "that rare gaps stay visible; the outermost 0.1 % at either end are not shown. "
        f"{n_text([curve.n for curve in receive.values()], 'gaps')}.",
        spec={"data": traces, "layout": layout},
        wide=True,
    )


def _ridge(label: str, look: Style, floor: int, filled: bool, x: list[float], shares: Floats) -> list[Spec]:
    peak = float(shares.max()) or 1.0
    line: Spec = {"color": look.colour if filled else NEUTRAL, "width": 1.6 if filled else 1.2, "shape": "hvh"}
    ground: Spec = {
        "type": "scatter", "mode": "lines", "x": [x[0], x[-1]], "y": [floor, floor], "hoverinfo": "skip",
        "line": {"width": 0.6, "color": NEUTRAL},
    }  # fmt: skip
    ridge: Spec = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": rounded((floor + 0.88 * np.sqrt(shares / peak)).tolist()),
        "customdata": rounded(shares.tolist()),
        "fill": "tonexty" if filled else "none",
        "fillcolor": look.colour + "44",
        "line": line | {"dash": "solid" if filled else "dot"},
        "hovertemplate": label + "<br>%{customdata:.3%} of gaps near %{x} UNIT<extra></extra>",
    }
    return [ground, ridge]
