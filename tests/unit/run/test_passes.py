"""Launches that took turns are compared pass by pass; others keep what they measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tare.host.process import Result
from tare.model import Completed, Failed, Metric, MetricKind
from tare.run.trial import Launched, in_the_same_passes
from tare.stats import LEAST_IN_A_TURN
from tare.workloads import Parsed
from tare.workloads.output import BY_TURN, Payload

SPEC = "npb-ep:class=A"


def launched(turns: list[float] | None, *, failed: bool = False) -> Launched:
    """Return a launch whose parts took so long in its turns, and whose cost is that of ten parts."""
    typical = 10 * float(np.median(turns or [1.0]))
    metric = Metric(
        key=SPEC,
        label=SPEC,
        kind=MetricKind.RATE,
        value=20.0,
        median_s=typical,
        p99_s=30.0,
        statistic="mean over turns",
    )
    samples = {} if turns is None else {f"{SPEC}/{BY_TURN}": np.asarray(turns)}
    parsed = Parsed(
        metrics=(metric,), ranks=(), payload=Payload(), mpi_library="", init_s=0.0, measured_s=1.0, samples=samples
    )
    return Launched(
        result=Result(argv=("x",), status=0, stdout="", stderr="", elapsed_s=1.0, began_s=0.0),
        outcome=Failed(reason="it ended", status=1) if failed else Completed(metrics=(metric,)),
        parsed=parsed,
        traffic=(),
        counters={},
        noise={},
        active_s=1.0,
    )


def typical_s(one: Launched) -> float:
    assert isinstance(one.outcome, Completed)
    (metric,) = one.outcome.metrics
    assert metric.value == 20.0, "the mean stays"
    return metric.typical_s


def test_a_drift_that_all_saw_is_in_no_difference() -> None:
    first = launched([1.0, 1.0, 2.0, 2.0, 2.0])  # the machine became slow after two passes
    second = launched([1.1, 1.1, 1.1, 2.2, 2.2])  # here after three, in the middle of a pass
    alone = typical_s(second) / typical_s(first)
    made = in_the_same_passes([first, second], 5)
    assert alone == pytest.approx(0.55)
    assert typical_s(made[1]) / typical_s(made[0]) == pytest.approx(1.1)


OTHERS = {"untold": launched(None), "failed": launched([1.0, 2.0], failed=True), "short": launched([1.0, 1.0])}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_has_no_turns_of_the_same_passes_is_left_alone(other: Launched) -> None:
    one = launched([1.0, 1.5, 2.0])
    assert in_the_same_passes([one, other], 3) == [one, other]
    assert in_the_same_passes([one], 3) == [one]
    assert in_the_same_passes([], 3) == []


KERNEL = "latency:8"
TURNS = 10


def kernel(seconds: np.ndarray, *, key: str = KERNEL) -> Launched:
    """Return a launch of a kernel whose iterations took so long."""
    metric = Metric(
        key=key,
        label=key,
        kind=MetricKind.COST,
        value=float(seconds.mean()),
        median_s=float(np.median(seconds)),
        p99_s=float(np.quantile(seconds, 0.99)),
        samples=len(seconds),
    )
    parsed = Parsed(
        metrics=(metric,),
        ranks=(),
        payload=Payload(),
        mpi_library="",
        init_s=0.0,
        measured_s=1.0,
        iterations={key: seconds},
    )
    return replace(launched(None), outcome=Completed(metrics=(metric,)), parsed=parsed)


def metric_of(one: Launched) -> Metric:
    assert isinstance(one.outcome, Completed)
    (metric,) = one.outcome.metrics
    return metric


def drawn(rng: np.random.Generator, scale: float, *, burst: int, slow: float = 0.1, count: int = 200) -> np.ndarray:
    """Return iterations, one in ten `slow` times slower, on a machine that drifts, with a burst in one turn."""
    drift = np.repeat(1.0 + 0.05 * np.arange(TURNS), count)
    seconds = scale * drift * np.where(np.arange(TURNS * count) % 10 == 0, 1.0 + slow, 1.0)
    seconds *= 1.0 + 0.001 * rng.random(seconds.size)
    seconds[burst * count : burst * count + 5] *= 1000.0
    return seconds


def test_of_a_kernel_the_typical_and_the_mean_iteration_of_turns_are_compared_pass_by_pass() -> None:
    rng = np.random.default_rng(3)
    bare, dearer = drawn(rng, 1e-5, burst=2), drawn(rng, 1.1e-5, burst=7, slow=0.5)
    one, other = (metric_of(each) for each in in_the_same_passes([kernel(bare), kernel(dearer)], TURNS))
    assert other.typical_s / one.typical_s == pytest.approx(1.1, rel=0.002)
    assert one.turn_mean_s is not None
    assert other.turn_mean_s is not None
    assert other.turn_mean_s / one.turn_mean_s == pytest.approx(1.1 * 1.05 / 1.01, rel=0.002)
    assert one.turn_spread_s is not None
    assert other.turn_spread_s is not None
    assert other.turn_spread_s / one.turn_spread_s == pytest.approx(1.1 * 0.5 / 0.1, rel=0.02)
    assert (one.value, other.value) == (bare.mean(), dearer.mean()), "the mean of all iterations stays"


@pytest.mark.parametrize(("count", "mean", "spread"), [(4, False, False), (LEAST_IN_A_TURN, True, False)])
def test_turns_of_few_iterations_have_a_typical_one_only(count: int, mean: bool, spread: bool) -> None:
    rng = np.random.default_rng(4)
    launches = [kernel(rng.uniform(1.0, 2.0, TURNS * count)) for _ in range(3)]
    for before, after in zip(launches, in_the_same_passes(launches, TURNS), strict=True):
        assert metric_of(after).median_s != metric_of(before).median_s
        assert (metric_of(after).turn_mean_s is not None) is mean
        assert (metric_of(after).turn_spread_s is not None) is spread


def test_turns_without_an_iteration_or_with_impossible_ones_are_left_alone() -> None:
    rng = np.random.default_rng(4)
    one = kernel(rng.uniform(1.0, 2.0, TURNS * 5))
    zero = kernel(np.append(rng.uniform(1.0, 2.0, TURNS * 5 - 1), 0.0))
    few = kernel(rng.uniform(1.0, 2.0, TURNS - 1))
    another = kernel(rng.uniform(1.0, 2.0, TURNS * 5), key="barrier")
    assert in_the_same_passes([one, zero, few, another], TURNS) == [one, zero, few, another]


def test_the_messages_of_a_window_count_for_the_mean_of_a_turn() -> None:
    rng = np.random.default_rng(4)
    launches = []
    for _ in range(2):
        one = kernel(rng.uniform(1.0, 2.0, TURNS * 2))
        windowed = replace(metric_of(one), done_per_sample=64 * 1024, message_bytes=1024)
        launches.append(replace(one, outcome=Completed(metrics=(windowed,))))
    assert all(metric_of(one).turn_mean_s is not None for one in in_the_same_passes(launches, TURNS))
