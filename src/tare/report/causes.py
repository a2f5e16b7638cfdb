"""Say in each row of the first screen why it costs something, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tare.model import Cause, Comparison, Summary, Verdict
from tare.report import units
from tare.report.view import LISTED_COLUMNS, MetricColumn

NEXT_STEP: Final = "tare explain RESULTS --run"
"""What to run for a cost without a cause; RESULTS is the folder of the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The cause of costs in one row: at most five words, the metrics if not all, how sure it is, and the remedy."""

    words: str
    on: str
    proven: bool
    share: str
    remedy: str
    unmeasured: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCause:
    """The causes of a row's costs; `unexplained` are the metrics that cost something and have no cause."""

    causes: tuple[Why, ...] = ()
    unexplained: str = ""
    costs: bool = False


def row_cause(name: str, columns: Sequence[MetricColumn], summary: Summary) -> RowCause:
    """Return why an environment costs more in these columns."""
    if name in {summary.baseline, summary.self_name}:
        return RowCause()
    costly = {
        (column.info.group, column.info.key): column.info.label
        for column in columns
        if is_costly(column.cells.get(name))
    }
    whys: list[Why] = []
    explained: set[tuple[str, str]] = set()
    for cause in summary.causes if costly else ():
        if cause.environment != name:  # of a hundred workloads there are thousands, and a row for each
            continue
        covered = costly.keys() & _columns_of(cause)
        if covered:
            whys.append(_why(cause, [costly[key] for key in costly if key in covered], len(costly)))
            explained |= covered
    left = [label for key, label in costly.items() if key not in explained]
    return RowCause(causes=tuple(whys), unexplained=_labels(left, len(costly) or 1), costs=bool(left))


def is_costly(comparison: Comparison | None) -> bool:
    """Tell whether a comparison shows a cost, and therefore asks for a cause."""
    return comparison is not None and comparison.verdict is Verdict.COSTS


def _columns_of(cause: Cause) -> set[tuple[str, str]]:
    return {(cause.group, metric) for metric in cause.metrics}


def _why(cause: Cause, labels: Sequence[str], costly: int) -> Why:
    share = ""
    if cause.share is not None:
        low, value, high = (
            units.percent(part, sign=False) for part in (cause.share.low, cause.share.value, cause.share.high)
        )
        share = f"{value} [{low}, {high}] of the cost"
    return Why(
        words=cause.words,
        on=_labels(labels, costly),
        proven=cause.proven,
        share=share,
        remedy=cause.remedy,
        unmeasured=cause.unmeasured,
    )


def _labels(labels: Sequence[str], costly: int) -> str:
    """Return the metrics that something is about; "" if these are all that cost something."""
    if len(labels) == costly:
        return ""
    return ", ".join(labels) if len(labels) <= LISTED_COLUMNS else f"{len(labels)} metrics"
