"""Format seconds, bytes, rates and fractions for readers: the only place that does so.

A value has as many digits as its interval supports, and shares its unit, so that `4.8 µs [4.5, 5.1]` needs no
conversion. Rates use decimal prefixes (1 MB/s = 10^6 B/s, as in OSU), message sizes binary ones (1 KiB = 1,024 B).
Text contains `µ`, `×` and the real minus sign; `to_ascii` converts it to plain ASCII for terminals that need it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tare.model import Estimate, MetricInfo
from tare.model.text import printable, rate_scale

MINUS: Final = "\u2212"
TIMES_FROM: Final = 9.0
"""Overhead (as a fraction) from which a multiple is easier to read than a percentage."""

REMEMBERED: Final = 1 << 16
"""Texts of intervals that are remembered: the page and the terminal show most of them several times."""

MOST_PLACES: Final = 15

_APART: Final = re.compile(
    r"(?<=\d) (?=(?:%|[nµm]?s|[kMGT]?(?:B/s|b/s|op/s|FLOP/s|TEPS)|[KMG]i?B|B)(?![\w]))|(?<=\bn) (?=[=])|(?<==) (?=\d)"
)
_ASCII: Final = str.maketrans(f"µ\u03bc{MINUS}×–—·’‘“”\u00a0\u202f", "uu-x---''\"\"  ") | str.maketrans(
    {"±": "+-", "…": "...", "≤": "<=", "≥": ">=", "≈": "~", "∞": "inf", "→": "->"}
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit for display: a value in base units is divided by `size` and printed with `suffix`."""

    size: float
    suffix: str


_TIME: Final = (Unit(1.0, "s"), Unit(1e-3, "ms"), Unit(1e-6, "µs"), Unit(1e-9, "ns"))
_BYTES: Final = (Unit(2.0**30, "GiB"), Unit(2.0**20, "MiB"), Unit(2.0**10, "KiB"), Unit(1.0, "B"))


def time_unit(seconds: float) -> Unit:
    """Return the largest unit in which the value is at least 1."""
    return _choose(_TIME, seconds)


def rate_unit(value: float, unit: str = "B/s") -> Unit:
    """Return the largest decimal multiple of the unit in which the rate is at least 1."""
    size, suffix = rate_scale(value, unit)
    return Unit(size, suffix)


def _choose(units: tuple[Unit, ...], value: float) -> Unit:
    magnitude = abs(value) * (1 + 1e-9)
    if magnitude == 0 or not math.isfinite(magnitude):
        return units[0]
    return next((unit for unit in units if magnitude >= unit.size), units[-1])


def decimals_for(half_width: float, value: float, *, compact: bool = False) -> int:
    """Return the number of decimals that an interval of this half-width supports, at most four digits in total.

    The last digit shown is between a twentieth and a half of the half-width: `4.8 [4.5, 5.1]`, `0.21 [0.07, 0.35]`;
    `compact` stops about a digit earlier: `0.2 [0.1, 0.4]`.
    """
    if half_width > 0 and math.isfinite(half_width):
        wanted = -math.floor(math.log10(half_width / (1.2 if compact else 2) * (1 + 1e-9)))
    else:
        wanted = 2 - _exponent(value)
    return min(max(0, wanted), max(0, (2 if compact else 3) - max(0, _exponent(value))))


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def number(value: float, decimals: int, *, sign: bool = False) -> str:
    """Format with a real minus sign and thousands separators; with `sign`, positive values get a plus."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "n/a"
    text = f"{abs(value):,.{decimals}f}"
    if not text.strip("0.,"):
        return text
    return (MINUS if value < 0 else "+" if sign else "") + text


def significant(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits and no exponent."""
    return number(value, max(0, digits - 1 - _exponent(value)))


def seconds(value: float) -> str:
    """Return a time as `4.81 µs`."""
    unit = time_unit(value)
    return f"{significant(value / unit.size)} {unit.suffix}"


def duration(value: float) -> str:
    """Return a long time as `3 min 20 s`."""
    if value < 60:
        return f"{significant(value, 2)} s" if value >= 1 else seconds(value)
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def rate(value: float, unit: str = "B/s") -> str:
    """Return a rate as `2.91 GB/s`."""
    scaled = rate_unit(value, unit)
    return f"{significant(value / scaled.size)} {scaled.suffix}"


def size(value: float) -> str:
    """Return a number of bytes as `64 KiB`."""
    unit = _choose(_BYTES, value or 1.0)
    scaled = value / unit.size
    return f"{scaled:g} {unit.suffix}" if scaled == round(scaled) else f"{scaled:.1f} {unit.suffix}"


def percent(fraction: float, *, sign: bool = True) -> str:
    """Return a fraction as `+59 %`, or as `×26` if it is tenfold or more."""
    if fraction >= TIMES_FROM:
        return f"×{significant(1 + fraction)}"
    value = fraction * 100
    places = 0 if abs(value) >= 10 or abs(value - round(value)) < 0.05 else 1
    return f"{number(value, _above(value, places, -100.0), sign=sign)} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate as text: the number, its unit, and its bounds in brackets without unit."""

    number: str
    unit: str
    bounds: str

    @property
    def main(self) -> str:
        """Return the number with its unit."""
        return self.number + (f" {self.unit}" if self.unit else "")

    @property
    def upper(self) -> str:
        """Return the upper bound as the number is written, as `+63 %` or `×27`."""
        high = self.bounds.strip("[]").rpartition(" ")[2]
        if self.number.startswith("×"):
            return f"×{high}"
        return ("" if high.startswith(MINUS) or not high.strip("0.,") else "+") + f"{high} {self.unit}".rstrip()

    def __str__(self) -> str:
        return f"{self.main} {self.bounds}"


