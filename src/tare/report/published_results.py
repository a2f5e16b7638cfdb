"""Compare the measured overheads with published results for the same environments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tare.model import Comparison, Estimate, MetricKind, Published, Summary
from tare.report import units
from tare.report.view import MetricColumn, TableGroup

NOT_MEASURED: Final = "not measured here"
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([MGT])(?:bit|b/s|bps|\b)")
_MTU: Final = re.compile(r"MTU[ =]?(\d{3,5})")
_PREFIX: Final = {"M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One published value as text, with the corresponding value of this study.

    Each is a fraction of its own baseline, as the metric is read: for rates, less than 100 % is slower.
    """

    environment: str
    workload: str
    metric: str
    published: str
    here: str
    statement: str
    source: str
    conditions: str


def rows(summary: Summary, groups: tuple[TableGroup, ...]) -> tuple[PublishedRow, ...]:
    """Return a row for each published value and each metric that it applies to."""
    workload_of = {cell.group: cell.workload.name for cell in summary.cells}
    result: list[PublishedRow] = []
    for published in summary.published:
        columns = [
            column
            for group in groups
            for column in group.columns
            if workload_of.get(column.info.group) == published.workload and _applies(published, column)
        ]
        under = conditions(published, summary)
        result += [
            _row(published, column.info.label, _measured_share(column, published.environment), under)
            for column in columns
        ]
        if not columns:
            result.append(_row(published, published.metric, NOT_MEASURED, under))
    return tuple(result)


def _applies(published: Published, column: MetricColumn) -> bool:
    return not published.metric or fnmatchcase(column.info.label, published.metric)


def conditions(published: Published, summary: Summary) -> str:
    """Return the conditions of a publication, and whether this study's link differs from them.

    The link's rate and MTU, which matter most, are compared if the publication's conditions state them.
    """
    rate_bps, mtu = _link(published.environment, summary)
    link = f"{rate_bps / 1e9:g} Gbit/s" if rate_bps else "no rate set for the link"
    here = link + (f", MTU {mtu}" if mtu else "")
    if not published.conditions:
        return f"published under other conditions (not stated in the study file); here: {here}"
    rate, size = _RATE.search(published.conditions), _MTU.search(published.conditions)
    other_rate = rate is not None and float(rate[1]) * _PREFIX[rate[2]] != rate_bps
    other_mtu = size is not None and mtu is not None and int(size[1]) != mtu
    if other_rate or other_mtu:
        return f"published under other conditions: {published.conditions}; here: {here}"
    return f"published with {published.conditions}"


def _link(environment: str, summary: Summary) -> tuple[int, int | None]:
    """Return the configured rate of an environment's link, 0 for none, and its MTU as recorded by launches."""
    link = next((candidate.link for candidate in summary.environments if candidate.name == environment), None)
    networks = summary.manifest.get("networks")
    facts = networks.get(environment, {}) if isinstance(networks, Mapping) else {}
    recorded = str(facts.get("mtu", "")) if isinstance(facts, Mapping) else ""
    stated = (link.mtu or None) if link else None
    return (link.rate_bps if link else 0), int(recorded) if recorded.isascii() and recorded.isdecimal() else stated


def _row(published: Published, metric: str, here: str, conditions: str) -> PublishedRow:
    ratio = published.of_baseline
    return PublishedRow(
        environment=published.environment,
        workload=published.workload,
        metric=metric,
        published="" if ratio is None else share(ratio),
        here=here,
        statement=published.told,
        source=published.source,
        conditions=conditions,
    )


def share(ratio: float) -> str:
    """Return a fraction of a baseline in per cent, also if it is large."""
    return f"{units.number(100 * ratio, 0 if ratio >= 0.1 else 1)} %"


def _measured_share(column: MetricColumn, environment: str) -> str:
    comparison = column.cells.get(environment)
    if comparison is None:
        return NOT_MEASURED
    if comparison.overhead is None:
        return f"{comparison.verdict.value} here"
    ratio = fraction_of_baseline(comparison, column.info.kind)
    places = 0 if ratio.high - ratio.low >= 0.02 else 1
    low, high = (units.number(100 * bound, places) for bound in (ratio.low, ratio.high))
    base = column.baseline.absolute_s if column.baseline else None
    of = f" of {column.absolute(base).main}" if base else ""
    return f"{units.number(100 * ratio.value, places)} % [{low}, {high}]{of}, n = {ratio.n}"


def fraction_of_baseline(comparison: Comparison, kind: MetricKind) -> Estimate:
    """Return a comparison as a fraction of the baseline's cost, or of its rate, which is the inverse."""
    cost = comparison.overhead
    if cost is None:
        raise ValueError(f"{comparison.environment} has no overhead on {comparison.metric}")
    share = cost.map(lambda part: 1 + part)
    return share.per(1.0) if kind is MetricKind.RATE else share
