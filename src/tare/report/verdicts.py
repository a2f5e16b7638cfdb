"""How a verdict looks: a symbol for each, never colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tare.errors import (
    EXIT_CELLS_FAILED,
    EXIT_DONE,
    EXIT_INCONCLUSIVE,
    EXIT_INFRASTRUCTURE,
    EXIT_OVER_LIMIT,
    EXIT_USAGE,
)
from tare.model import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictStyle:
    """The symbol of a verdict (and its ASCII stand-in), its CSS class, its rich style and what it means."""

    symbol: str
    ascii: str
    css: str
    style: str
    meaning: str


LOOKS: Final[Mapping[Verdict, VerdictStyle]] = MappingProxyType(
    {
        Verdict.NO_COST: VerdictStyle(
            symbol="✓", ascii="=", css="no-cost", style="green", meaning="surely within so many per cent"
        ),
        Verdict.COSTS: VerdictStyle(
            symbol="▲", ascii="^", css="costs", style="bold red", meaning="slower, the interval is clear of zero"
        ),
        Verdict.GAINS: VerdictStyle(
            symbol="▼", ascii="v", css="gains", style="bold blue", meaning="faster, the interval is clear of zero"
        ),
        Verdict.FAILS: VerdictStyle(
            symbol="!", ascii="!", css="fails", style="bold magenta", meaning="launches fail more than the baseline's"
        ),
        Verdict.INCONCLUSIVE: VerdictStyle(
            symbol="?", ascii="?", css="inconclusive", style="yellow", meaning="not decided; it costs at most so much"
        ),
        Verdict.INVALID: VerdictStyle(
            symbol="✗", ascii="x", css="invalid", style="bold magenta", meaning="what ran is not what the cell claims"
        ),
        Verdict.UNAVAILABLE: VerdictStyle(
            symbol="–", ascii="-", css="unavailable", style="dim", meaning="cannot run here"
        ),
        Verdict.BASELINE: VerdictStyle(
            symbol="●", ascii="*", css="baseline", style="bold", meaning="what others are compared with"
        ),
        Verdict.NOISE_FLOOR: VerdictStyle(
            symbol="≈", ascii="~", css="noise-floor", style="cyan", meaning="the baseline against itself"
        ),
        Verdict.NOT_JUDGED: VerdictStyle(symbol="·", ascii=".", css="not-judged", style="dim", meaning="figures only"),
    }
)


def mark(verdict: Verdict, within: float | None = None, *, plain: bool = False) -> str:
    """Return the symbol of a verdict; "no cost" has the per cent with it inside which it was shown, as ✓5."""
    look = LOOKS[verdict]
    symbol = look.ascii if plain else look.symbol
    return f"{symbol}{100 * within:g}" if verdict is Verdict.NO_COST and within is not None else symbol


EXIT_MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        EXIT_DONE: "done",
        EXIT_OVER_LIMIT: "an overhead is beyond the stated limit",
        EXIT_USAGE: "usage or a bad file",
        EXIT_INCONCLUSIVE: "some comparisons are inconclusive",
        EXIT_CELLS_FAILED: "some cells are invalid or failed",
        EXIT_INFRASTRUCTURE: "the infrastructure failed",
    }
)
