"""Format one cell of the table: four lines with a bar in HTML, two lines in the terminal.

The verdict is about the typical launch (the median over its iterations); the mean, which programs pay, follows it.
The overhead is a geometric mean over rounds and the added time an arithmetic one: `differ_in_sign` detects the
cells in which they contradict each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tare.model import Comparison, Estimate, FailureRate, Summary, Verdict
from tare.model.text import counted
from tare.report import units
from tare.report.verdicts import mark
from tare.report.view import MetricColumn

BLOCKED = (Verdict.INVALID, Verdict.NOT_COMPARABLE, Verdict.UNAVAILABLE)
NOT_ESTIMATED = "not estimated"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellText:
    """One cell of the table as text: verdict, first and second line, other readings, and the intervals of its bar."""

    verdict: Verdict
    within: float | None = None
    lead: str
    lead_bounds: str = ""
    second: str = ""
    second_bounds: str = ""
    others: str = ""
    drawn: Estimate | None = None
    outer: Estimate | None = None
    note: str = ""

    @property
    def mark(self) -> str:
        """Return the symbol of the verdict."""
        return mark(self.verdict, self.within)

    @property
    def ascii(self) -> str:
        """Return the symbol of the verdict in ASCII."""
        return mark(self.verdict, self.within, plain=True)


def cell_text(column: MetricColumn, comparison: Comparison | None, summary: Summary) -> CellText:
    """Return a cell of the HTML table: absolute values for the baseline, overhead with interval for the others."""
    if comparison is None:
        return CellText(verdict=Verdict.UNAVAILABLE, lead="not planned")
    verdict, within = comparison.verdict, comparison.within
    if verdict in BLOCKED:
        return CellText(verdict=verdict, lead=verdict.value, note=comparison.reason)
    if comparison.environment == summary.baseline:
        return _baseline_cell(column, comparison)
    lead, second = _typical_readings(column, comparison)
    failed = _failures(comparison)
    if failed:
        second, lead = lead, units.Interval(number=failed, unit="", bounds="")
    elif comparison.overhead is None:
        return CellText(verdict=verdict, within=within, lead=NOT_ESTIMATED, note=comparison.reason)
    at_most = _at_most(comparison)
    leads_with_bound = bool(at_most)
    return CellText(
        verdict=verdict,
        within=within,
        lead=at_most if leads_with_bound else lead.main,
        lead_bounds="" if leads_with_bound else lead.bounds,
        second=_join(lead, second) if leads_with_bound else second.main,
        second_bounds="" if leads_with_bound else second.bounds,
        others=", ".join(filter(None, (_unbroken(_mean_text(comparison)), _unbroken(_loop_text(column, comparison))))),
        drawn=comparison.overhead,
        outer=comparison.simultaneous,
        note=reason_text(comparison),
    )


def brief_text(column: MetricColumn, comparison: Comparison | None, summary: Summary) -> CellText:
    """Return a cell of the terminal's table: two short lines, `lead` with its bounds, and `second`."""
    if comparison is None or comparison.verdict in BLOCKED or comparison.environment == summary.baseline:
        text = cell_text(column, comparison, summary)
        if comparison is not None and comparison.environment == summary.baseline:
            return _baseline_cell(column, comparison, compact=True)
        return text
    verdict, within = comparison.verdict, comparison.within
    lead, second = _typical_readings(column, comparison, compact=True)
    overhead = lead if comparison.added_s is None or not column.leads_with_time else second
    other = _short_reading(column, comparison)
    if failed := _failures(comparison):
        below = overhead.main if comparison.overhead is not None else ""
        return CellText(verdict=verdict, within=within, lead=failed, second=below)
    if comparison.overhead is None:
        return CellText(verdict=verdict, within=within, lead=NOT_ESTIMATED, second="wider than ×100")
    if bound := _at_most(comparison, compact=True):
        return CellText(verdict=verdict, within=within, lead=bound, second=f"{overhead.main} {overhead.bounds}")
    leads_with_time = column.leads_with_time and comparison.added_s is not None
    if verdict is Verdict.NO_COST and comparison.at_most is not None and leads_with_time:
        below = f"≤{percent_up(comparison.at_most, sign=False)}"
    elif leads_with_time:
        below = overhead.main if other else f"{overhead.main} {overhead.bounds}"
    else:
        below = "" if other else second.main or f"time {NOT_ESTIMATED}"
    number = lead.number if column.leads_with_time and lead.unit == column.unit else lead.main
    return CellText(
        verdict=verdict,
        within=within,
        lead=number,
        lead_bounds=lead.bounds,
        second=", ".join(filter(None, (below, other))),
    )


def _at_most(comparison: Comparison, *, compact: bool = False) -> str:
    """Return the upper end of an undecided cell's interval, as "at most +12 %"; "" if it is decided or below zero."""
    overhead = comparison.overhead
    if comparison.verdict is not Verdict.INCONCLUSIVE or overhead is None or overhead.high < 0:
        return ""
    return f"at most {units.overhead_interval(overhead, compact=compact).upper}"


