"""The table of benchmarks/agreement.py: medians over rounds with their intervals, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import scipy.stats

LIMIT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table: a ratio (1 is equal) or a difference of overheads in points, with its interval."""

    name: str
    what: str
    theirs: str
    ours: str
    value: float
    low: float
    high: float
    n: int
    unit: str = ""

    @property
    def off(self) -> float:
        """Return by how much the value is off, as a fraction."""
        return abs(self.value) / 100 if self.unit else abs(self.value - 1)

    @property
    def verdict(self) -> str:
        low, high = (self.low / 100, self.high / 100) if self.unit else (self.low - 1, self.high - 1)
        inside = low >= -LIMIT and high <= LIMIT
        if self.off > LIMIT:
            return "BEYOND" if low > LIMIT or high < -LIMIT else "BEYOND (its interval is not: more rounds)"
        return "within" if inside else "within (its interval is not: more rounds)"

    @property
    def cells(self) -> tuple[str, ...]:
        interval = f"[{self.low:+.1f}, {self.high:+.1f}] points" if self.unit else f"[{self.low:.3f}, {self.high:.3f}]"
        value = f"{self.value:+.1f}" if self.unit else f"{self.value:.3f}"
        return self.name, self.what, self.theirs, self.ours, value, interval, str(self.n), self.verdict


HEADER = ("kernel", "wire", "IMB", "tare", "ratio", "95 % interval", "n", "")


def ratio(name: str, what: str, theirs: Sequence[float], ours: Sequence[float]) -> Row:
    """Return the median over rounds of tare / IMB."""
    value, low, high = median_interval([b / a for a, b in zip(theirs, ours, strict=True)])
    return Row(
        name=name,
        what=what,
        theirs=f"{1e6 * median(theirs):.2f} us",
        ours=f"{1e6 * median(ours):.2f} us",
        value=value,
        low=low,
        high=high,
        n=len(ours),
    )


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median with its interval by order statistics, of 95 % or more (six values at least)."""
    ordered = sorted(values)
    rank = int(scipy.stats.binom.ppf(0.025, len(ordered), 0.5))
    while rank > 0 and 2 * scipy.stats.binom.cdf(rank - 1, len(ordered), 0.5) > 0.05:
        rank -= 1
    rank = max(rank, 1)
    return median(ordered), ordered[rank - 1], ordered[-rank]


def print_table(rows: Sequence[Row], header: Sequence[str] = HEADER) -> None:
    table = [tuple(header), *(row.cells for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def as_markdown(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    return "\n".join([*lines, *("| " + " | ".join(row.cells) + " |" for row in rows)]) + "\n"
