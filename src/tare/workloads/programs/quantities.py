"""Make metrics of programs that print means instead of samples: times are costs, work per second is a rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tare.model import Metric, MetricInfo, MetricKind
from tare.model.text import bytes_label
from tare.workloads.output import OutputError, metric_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One metric of a program before it has a value.

    `done` is the work of one sample of a rate, in `unit` without its `/s`; 0 means a time.
    """

    key: str
    label: str
    statistic: str
    done: float = 0.0
    unit: str = "B/s"
    message_bytes: int | None = None

    @property
    def kind(self) -> MetricKind:
        """Return the kind of the metric: a cost or a rate."""
        return MetricKind.RATE if self.done > 0 else MetricKind.COST

    def info(self) -> MetricInfo:
        """Return the column of this metric; the caller sets its group."""
        return MetricInfo(
            key=self.key,
            label=self.label,
            kind=self.kind,
            statistic=self.statistic,
            group="",
            message_bytes=self.message_bytes,
            done_per_sample=self.done,
            rate_unit=self.unit,
        )

    def took(self, seconds: float) -> Metric:
        """Return the metric of a sample of this time; raise `OutputError` for an impossible time."""
        if not 0 < seconds < math.inf:
            short = ": it took less than the last decimal that is printed" if seconds == 0 else ""
            raise OutputError(f"{self.label}: {seconds:g} s is not a possible time{short}")
        return metric_of(self.info(), seconds)

    def ran(self, per_second: float) -> Metric:
        """Return the metric of a rate, in units a second; raise `OutputError` for one that is not above zero."""
        if not per_second > 0:
            raise OutputError(f"{self.label}: {per_second:g} {self.unit} is not a possible rate")
        return self.took(self.done / per_second)


def sized(test: str, message_bytes: int) -> tuple[str, str]:
    """Return key and label of a test at one message size."""
    return f"{test}:{message_bytes}", f"{test} {bytes_label(message_bytes)}"
