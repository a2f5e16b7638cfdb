"""Arrange a summary for a report: tables by group, rows, columns.

Only order and text are computed here; verdicts and intervals come from the summary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare.model import Comparison, Estimate, MetricInfo, Summary
from tare.model.text import counted
from tare.report import units

FIRST_SCREEN_COLUMNS: Final = 6
LISTED_COLUMNS: Final = 3
SMALL_COST_S: Final = 1e-3
"""Below this cost the added time is shown first and the ratio second (METHOD.md section 1, rule 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricColumn:
    """One metric of one group, with its comparisons by environment, those of the baseline and of A/A."""

    info: MetricInfo
    cells: Mapping[str, Comparison]
    baseline: Comparison | None
    noise: Comparison | None

    @property
    def ident(self) -> str:
        """Return an identifier that is valid in HTML and unique in the report."""
        return re.sub(r"[^A-Za-z0-9]+", "-", f"{self.info.group}-{self.info.key}").strip("-").lower()

    @property
    def base_s(self) -> float | None:
        """Return the baseline's cost."""
        return self.baseline.absolute_s.value if self.baseline and self.baseline.absolute_s else None

    @property
    def is_rate(self) -> bool:
        """Tell whether the metric is shown as a rate."""
        return self.info.is_rate

    @property
    def leads_with_time(self) -> bool:
        """Tell whether the added time is shown before the ratio."""
        if self.is_rate or self.base_s is None:
            return False
        return self.info.added_first or abs(self.base_s) < SMALL_COST_S

    @property
    def unit(self) -> str:
        """Return the unit of the baseline's cost, which added times share if possible."""
        return units.time_unit(self.base_s or 1.0).suffix

    def absolute(self, cost: Estimate, *, compact: bool = False) -> units.Interval:
        """Return a cost of this metric as a time, or as a rate if the metric is one."""
        return units.cost_interval(cost, self.info, compact=compact)

    def added(self, extra: Estimate, *, compact: bool = False) -> units.Interval:
        """Return an added time in the unit of the baseline, so that the values of a column are comparable."""
        return units.time_interval(extra, sign=True, reference_s=self.base_s, compact=compact)

    def shown(self, cost_s: float) -> float:
        """Return a cost in the base unit of `axis`: `rate_unit` for a rate, otherwise seconds."""
        return self.info.done_per_sample / cost_s if self.is_rate and cost_s > 0 else cost_s

    def axis(self, costs_s: Sequence[float]) -> tuple[float, str]:
        """Return the size and the suffix of the unit for the median of these costs."""
        ordered = sorted(costs_s)
        middle = self.shown(ordered[len(ordered) // 2]) if ordered else 1.0
        unit = units.rate_unit(middle, self.info.rate_unit) if self.is_rate else units.time_unit(middle)
        return unit.size, unit.suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroup:
    """Cells that are compared with each other; they form one table of the report."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[MetricColumn, ...]


def groups(summary: Summary) -> tuple[TableGroup, ...]:
    """Return the tables of the report, in the order of the summary's metrics."""
    cells: dict[tuple[str, str], dict[str, Comparison]] = {}
    rows: dict[str, dict[str, None]] = {}
    for comparison in summary.comparisons:
        cells.setdefault((comparison.group, comparison.metric), {})[comparison.environment] = comparison
        rows.setdefault(comparison.group, {})[comparison.environment] = None
    result: list[TableGroup] = []
    for name in dict.fromkeys(info.group for info in summary.metrics):
        columns = tuple(
            _column(info, cells.get((name, info.key), {}), summary) for info in summary.metrics if info.group == name
        )
        result.append(TableGroup(name=name, rows=_ordered(rows.get(name, {}), summary), columns=columns))
    return tuple(result)


def judged(groups: Sequence[TableGroup]) -> tuple[TableGroup, ...]:
    """Return the groups with the columns that get verdicts; if the study has none, all columns."""
    pairs = [(group, tuple(column for column in group.columns if column.info.judged)) for group in groups]
    return tuple(replace(group, columns=columns) for group, columns in pairs if columns) or tuple(groups)


def _column(info: MetricInfo, cells: Mapping[str, Comparison], summary: Summary) -> MetricColumn:
    return MetricColumn(
        info=info, cells=cells, baseline=cells.get(summary.baseline), noise=cells.get(summary.self_name)
    )


def _ordered(rows: Mapping[str, None], summary: Summary) -> tuple[str, ...]:
    first = [name for name in (summary.baseline, summary.self_name) if name in rows]
    return (*first, *(name for name in rows if name not in first))


def by_cost(group: TableGroup, summary: Summary) -> tuple[str, ...]:
    """Return the rows: the baseline and itself, then environments by their largest cost, last those without figures."""

    def worst(name: str) -> float:
        found = [cell.overhead for column in group.columns if (cell := column.cells.get(name)) is not None]
        known = [overhead.value for overhead in found if overhead is not None]
        return max(known) if known else math.inf

    first = [name for name in (summary.baseline, summary.self_name) if name in group.rows]
    return (*first, *sorted((name for name in group.rows if name not in first), key=worst))


def machine_line(summary: Summary) -> str:
    """Return the machine without the words "emulated lab", which the badge before it shows."""
    return (
        re.sub(r"^(in (this|an) )?emulated lab[:,;]?\s*", "", summary.machine, flags=re.IGNORECASE) or summary.machine
    )


def first_screen(columns: Sequence[MetricColumn], limit: int = FIRST_SCREEN_COLUMNS) -> tuple[MetricColumn, ...]:
    """Return the columns of the first screen: of each benchmark the smallest message size, then the largest."""
    if len(columns) <= limit:
        return tuple(columns)
    by_family: dict[str, list[MetricColumn]] = {}
    for column in columns:
        by_family.setdefault(family(column.info), []).append(column)
    chosen: list[MetricColumn] = []
    for pick in (_smallest, _largest):
        for members in by_family.values():
            candidate = pick(members)
            if candidate not in chosen and len(chosen) < limit:
                chosen.append(candidate)
    return tuple(column for column in columns if column in chosen)


def _smallest(members: Sequence[MetricColumn]) -> MetricColumn:
    return min(members, key=lambda column: (column.info.message_bytes or 0, column.info.key.endswith(".send")))


def _largest(members: Sequence[MetricColumn]) -> MetricColumn:
    return max(members, key=lambda column: column.info.message_bytes or 0)


def family(info: MetricInfo) -> str:
    """Return the kernel's name, the first part of the key."""
    return re.split(r"[^A-Za-z_]", info.key, maxsplit=1)[0] or info.key


def sweep(info: MetricInfo) -> str:
    """Return the key without its message size; metrics that differ only in it share the result."""
    return re.sub(r"(?<=[:/])\d+", "", info.key, count=1)


def counts_text(summary: Summary) -> str:
    """Return the number of launches, by outcome, and how many are repeats."""
    ended = ", ".join(
        f"{count} {word.removeprefix('trials ')}"
        for word, count in summary.counts.items()
        if count and word.startswith("trials ") and word != "trials that count"
    )
    repeated = summary.counts.get("repeated", 0)
    reruns = summary.counts.get("reruns", 0) - repeated
    total = summary.counts.get("trials", sum(summary.counts.values()))
    again = f", {reruns:,} in blocks that were run again" if reruns > 0 else ""
    repeats = f", {counted(repeated, 'repeat')} because of the machine's state" if repeated else ""
    return f"{total:,} launch{'' if total == 1 else 'es'}" + (f" ({ended})" if ended else "") + again + repeats


def heading(group: TableGroup, all_groups: Sequence[TableGroup]) -> str:
    """Return a heading that distinguishes a group from the report's others; "" if it is the only one."""
    if len(all_groups) == 1:
        return ""
    if sum(other.name == group.name for other in all_groups) == 1:
        return group.name
    first, last = group.columns[0].info.label, group.columns[-1].info.label
    return f"{group.name}, {first}" + (f" to {last}" if len(group.columns) > 1 else "")
