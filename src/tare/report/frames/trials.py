"""The table of trials: a row for each launch and metric; a launch without metrics has one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.model import Metric, MetricKind
from tare.report.frames.columns import CELL, Columns, Row, Table, count, number, text, truth, values_of
from tare.report.frames.source import NumberedTrial, Source, outcome_word


def _is_rate(metric: Metric) -> bool:
    return metric.kind is MetricKind.RATE and metric.done_per_sample > 0


LAUNCH: Final[Columns[NumberedTrial]] = {
    count("trial", "number of the launch in order of execution, from 1; the same in all tables"): lambda t: t.number,
    **CELL,
    count("round", "round, from 0"): lambda t: t.trial.key.round,
    count("block", "block of the round, from 0"): lambda t: t.trial.key.block,
    count("attempt", "attempt at the block, from 0"): lambda t: t.trial.key.attempt,
    count("repeat", "repeat in the attempt because of the machine's state; 0: first launch"): lambda t: (
        t.trial.key.repeat
    ),
    count("position", "place in the order of its block, from 0"): lambda t: t.trial.position,
    number("started_unix_s", "s", "start, seconds since 1970-01-01 UTC"): lambda t: t.trial.started_unix_s,
    number("elapsed_s", "s", "duration of the launch"): lambda t: t.trial.elapsed_s,
    text("outcome", "`completed`, `failed`, `invalid`, `unavailable` or `interrupted`"): lambda t: outcome_word(
        t.trial
    ),
    text("reason", "why there are no metrics"): lambda t: t.trial.reason,
    truth("counts", "false if a later launch superseded it"): lambda t: t.counts,
    text("unproven", "which counters could not be read, so that the treatment is not proven"): lambda t: (
        t.trial.unproven
    ),
    text("partly_proven", "which part of the proof was not possible"): lambda t: t.trial.partly_proven,
    count(
        "left_behind", "processes that the launch left behind; empty: not recorded, as in results of 0.1.0"
    ): lambda t: None if t.trial.left is None else sum(t.trial.left.values()),
    text("mpi_library", "MPI library as it describes itself"): lambda t: t.trial.mpi_library,
    number("pods_s", "s", "time to bring the containers up"): lambda t: t.trial.startup_s.get("pods_s"),
    number("mpi_init_s", "s", "time in MPI_Init"): lambda t: t.trial.startup_s.get("mpi_init_s"),
    number("launch_s", "s", "time of the launcher"): lambda t: t.trial.startup_s.get("launch_s"),
}
"""The columns of a launch."""

METRIC: Final[Columns[Metric]] = {
    text("metric", "key of the metric"): lambda m: m.key,
    text("label", "name of the metric in reports"): lambda m: m.label,
    text("kind", "`cost` or `rate`"): lambda m: m.kind.value,
    text("statistic", "how `cost_s` is computed from the samples"): lambda m: m.statistic,
    number("cost_s", "s", "cost of one operation in this launch, as a rule the mean; of rates too"): lambda m: m.value,
    number("typical_s", "s", "cost of the typical iteration: the median, or `cost_s` if there is none"): lambda m: (
        m.typical_s
    ),
    number("p99_s", "s", "99th percentile of the iterations"): lambda m: m.p99_s,
    number("rank_average_s", "s", "mean over iterations, average over ranks, as OSU reports it"): lambda m: (
        m.rank_average_s
    ),
    number("loop_s", "s", "mean of back-to-back operations, as in IMB"): lambda m: m.loop_s,
    number("turn_mean_s", "s", "mean of the iterations in the typical turn, of launches that took turns"): lambda m: (
        m.turn_mean_s
    ),
    number("turn_spread_s", "s", "99th percentile less median of the iterations in the typical turn"): lambda m: (
        m.turn_spread_s
    ),
    number("rate", "`rate_unit`", "rate that belongs to `cost_s`, if the metric is a rate"): lambda m: (
        m.done_per_sample / m.value if _is_rate(m) else None
    ),
    text("rate_unit", "unit of `rate`"): lambda m: m.rate_unit if _is_rate(m) else None,
    count("message_bytes", "bytes per rank and operation", "B"): lambda m: m.message_bytes,
    count("samples", "iterations from which the figures are computed"): lambda m: m.samples,
    count("late", "iterations that began late"): lambda m: m.late,
    truth("judged", "whether the metric gets verdicts"): lambda m: m.judged,
}
"""The columns of one of its metrics."""


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in order of execution, and of each launch in the order in which it reported its metrics."""
    for numbered in source.trials:
        launch = values_of(LAUNCH, numbered)
        for metric in numbered.trial.metrics:
            yield (*launch, *values_of(METRIC, metric))
        if not numbered.trial.metrics:
            yield (*launch, *[None] * len(METRIC))


TABLE: Final = Table(
    name="trials",
    meaning="One row per launch and metric; a launch without metrics has one row.",
    columns=(*LAUNCH, *METRIC),
    rows=rows,
)
