"""Describe a comparison in lines: verdict, typical launch, mean and values, every point with interval and rounds."""

from __future__ import annotations

from collections.abc import Iterator

from tare.model import Estimate, Summary, Verdict
from tare.model.text import counted
from tare.report import units
from tare.report.cells import failures_text, reason_text
from tare.report.frames.comparisons import CellComparison
from tare.report.view import MetricColumn


def lines(each: CellComparison, summary: Summary) -> Iterator[str]:
    """Yield the lines about a comparison."""
    item, info = each.comparison, each.info
    reason = reason_text(item)
    yield f"verdict: {verdict_text(each)}" + (f" ({reason})" if reason else "")
    if info is None:
        return
    column = MetricColumn(info=info, cells={}, baseline=each.base, noise=None)
    if item.overhead is not None:
        parts = [f"typical launch: {overhead_text(item.overhead)}"]
        parts += [f"added {column.added(item.added_s)} ({rounds_text(item.added_s)})"] if item.added_s else []
        yield ", ".join(parts)
    if item.mean is not None:
        yield f"mean: {overhead_text(item.mean.overhead)}"
    if item.absolute_s is not None:
        yield f"value: {absolute_text(column, item.absolute_s)}"
    if item.environment != summary.baseline and each.base is not None and each.base.absolute_s is not None:
        yield f"value of {summary.baseline}: {absolute_text(column, each.base.absolute_s)}"
    if item.failures is not None and item.failures.failed:
        low, high = (units.percent(share, sign=False) for share in (item.failures.low, item.failures.high))
        yield f"launches: {failures_text(item.failures)}, 95 % interval of the share {low} to {high}"


def verdict_text(each: CellComparison) -> str:
    """Return the verdict in words, "no cost" with its margin."""
    item = each.comparison
    if item.verdict is Verdict.NO_COST and item.within is not None:
        return f"no cost beyond {units.percent(item.within, sign=False)}"
    return item.verdict.value


def judged_text(each: CellComparison) -> str:
    """Return the overhead to which a limit refers: the mean's, or the only one if a metric has one value a launch."""
    mean, overhead = each.comparison.mean, each.comparison.overhead
    if mean is not None:
        return f"the mean's overhead {overhead_text(mean.overhead)}"
    return f"the overhead {overhead_text(overhead)}" if overhead is not None else "the overhead"


def overhead_text(overhead: Estimate) -> str:
    """Return an overhead with its interval and number of rounds."""
    return f"{units.overhead_interval(overhead)} ({rounds_text(overhead)})"


def absolute_text(column: MetricColumn, cost: Estimate) -> str:
    """Return a time, or a rate if the metric is one, with its interval and number of rounds."""
    return f"{column.absolute(cost)} ({rounds_text(cost)})"


def rounds_text(estimate: Estimate) -> str:
    """Return the number of rounds of an estimate, as `n = 10 rounds`."""
    return f"n = {counted(estimate.n, 'round')}"
