"""A results folder in which every kind of cell occurs: decided, undecided, above the limit, failing, never run."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tare.model import Completed, Failed, Figure, InterfaceTraffic, Metric, MetricKind, Outcome, Placement, Plan, Trial
from tare.report.frames import Source
from tare.store.results import read_only
from tare.store.writer import Store
from unit.summaries import change, latency, make_plan, make_trials

REASON = "docker is not installed here"
FAILURE = "it ended with status 9"
LIMIT = 0.25
ITERATIONS = 20
FIGURES = (Figure(key="lost", label="datagrams lost", value=0.5, unit="%"),)
TRAFFIC = (
    InterfaceTraffic(
        node="n0", interface="eth0", role="data NIC", rx_bytes=10, tx_bytes=20, rx_packets=1, tx_packets=2
    ),
)


def plan() -> Plan:
    """Return a plan of two groups; of the second no cell can run."""
    made = make_plan(
        "overlay", "slow", "noisy", "broken", "gone",
        unavailable={"gone": REASON}, limit=LIMIT, placements=(Placement(), Placement(ranks_per_node=2)),
    )  # fmt: skip
    second = {cell.key: "too few cores" for cell in made.cells if cell.placement.ranks_per_node == 2}
    return replace(made, unavailable={**made.unavailable, **second})


def trials(of: Plan) -> list[Trial]:
    """Return the trials of a plan; noisy ones differ from round to round, and broken ones fail."""

    def noisy(round_: int) -> Outcome:
        factor = math.exp(random.Random(round_).gauss(0.02, 0.3))
        return Completed(metrics=tuple(replace(metric, value=metric.value * factor) for metric in metrics(8e-6)))

    def metrics(value: float) -> tuple[Metric, ...]:
        return latency(value), bandwidth(value)

    completed = [
        replace(
            trial,
            outcome=Completed(metrics=metrics(trial.outcome.metrics[0].value), figures=FIGURES),
            position=index,
            startup_s={"pods_s": 0.5, "mpi_init_s": 0.1, "launch_s": 0.2},
            counters={"TcpRetransSegs": 3.0},
            noise={"cores": 2.0, "background_s": 0.01},
            traffic=TRAFFIC,
        )
        for index, trial in enumerate(make_trials(of))
        if isinstance(trial.outcome, Completed)
    ]
    found = change(completed, "noisy", lambda round_: Completed(metrics=noisy_metrics(noisy(round_))))
    return change(found, "broken", lambda _round: Failed(reason=FAILURE, status=9, stderr_tail="killed\n"))


def noisy_metrics(outcome: Outcome) -> tuple[Metric, ...]:
    assert isinstance(outcome, Completed)
    return tuple(replace(metric, median_s=metric.value) for metric in outcome.metrics)


def bandwidth(value: float) -> Metric:
    """Return a rate of the same cost."""
    return Metric(
        key="bw:65536", label="bw 64 KiB", kind=MetricKind.RATE, value=value, median_s=value, done_per_sample=65536.0,
        message_bytes=65536, samples=ITERATIONS,
    )  # fmt: skip


def write(folder: Path, of: Plan, launches: list[Trial], facts: Mapping[str, Any] | None = None) -> Path:
    """Write a results folder without waiting for the disk."""
    recorded = {"machine": "a made-up machine", **(facts or {})}
    with mock.patch("os.fdatasync"), Store.create_or_open(folder, of, recorded) as store:
        for trial in launches:
            store.append(trial, samples(trial))
    return folder


def example(folder: Path) -> Path:
    """Write the results folder of the plan and the trials above."""
    made = plan()
    return write(folder, made, trials(made))


def samples(trial: Trial) -> Mapping[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return a trial's samples: iteration `i` of a metric takes `1 + i / 100` of its cost."""
    if not isinstance(trial.outcome, Completed):
        return {}
    growing = 1 + np.arange(ITERATIONS) / 100
    return {f"{metric.key}/max_s": metric.value * growing for metric in trial.outcome.metrics}


def source(folder: Path) -> Source:
    """Return a results folder as the formats get it."""
    return Source(read_only(folder, skip_damaged=True))