def _interval(
    estimate: Estimate, unit: Unit, *, sign: bool = False, least: float = -math.inf, compact: bool = False
) -> Interval:
    value, low, high = estimate.value / unit.size, estimate.low / unit.size, estimate.high / unit.size
    largest = max((abs(bound) for bound in (value, low, high) if math.isfinite(bound)), default=1.0)
    places = decimals_for((high - low) / 2, largest, compact=compact)
    texts = [number(part, _above(part, places, least)) for part in (value, low, high)]
    plus = "+" if sign and texts[0].strip("0.,") and value > 0 else ""
    return Interval(number=plus + texts[0], unit=unit.suffix, bounds=f"[{texts[1]}, {texts[2]}]")


def _above(value: float, places: int, least: float) -> int:
    """Return the decimals with which a value above `least`, as a cost is above zero, is not rounded to it."""
    while value > least >= round(value, places) and places < MOST_PLACES:
        places += 1
    return places


@lru_cache(maxsize=REMEMBERED)
def time_interval(
    estimate: Estimate, *, sign: bool = False, reference_s: float | None = None, compact: bool = False
) -> Interval:
    """Return a time and its interval in one unit, as `4.8 µs [4.5, 5.1]`.

    The unit is that of `reference_s`, a time shown next to it, if the number is readable in it.
    """
    largest = max(abs(estimate.low), abs(estimate.high), abs(estimate.value))
    least = -math.inf if sign else 0.0
    if reference_s is not None:
        unit = time_unit(reference_s)
        if 0.02 <= largest / unit.size < 1000:
            return _interval(estimate, unit, sign=sign, least=least, compact=compact)
    return _interval(estimate, time_unit(largest), sign=sign, least=least, compact=compact)


@lru_cache(maxsize=REMEMBERED)
def rate_interval(cost: Estimate, done_per_sample: float, unit: str = "B/s", *, compact: bool = False) -> Interval:
    """Return the rate that corresponds to a cost per sample, with its interval, as `2.9 GB/s [2.8, 3.0]`."""
    inverse = cost.per(done_per_sample)
    scaled = rate_unit(inverse.value, unit)
    if compact:  # two digits: units of rates are long
        rates = [rate / scaled.size for rate in (inverse.value, inverse.low, inverse.high)]
        places = max(0, 1 - _exponent(rates[0])) if math.isfinite(rates[0]) else 0
        value, low, high = (number(rate, _above(rate, places, 0.0)) for rate in rates)
        return Interval(number=value, unit=scaled.suffix, bounds=f"[{low}, {high}]")
    return _interval(inverse, scaled, least=0.0)


def cost(value_s: float, info: MetricInfo) -> str:
    """Return a cost of a metric as a time, or as a rate if the metric is one."""
    if info.is_rate and value_s > 0:
        return rate(info.done_per_sample / value_s, info.rate_unit)
    return seconds(value_s)


def cost_interval(cost: Estimate, info: MetricInfo, *, compact: bool = False) -> Interval:
    """Return a cost of a metric with its interval as a time, or as a rate if the metric is one."""
    if info.is_rate:
        return rate_interval(cost, info.done_per_sample, info.rate_unit, compact=compact)
    return time_interval(cost, compact=compact)


@lru_cache(maxsize=REMEMBERED)
def overhead_interval(estimate: Estimate, *, compact: bool = False) -> Interval:
    """Return an overhead and its interval, as `+59 % [55, 63]`, or `×26 [25, 27]` if it is tenfold or more."""
    if estimate.value >= TIMES_FROM:
        ratio = _interval(estimate.map(lambda part: 1 + part), Unit(1.0, ""), least=0.0)
        return Interval(number=f"×{ratio.number}", unit="", bounds=ratio.bounds)
    if compact and max(abs(estimate.low), abs(estimate.high)) >= 0.0995:
        parts = [100 * part for part in (estimate.value, estimate.low, estimate.high)]
        value, low, high = (number(part, _above(part, 0, -100.0)) for part in parts)
        plus = "+" if round(parts[0]) > 0 else ""
        return Interval(number=plus + value, unit="%", bounds=f"[{low}, {high}]")
    return _interval(estimate, Unit(0.01, "%"), sign=True, least=-100.0)


def ratio_interval(estimate: Estimate) -> str:
    """Return a ratio and its interval, as `1.59 [1.55, 1.63]`."""
    places = max(2, decimals_for((estimate.high - estimate.low) / 2, estimate.high))
    value, low, high = (
        f"{part:.{_above(part, places, 0.0)}f}" for part in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def p_value(p: float) -> str:
    """Return a p-value, as `0.012` or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def keep_together(text: str) -> str:
    """Put no-break spaces between numbers and their units, and into `n = 10`."""
    return _APART.sub("\u00a0", text)


def to_ascii(text: str) -> str:
    """Replace the non-ASCII characters that this package uses by ASCII; others become `?`."""
    return printable(text).translate(_ASCII).encode("ascii", "replace").decode("ascii")
