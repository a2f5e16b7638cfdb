"""A run ends by its share of rounds, its budgets or the end of its allocation, whichever comes first."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tare.cluster.base import Allocated
from tare.model import Repetition
from tare.run import ending
from tare.run.ending import MARGIN_S, SLACK, Ending
from tare.summary.allocations import KEY, allocation_caveats, node_hours, rounds_of

HOUR_S = 3600.0
BEGAN_S = 5000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the monotonic clock, which stands until its only item is changed."""
    now = [BEGAN_S]
    monkeypatch.setattr(ending, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def made(**more: object) -> Ending:
    stated = {"repetition": Repetition(rounds=10), "nodes": 2, "facts": {}, "began_s": BEGAN_S}
    return Ending(**{**stated, **more})  # type: ignore[arg-type]


def allocated(left_s: float | None, label: str = "34") -> Allocated:
    ends = None if left_s is None else time.time() + left_s
    return Allocated(label=label, nodes=("c1", "c2"), ends_unix_s=ends)


@pytest.mark.parametrize(
    "limits",
    [
        {"most_rounds": 0},
        {"allocation": allocated(1.0)},
        {"repetition": Repetition(budget_s=0.0)},
        {"repetition": Repetition(budget_node_hours=0.0)},
    ],
)
def test_the_first_round_always_begins_and_no_second_one_beyond_a_limit(
    limits: dict[str, object], clock: list[float]
) -> None:
    own = made(**limits)
    assert not own.reached()
    own.ended_round(0, 60.0)
    clock[0] += 60.0
    assert own.reached()
    assert own.reason


def test_without_limits_a_run_goes_on(clock: list[float]) -> None:
    own = made()
    for number in range(50):
        own.ended_round(number, 60.0)
        clock[0] += 60.0
        assert not own.reached()


def test_a_share_of_rounds_is_counted_in_this_run_alone(clock: list[float]) -> None:
    own = made(most_rounds=2)
    own.ended_round(7, 1.0)
    assert not own.reached()
    own.ended_round(8, 1.0)
    assert own.reached()
    assert own.reason == "this allocation's share of 2 round(s) is done"
    assert not own.time_is_up


def test_a_budget_of_time_ends_the_run_when_it_is_exceeded(clock: list[float]) -> None:
    own = made(repetition=Repetition(budget_s=100.0))
    own.ended_round(0, 60.0)
    clock[0] += 100.0
    assert not own.reached()
    clock[0] += 0.1
    assert own.reached()
    assert own.reason == "its budget of time is used up"


def test_a_budget_of_node_hours_counts_earlier_runs_and_the_next_round(clock: list[float]) -> None:
    facts = {KEY: {"33": {"rounds": [0], "node hours": 2.0}}}
    own = made(repetition=Repetition(budget_node_hours=5.0), facts=facts)
    own.ended_round(1, 0.5 * HOUR_S)  # the next one needs 2 nodes x 0.5 h
    clock[0] += HOUR_S
    assert not own.reached()  # 2 + 2 + 1 node-hours
    clock[0] += 1.0
    assert own.reached()
    assert own.reason == "its budget of 5 node-hours does not suffice for another round"


def test_no_round_begins_that_the_allocation_would_not_let_end(clock: list[float]) -> None:
    own = made(allocation=allocated(SLACK * 80.0 + MARGIN_S + 20.0))
    own.ended_round(0, 80.0)
    assert not own.reached()
    own.ended_round(1, 120.0)  # the longest round counts
    own.ended_round(2, 10.0)
    assert own.reached()
    assert own.time_is_up
    assert own.reason == "the allocation ends before another round could"


def test_an_allocation_without_a_time_limit_never_ends_a_run(clock: list[float]) -> None:
    own = made(allocation=allocated(None))
    own.ended_round(0, 1e9)
    assert not own.reached()


def test_each_allocation_is_recorded_with_its_nodes_rounds_and_node_hours(clock: list[float]) -> None:
    earlier = {"33": {"nodes": "c3, c4", "rounds": [0], "node hours": 1.5}}
    own = made(allocation=allocated(None), facts={KEY: earlier})
    clock[0] += HOUR_S / 2
    own.ended_round(2, 10.0)
    clock[0] += HOUR_S / 2
    recorded = own.ended_round(1, 10.0)[KEY]
    assert recorded == {**earlier, "34": {"nodes": "c1, c2", "rounds": [1, 2], "node hours": 2.0}}
    assert node_hours({KEY: recorded}) == 3.5
    assert rounds_of({KEY: recorded}) == {"33": [0], "34": [1, 2]}


def test_a_run_that_is_resumed_in_the_same_allocation_adds_to_its_record(clock: list[float]) -> None:
    facts = {KEY: {"34": {"nodes": "c1, c2", "rounds": [0, 1], "node hours": 1.0}}}
    own = made(allocation=allocated(None), facts=facts)
    clock[0] += HOUR_S
    recorded = own.ended_round(2, 10.0)[KEY]
    assert recorded == {"34": {"nodes": "c1, c2", "rounds": [0, 1, 2], "node hours": 3.0}}


def test_outside_of_an_allocation_nothing_is_recorded(clock: list[float]) -> None:
    assert made().ended_round(0, 10.0) == {}


@pytest.mark.parametrize(
    ("rounds", "part"),
    [
        ({"1": [0, 1, 2]}, "One allocation: differences between allocations are not in the intervals"),
        ({"1": [0, 1, 2], "2": [3]}, "2 allocations with up to 3 rounds each: rounds of one allocation are alike"),
        ({"1": [0], "1.1": [1, 2], "2": []}, "2 allocations with up to 2 rounds each"),
    ],
)
def test_rounds_that_share_an_allocation_are_a_caveat(rounds: dict[str, list[int]], part: str) -> None:
    (said,) = allocation_caveats({KEY: {name: {"rounds": own} for name, own in rounds.items()}})
    assert said.startswith(part)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {KEY: {}},
        {KEY: "damaged"},
        {KEY: {"1": "damaged", "2": {"rounds": []}}},
        {KEY: {str(number): {"rounds": [number]} for number in range(6)}},
    ],
)
def test_rounds_of_one_allocation_each_are_none_and_neither_is_what_is_not_recorded(facts: dict[str, object]) -> None:
    assert list(allocation_caveats(facts)) == []
    assert node_hours(facts) == 0
