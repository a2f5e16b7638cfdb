"""A run tells how much is done and how much time is left, and ends by its budgets or its allocation."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tare.analysis.summary.allocations import KEY, allocation_caveats, node_hours, rounds_of
from tare.clusters import base
from tare.clusters.base import Allocated
from tare.model import Failed, Invalid, Outcome, Plan, Repetition, TrialKey
from tare.run import ending
from tare.run.ending import MARGIN_S, SLACK, Ending
from tare.run.progress import INTERVAL_S, Pace, Progress, duration
from tare.study.plan.cells import available
from unit.clock import Clock
from unit.stored import PLAN, trial

CELLS = [cell.key for cell in available(PLAN)]
TOTAL = len(CELLS) * 3 * 2


def key_of(done: int, repeat: int = 0) -> TrialKey:
    blocks, place = divmod(done, len(CELLS))
    return TrialKey(cell=CELLS[place], round=blocks // 2, block=blocks % 2, attempt=0, repeat=repeat)


def run(progress: Progress, clock: Clock, done: int, took_s: float, outcome: Outcome | None = None) -> None:
    """Run the launch that comes after so many."""
    key = key_of(done)
    progress.launch_started(key, done, TOTAL)
    clock.now_s += took_s
    progress.trial_ended(trial(key, outcome), done + 1, TOTAL)


def test_without_a_terminal_there_is_a_line_a_launch_and_what_went_wrong_is_told_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    with Progress(PLAN, clock) as progress:
        progress.round_started(0, 0)
        clock.now_s += 6.0
        for done in range(4):
            run(progress, clock, done, 9.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "round 1: making the environments, then the first launch"
    assert lines[1].startswith(f"round 1 of 3: {CELLS[0]}; 0 of {TOTAL} launches done, about ")
    assert [line.split("; ")[1].split(" launches")[0] for line in lines[1:-1]] == [f"{n} of {TOTAL}" for n in range(4)]
    assert lines[-1] == f"4 of {TOTAL} launches done"
    clock = Clock()
    progress = Progress(PLAN, clock)
    run(progress, clock, 0, 0.1)
    run(progress, clock, 1, 0.1, Failed(reason="it hung"))
    assert capsys.readouterr().err.splitlines()[-1] == f"Failed: {CELLS[1]}, round 1: it hung"


def test_a_quiet_run_tells_failures_alone(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(PLAN, clock, quiet=True) as progress:
        progress.round_started(0, 0)
        run(progress, clock, 0, 9.0)
        run(progress, clock, 1, 9.0, Failed(reason="it hung"))
    assert capsys.readouterr().err == f"Failed: {CELLS[1]}, round 1: it hung\n"


def test_without_a_terminal_there_is_at_most_a_line_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress(PLAN, clock)
    progress.round_started(0, 0)
    said_s: list[float] = []
    for done in range(TOTAL):
        run(progress, clock, done, 0.7)
        said_s += [clock.now_s] * len(capsys.readouterr().err.splitlines())
    assert len(said_s) == 1 + int(TOTAL * 0.7 / INTERVAL_S)
    assert all(later - earlier >= INTERVAL_S for earlier, later in pairwise(said_s))


def left_s(said: str) -> int:
    found = re.search(r"about (\d+) (s|min) left", said)
    assert found, said
    return int(found.group(1)) * {"s": 1, "min": 60}[found.group(2)]


def test_the_remaining_time_is_steady_although_cells_differ(capsys: pytest.CaptureFixture[str]) -> None:
    """The slow launches of a block come last, which misleads an estimate from the mean so far."""
    clock = Clock()
    progress = Progress(PLAN, clock)
    takes_s = [3.0] * (len(CELLS) - 1) + [8.0]
    told: list[tuple[float, float]] = []
    for done in range(TOTAL):
        if done % (2 * len(CELLS)) == 0:
            progress.round_started(done // (2 * len(CELLS)), 0)
        left = 6 * sum(takes_s) - sum(takes_s[n % len(CELLS)] for n in range(done))
        progress.launch_started(key_of(done), done, TOTAL)
        if "left" in (said := capsys.readouterr().err):
            told.append((left_s(said), left))
        clock.now_s += takes_s[done % len(CELLS)]
        progress.trial_ended(trial(key_of(done)), done + 1, TOTAL)
    assert len(told) > 5, told
    assert all(estimate == pytest.approx(left, abs=1) for estimate, left in told if left <= 70), told


def test_a_resumed_run_expects_what_is_still_to_run_and_repeats_add_a_quarter_at_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = Progress(PLAN, clock)
    done = TOTAL - len(CELLS)
    progress.round_started(2, 0)
    run(progress, clock, done, 6.0)
    capsys.readouterr()
    run(progress, clock, done + 1, 6.0)
    assert left_s(capsys.readouterr().err) == 6 * (len(CELLS) - 1)
    pace = Pace(plan=PLAN)
    for done in range(len(CELLS)):
        pace.ended(key_of(done), 4.0, done + 1)
    without_s = pace.left_s(len(CELLS), TOTAL, 0)
    for done in range(len(CELLS)):
        pace.ended(key_of(done, repeat=1), 4.0, len(CELLS))
    assert without_s < pace.left_s(len(CELLS), TOTAL, 0) <= 1.25 * without_s
    plan: Plan = PLAN
    assert Pace(plan=plan).left_s(0, TOTAL, 3) > 0


def test_the_first_launch_of_a_program_tells_how_long_the_others_take(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress(PLAN, clock)
    progress.round_started(0, 0)
    clock.now_s += 2.0 + 4.0
    progress.calibrated(PLAN.cells[0], 4.0)
    clock.now_s += INTERVAL_S
    progress.launch_started(key_of(0), 0, TOTAL)
    said = capsys.readouterr().err
    assert "w: one launch in bare takes 4 s\n" in said
    pods_s = 2 * (2.0 + INTERVAL_S)  # those of two more rounds
    assert left_s(said.splitlines()[-1]) == pytest.approx(TOTAL * 4 + pods_s, abs=1 if TOTAL * 4 + pods_s < 90 else 31)


def test_on_a_terminal_there_is_a_bar_and_what_went_wrong_stands_above_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with Progress(PLAN, Clock()) as progress:
        progress.round_started(0, 0)
        progress.launch_started(key_of(0), 0, TOTAL)
        progress.trial_ended(trial(key_of(0), Invalid(reason="it ran [bold]elsewhere[/bold]")), 1, TOTAL)
    said = capsys.readouterr().err
    assert f"1/{TOTAL}" in said
    assert f"round 1 of 3: {CELLS[0]}" in said
    assert f"Invalid: {CELLS[0]}, round 1: it ran [bold]elsewhere[/bold]" in said
    assert said.endswith("\x1b[?25h") or said.rstrip().endswith("\x1b[2K") or "\x1b[?25h" in said  # the cursor is back


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.16, "0.2 s"), (89.4, "89 s"), (120, "2 min"), (5000, "83 min"), (7200, "2.0 h")],
)
def test_durations_are_told_in_the_unit_that_is_read_easily(seconds: float, text: str) -> None:
    assert duration(seconds) == text


HOUR_S = 3600.0
BEGAN_S = 5000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock, which stands until its only item is changed."""
    now = [BEGAN_S]
    for module in (ending, base):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    return now