def percent_up(fraction: float, *, sign: bool = True) -> str:
    """Return an upper bound as per cent, rounded up so that it still holds."""
    if fraction >= units.TIMES_FROM:
        return units.percent(fraction)
    step = 0.01 if abs(fraction) >= 0.0995 else 0.001
    return units.percent(math.ceil(fraction / step - 1e-9) * step, sign=sign)


def differ_in_sign(column: MetricColumn, comparison: Comparison) -> bool:
    """Tell whether overhead (geometric mean) and added time (arithmetic mean), as shown, have opposite signs."""
    if comparison.overhead is None or comparison.added_s is None:
        return False
    readings = units.overhead_interval(comparison.overhead), column.added(comparison.added_s)
    return {reading.number[:1] for reading in readings} == {"+", units.MINUS}


def reason_text(comparison: Comparison) -> str:
    """Return the reason of a cell's verdict; if it is inconclusive, with an estimate of the rounds it still needs."""
    reason = comparison.reason
    if comparison.verdict is Verdict.INCONCLUSIVE and comparison.more_rounds and "more" not in reason:
        return f"about {counted(comparison.more_rounds, 'more round')} needed" + (f"; {reason}" if reason else "")
    return reason


def loop_overhead(column: MetricColumn, comparison: Comparison) -> float | None:
    """Return the overhead of back-to-back operations (IMB's definition); None if either side did not measure them."""
    base = column.baseline.loop_s if column.baseline else None
    if base is None or comparison.loop_s is None or base.value <= 0:
        return None
    return comparison.loop_s.value / base.value - 1.0


def failures_text(rate: FailureRate) -> str:
    """Return the number of failed launches, as `4/10 failed`."""
    return f"{rate.failed}/{rate.launches} failed"


def _failures(comparison: Comparison) -> str:
    if comparison.verdict is not Verdict.FAILS or comparison.failures is None:
        return ""
    return failures_text(comparison.failures)


def _baseline_cell(column: MetricColumn, comparison: Comparison, *, compact: bool = False) -> CellText:
    verdict = comparison.verdict
    if comparison.absolute_s is None:
        alone = comparison.median_s
        if alone is None:
            return CellText(verdict=verdict, lead="no value", note=comparison.reason)
        value = column.absolute(Estimate(value=alone, low=alone, high=alone, n=1), compact=compact).main
        return CellText(verdict=verdict, lead=value, second=f"± {NOT_ESTIMATED}", note=comparison.reason)
    absolute = column.absolute(comparison.absolute_s, compact=compact)
    costs = (("mean", comparison.mean_absolute_s), ("loop", comparison.loop_s))
    readings = [(word, column.absolute(cost, compact=compact)) for word, cost in costs if cost is not None]
    same_unit = compact and all(reading.unit == absolute.unit for _, reading in readings)
    below = ", ".join(f"{word} {reading.number if same_unit else reading.main}" for word, reading in readings)
    count = "" if compact else f"n = {comparison.absolute_s.n}"
    return CellText(
        verdict=verdict,
        lead=absolute.main,
        lead_bounds=absolute.bounds,
        second=", ".join(filter(None, (below, count))),
        note=comparison.reason,
    )


def _typical_readings(
    column: MetricColumn, comparison: Comparison, *, compact: bool = False
) -> tuple[units.Interval, units.Interval]:
    """Return the two readings of the typical launch, in the order in which a column shows them."""
    empty = units.Interval(number="", unit="", bounds="")
    if comparison.overhead is None:
        return empty, empty
    overhead = units.overhead_interval(comparison.overhead, compact=compact)
    if column.leads_with_time and comparison.added_s is not None:
        return column.added(comparison.added_s, compact=compact), overhead
    if column.is_rate and comparison.absolute_s is not None:
        return overhead, column.absolute(comparison.absolute_s)
    return overhead, column.added(comparison.added_s, compact=compact) if comparison.added_s is not None else empty


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")


def _join(*intervals: units.Interval) -> str:
    return ", ".join(f"{interval.main} {interval.bounds}".strip() for interval in intervals if interval.number)


def _mean_text(comparison: Comparison) -> str:
    if comparison.mean is None:
        return ""
    return f"mean {units.overhead_interval(comparison.mean.overhead)}"


def _loop_text(column: MetricColumn, comparison: Comparison) -> str:
    loop = loop_overhead(column, comparison)
    return "" if loop is None else f"loop {units.percent(loop)}"


def _short_reading(column: MetricColumn, comparison: Comparison) -> str:
    """Return the loop's overhead if the column has one, else the mean's."""
    if loop := _loop_text(column, comparison):
        return loop
    return f"mean {units.overhead_interval(comparison.mean.overhead, compact=True).main}" if comparison.mean else ""
