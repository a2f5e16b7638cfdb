"""Build the HTML report's page of each workload: the pages of its metrics, message sizes and traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tare.report.pages.metrics import MetricPage
from tare.report.pages.sizes import Sweep
from tare.report.plots.figures import Drawing
from tare.report.samples.drawing import Drawings, DrawnColumn
from tare.report.traffic import TrafficTables


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


def with_plots(page: WorkloadPage, drawings: Drawings) -> WorkloadPage:
    """Return a page with the plots of its launches and samples; each metric's overheads stay first."""
    return replace(page, metrics=tuple(_with_plots(metric, drawings[metric.column.ident]) for metric in page.metrics))


def _with_plots(page: MetricPage, plots: DrawnColumn) -> MetricPage:
    first, *others = page.figures
    return replace(page, figures=(first, *plots.launches, *others, *plots.samples))
