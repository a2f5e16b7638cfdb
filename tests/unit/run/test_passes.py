"""Launches that took turns are compared pass by pass; others keep what they measured."""

from __future__ import annotations

import numpy as np
import pytest

from tare.host.process import Result
from tare.model import Completed, Failed, Metric, MetricKind
from tare.run.trial import Launched, in_the_same_passes
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
    made = in_the_same_passes([first, second])
    assert alone == pytest.approx(0.55)
    assert typical_s(made[1]) / typical_s(made[0]) == pytest.approx(1.1)


OTHERS = {"untold": launched(None), "failed": launched([1.0, 2.0], failed=True), "short": launched([1.0, 1.0])}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_has_no_turns_of_the_same_passes_is_left_alone(other: Launched) -> None:
    one = launched([1.0, 1.5, 2.0])
    assert in_the_same_passes([one, other]) == [one, other]
    assert in_the_same_passes([one]) == [one]
    assert in_the_same_passes([]) == []