def made(**more: object) -> Ending:
    stated = {"repetition": Repetition(rounds=10), "nodes": 2, "facts": {}, "began_s": BEGAN_S}
    return Ending(**{**stated, **more})  # type: ignore[arg-type]


def allocated(left_s: float | None, label: str = "34") -> Allocated:
    return Allocated(label=label, nodes=("c1", "c2"), ends_unix_s=None if left_s is None else BEGAN_S + left_s)


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


def test_a_run_goes_on_without_limits_and_a_share_of_rounds_counts_in_this_run_alone(clock: list[float]) -> None:
    own = made()
    for number in range(50):
        own.ended_round(number, 60.0)
        clock[0] += 60.0
        assert not own.reached()
    own = made(most_rounds=2)
    own.ended_round(7, 1.0)
    assert not own.reached()
    own.ended_round(8, 1.0)
    assert own.reached()
    assert own.reason == "this allocation's share of 2 rounds is done"
    assert not own.time_is_up


def test_budgets_of_time_and_of_node_hours_end_the_run(clock: list[float]) -> None:
    own = made(repetition=Repetition(budget_s=100.0))
    own.ended_round(0, 60.0)
    clock[0] += 100.0
    assert not own.reached()
    clock[0] += 0.1
    assert own.reached()
    assert own.reason == "its budget of time is used up"
    clock[0] = BEGAN_S
    facts = {KEY: {"33": {"rounds": [0], "node hours": 2.0}}}
    own = made(repetition=Repetition(budget_node_hours=5.0), facts=facts)
    own.ended_round(1, 0.5 * HOUR_S)  # the next one needs 2 nodes x 0.5 h
    clock[0] += HOUR_S
    assert not own.reached()  # 2 + 2 + 1 node-hours
    clock[0] += 1.0
    assert own.reached()
    assert own.reason == "its budget of 5 node-hours does not suffice for another round"


def test_no_round_begins_that_an_allocation_with_a_time_limit_would_not_let_end(clock: list[float]) -> None:
    own = made(allocation=allocated(SLACK * 80.0 + MARGIN_S + 20.0))
    own.ended_round(0, 80.0)
    assert not own.reached()
    own.ended_round(1, 120.0)  # the longest round counts
    own.ended_round(2, 10.0)
    assert own.reached()
    assert own.time_is_up
    assert own.reason == "the allocation ends before another round could"
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
    clock[0] = BEGAN_S
    facts = {KEY: {"34": {"nodes": "c1, c2", "rounds": [0, 1], "node hours": 1.0}}}
    own = made(allocation=allocated(None), facts=facts)
    clock[0] += HOUR_S
    recorded = own.ended_round(2, 10.0)[KEY]
    assert recorded == {"34": {"nodes": "c1, c2", "rounds": [0, 1, 2], "node hours": 3.0}}
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
