"""The table of trials: a row for each launch and metric; a launch without metrics has one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tare.model import Completed, Metric, MetricKind
from tare.report.frames.columns import Row, Table, count, number, text, truth
from tare.report.frames.source import NumberedTrial, Source, outcome_reason, outcome_word

STARTUP: Final = ("pods_s", "mpi_init_s", "launch_s")
COLUMNS: Final = (
    count("trial", "number of the launch in order of execution, from 1; the same in all tables"),
    text("cell", "key of the cell"),
    text("group", "cells that are compared with each other: workload and placement"),
    text("environment", "environment; the second baseline of A/A has a name of its own"),
    text("role", "`baseline`, `a/a` or `environment`"),
    count("round", "round, from 0"),
    count("block", "block of the round, from 0"),
    count("attempt", "attempt at the block, from 0"),
    count("repeat", "repeat in the attempt because of the machine's state; 0: first launch"),
    count("position", "place in the order of its block, from 0"),
    number("started_unix_s", "s", "start, seconds since 1970-01-01 UTC"),
    number("elapsed_s", "s", "duration of the launch"),
    text("outcome", "`completed`, `failed`, `invalid`, `unavailable` or `interrupted`"),
    text("reason", "why there are no metrics"),
    truth("counts", "false if a later launch superseded it"),
    text("unproven", "which counters could not be read, so that the treatment is not proven"),
    text("partly_proven", "which part of the proof was not possible"),
    count("left_behind", "processes that the launch left behind; empty: not recorded, as in results of 0.1.0"),
    text("mpi_library", "MPI library as it describes itself"),
    number("pods_s", "s", "time to bring the containers up"),
    number("mpi_init_s", "s", "time in MPI_Init"),
    number("launch_s", "s", "time of the launcher"),
    text("metric", "key of the metric"),
    text("label", "name of the metric in reports"),
    text("kind", "`cost` or `rate`"),
    text("statistic", "how `cost_s` is computed from the samples"),
    number("cost_s", "s", "cost of one operation in this launch, as a rule the mean; of rates too"),
    number("typical_s", "s", "cost of the typical iteration: the median, or `cost_s` if there is none"),
    number("p99_s", "s", "99th percentile of the iterations"),
    number("rank_average_s", "s", "mean over iterations, average over ranks, as OSU reports it"),
    number("loop_s", "s", "mean of back-to-back operations, as in IMB"),
    number("turn_mean_s", "s", "mean of the iterations in the typical turn, of launches that took turns"),
    number("turn_spread_s", "s", "99th percentile less median of the iterations in the typical turn"),
    number("rate", "`rate_unit`", "rate that belongs to `cost_s`, if the metric is a rate"),
    text("rate_unit", "unit of `rate`"),
    count("message_bytes", "bytes per rank and operation", "B"),
    count("samples", "iterations from which the figures are computed"),
    count("late", "iterations that began late"),
    truth("judged", "whether the metric gets verdicts"),
)


def rows(source: Source) -> Iterator[Row]:
    """Yield the rows in order of execution, and of each launch in the order in which it reported its metrics."""
    for numbered in source.trials:
        launch = _launch_values(numbered)
        outcome = numbered.trial.outcome
        metrics = outcome.metrics if isinstance(outcome, Completed) else ()
        for metric in metrics:
            yield (*launch, *_metric_values(metric))
        if not metrics:
            yield (*launch, *_NO_METRIC)


def _launch_values(numbered: NumberedTrial) -> Row:
    trial, cell = numbered.trial, numbered.cell
    key = trial.key
    return (
        numbered.number,
        key.cell,
        cell.group,
        numbered.environment,
        cell.role.value,
        key.round,
        key.block,
        key.attempt,
        key.repeat,
        trial.position,
        trial.started_unix_s,
        trial.elapsed_s,
        outcome_word(trial),
        outcome_reason(trial),
        numbered.counts,
        trial.unproven,
        trial.partly_proven,
        None if trial.left is None else sum(trial.left.values()),
        trial.mpi_library,
        *map(trial.startup_s.get, STARTUP),
    )


def _metric_values(metric: Metric) -> Row:
    is_rate = metric.kind is MetricKind.RATE and metric.done_per_sample > 0
    return (
        metric.key,
        metric.label,
        metric.kind.value,
        metric.statistic,
        metric.value,
        metric.typical_s,
        metric.p99_s,
        metric.rank_average_s,
        metric.loop_s,
        metric.turn_mean_s,
        metric.turn_spread_s,
        metric.done_per_sample / metric.value if is_rate else None,
        metric.rate_unit if is_rate else None,
        metric.message_bytes,
        metric.samples,
        metric.late,
        metric.judged,
    )


_NO_METRIC: Final = (None,) * 17

TABLE: Final = Table(
    name="trials",
    meaning="One row per launch and metric; a launch without metrics has one row.",
    columns=COLUMNS,
    rows=rows,
)
