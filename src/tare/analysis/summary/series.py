"""One metric over the launches of one cell: figures, failures, and the reasons of launches without figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from tare.analysis.stats import Block
from tare.analysis.summary.select import Selection
from tare.model import Completed, Failed, Interrupted, Invalid, Metric, Trial, Unavailable


class LaunchFigure(NamedTuple):
    """One launch with a figure: the trial and its metric."""

    trial: Trial
    metric: Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of one cell over its launches.

    `counted` holds the readings of the launches that count, by block, `every` those of all launches. `launches` is the
    number of launches that count, `failed` the blocks whose launch failed or timed out. `bad` is the number of launches
    without a figure, and `reason` states that number and why the first has none. `unavailable` is the reason if all
    launches were unavailable.
    """

    counted: Mapping[Block, LaunchFigure] = field(default_factory=dict)
    every: Mapping[Block, tuple[LaunchFigure, ...]] = field(default_factory=dict)
    failed: frozenset[Block] = frozenset()
    launches: int = 0
    bad: int = 0
    repeated: int = 0
    made: int = 0
    reason: str = ""
    unavailable: str = ""

    @property
    def invalid(self) -> bool:
        """Tell whether at least half of the launches have no figure."""
        return self.launches > 0 and (not self.counted or 2 * self.bad >= self.launches)

    @property
    def means_s(self) -> dict[Block, float]:
        """Return the mean costs of the launches that count, by block."""
        return {block: reading.metric.value for block, reading in self.counted.items()}


def series_of(selection: Selection, cell: str, key: str) -> Series:
    """Return the metric `key` over the launches of a cell."""
    counted: dict[Block, LaunchFigure] = {}
    reasons: list[tuple[str, str]] = []
    unavailable: list[str] = []
    failed: set[Block] = set()
    trials = selection.trials[cell]
    for block, trial in trials.items():
        metric = read(trial, key)
        if isinstance(metric, Metric):
            counted[block] = LaunchFigure(trial, metric)
            continue
        reasons.append(metric)
        if isinstance(trial.outcome, Failed):
            failed.add(block)
        if isinstance(trial.outcome, Unavailable):
            unavailable.append(trial.outcome.reason)
    text = ""
    if reasons:
        words = " or ".join(dict.fromkeys(word for word, _ in reasons))
        text = f"{len(reasons)} of {len(trials)} launches {words}: {reasons[0][1]}"
    every = {
        block: readings
        for block, launches in selection.launches[cell].items()
        if (readings := (counted[block],) if len(launches) == 1 and block in counted else _readings(launches, key))
    }
    return Series(
        counted=counted,
        every=every,
        failed=frozenset(failed),
        launches=len(trials),
        bad=len(reasons),
        repeated=sum(len(launches) - 1 for launches in selection.launches[cell].values()),
        made=sum(map(len, selection.launches[cell].values())),
        reason=text,
        unavailable=unavailable[0] if unavailable and len(unavailable) == len(trials) else "",
    )


def _readings(trials: Iterable[Trial], key: str) -> tuple[LaunchFigure, ...]:
    readings = ((trial, read(trial, key)) for trial in trials)
    return tuple(LaunchFigure(trial=trial, metric=metric) for trial, metric in readings if isinstance(metric, Metric))


def read(trial: Trial, key: str) -> Metric | tuple[str, str]:
    """Return a trial's metric, or the kind and the reason of its absence."""
    match trial.outcome:
        case Completed(metrics=metrics):
            for metric in metrics:
                if metric.key == key:
                    if math.isfinite(metric.value) and metric.value > 0:
                        return metric
                    return "invalid", f"a cost of {metric.value:g} s is not positive: the timer did not resolve it"
            return "invalid", "the launch did not report this metric"
        case Failed(reason=reason):
            return "failed", reason
        case Invalid(reason=reason):
            return "invalid", reason
        case Unavailable(reason=reason):
            return "unavailable", reason
        case Interrupted(reason=reason):
            return "interrupted", reason
        case _ as never:
            assert_never(never)
