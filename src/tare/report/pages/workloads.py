"""Build the HTML report's page of each workload: the pages of its metrics, message sizes and traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tare.analysis.summary.patterns.iterations import patterns_of_iterations
from tare.model import Summary
from tare.report.frames.source import NumberedTrial
from tare.report.pages.metrics import MetricPage, metric_page
from tare.report.pages.sizes import Sweep, sweeps_of
from tare.report.plots.figures import Drawing
from tare.report.plots.histograms import MetricSamples, SampleSource, collect, samples_of
from tare.report.plots.styles import styles
from tare.report.runs import by_group
from tare.report.traffic import TrafficTables, traffic_tables
from tare.report.view import TableGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPage:
    """The page of one workload in one placement; `number` identifies it among the report's groups."""

    ident: str
    number: int
    name: str
    metrics: tuple[MetricPage, ...]
    sizes: tuple[Sweep, ...]
    traffic: TrafficTables | None

    def figures(self) -> Iterator[Drawing]:
        """Yield all figures of the page, in its order."""
        for sweep in self.sizes:
            yield from sweep.figures
        for metric in self.metrics:
            yield from metric.figures


def workload_pages(
    groups: Sequence[TableGroup], summary: Summary, runs: Sequence[NumberedTrial], samples: SampleSource
) -> Iterator[WorkloadPage]:
    """Yield the page of each group; its samples are read then."""
    style = styles(list(dict.fromkeys(name for group in groups for name in group.rows)), summary)
    of_group = by_group(runs)
    for number, group in enumerate(groups):
        own = of_group.get(group.name, ())
        sampled = _sampled(group, own, samples)
        order = {
            (name, column.info.key): (one.order.lags, one.order.profiles)
            for column in group.columns
            for name, one in sampled[column.ident].mains.items()
        }
        found = patterns_of_iterations(group.name, order, 1 / len(groups))
        yield WorkloadPage(
            ident=f"workload-{number}",
            number=number,
            name=group.name,
            metrics=tuple(
                metric_page(column, group, summary, own, sampled[column.ident], found, style)
                for column in group.columns
            ),
            sizes=tuple(sweeps_of(group, summary, style)),
            traffic=traffic_tables(group.name, f"traffic-{number}", group.rows, own),
        )


def _sampled(group: TableGroup, runs: Sequence[NumberedTrial], samples: SampleSource) -> dict[str, MetricSamples]:
    """Return the samples of each column of a group, by its identifier."""
    histograms = collect(samples, ((run.environment, run.trial) for run in runs if run.completed))
    return {column.ident: samples_of(column.info.key, group.rows, histograms) for column in group.columns}
