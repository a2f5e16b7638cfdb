"""Choose the colour, symbol and dash of each environment, the same in every plot.

The colours of verdicts are in templates/report.css, by the classes of `tare.report.verdicts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Summary

BASE_COLOUR: Final = "#6e7a8a"
SELF_COLOUR: Final = "#8793a3"
_COLOURS: Final = (
    "#2f7fd6", "#e0791b", "#1f9d72", "#c2417f", "#8b63d1", "#0aa3ad", "#b48a08", "#d1442e", "#6f8f2f", "#8a5a44",
)  # fmt: skip
_SYMBOLS: Final = (
    "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "pentagon", "x", "hexagram", "bowtie",
)  # fmt: skip
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


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
