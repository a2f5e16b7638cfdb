"""The appearance of verdicts: each has a symbol, so that colour is never the only difference."""

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
from tare.model import Summary, Verdict


@dataclass(frozen=True, slots=True)
class VerdictStyle:
    """The symbol of a verdict (also in ASCII), its CSS class (templates/report.css has its colour), its rich style."""

    symbol: str
    ascii: str
    css: str
    style: str
    meaning: str


VERDICT_STYLES: Final[Mapping[Verdict, VerdictStyle]] = MappingProxyType(
    {
        Verdict.NO_COST: VerdictStyle("✓", "=", "no-cost", "green", "shown to be within this many per cent"),
        Verdict.COSTS: VerdictStyle("▲", "^", "costs", "bold red", "slower: the adjusted interval excludes zero"),
        Verdict.GAINS: VerdictStyle("▼", "v", "gains", "bold blue", "faster: the adjusted interval excludes zero"),
        Verdict.FAILS: VerdictStyle("!", "!", "fails", "bold magenta", "failure rate above the baseline's"),
        Verdict.INCONCLUSIVE: VerdictStyle(
            "?", "?", "inconclusive", "yellow", "not decided; it costs at most this much"
        ),
        Verdict.INVALID: VerdictStyle("✗", "x", "invalid", "bold magenta", "it did not run as the cell claims"),
        Verdict.NOT_COMPARABLE: VerdictStyle(
            "≠", "#", "not-comparable", "bold magenta", "its program did other work than the baseline's"
        ),
        Verdict.UNAVAILABLE: VerdictStyle("–", "-", "unavailable", "dim", "cannot run here"),
        Verdict.BASELINE: VerdictStyle("●", "*", "baseline", "bold", "the reference of all comparisons"),
        Verdict.NOISE_FLOOR: VerdictStyle("≈", "~", "noise-floor", "cyan", "the baseline compared with itself"),
        Verdict.NOT_JUDGED: VerdictStyle("·", ".", "not-judged", "dim", "values without a verdict"),
    }
)


def mark(verdict: Verdict, within: float | None = None, *, plain: bool = False) -> str:
    """Return the symbol of a verdict; "no cost" has its margin in per cent appended, as ✓5."""
    look = VERDICT_STYLES[verdict]
    symbol = look.ascii if plain else look.symbol
    return f"{symbol}{100 * within:g}" if verdict is Verdict.NO_COST and within is not None else symbol


EXIT_MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        EXIT_DONE: "done",
        EXIT_OVER_LIMIT: "an overhead exceeds the study's limit",
        EXIT_USAGE: "usage error or invalid file",
        EXIT_INCONCLUSIVE: "some comparisons are inconclusive",
        EXIT_CELLS_FAILED: "some environments are invalid, failed or not comparable",
        EXIT_INFRASTRUCTURE: "the infrastructure failed",
    }
)


def exit_meaning(summary: Summary) -> str:
    """Return what the exit code of a study's results says."""
    verdicts = {item.verdict for item in summary.comparisons} - {Verdict.BASELINE, Verdict.NOISE_FLOOR}
    if summary.exit_code == EXIT_CELLS_FAILED and verdicts == {Verdict.UNAVAILABLE}:
        return "nothing could be compared"
    return EXIT_MEANINGS.get(summary.exit_code, "unknown")
