"""A run tells what runs now, how much is done and how much time is left, with and without a terminal."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tare.model import Completed, Failed, Invalid, Outcome, Plan, Trial, TrialKey
from tare.plan.cells import available
from tare.run.progress import INTERVAL_S, Pace, Progress, duration
from unit.stored import PLAN

CELLS = [cell.key for cell in available(PLAN)]
TOTAL = len(CELLS) * 3 * 2


class Clock:
    """Seconds that pass only when a test says so."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def key_of(done: int, repeat: int = 0) -> TrialKey:
    blocks, place = divmod(done, len(CELLS))
    return TrialKey(cell=CELLS[place], round=blocks // 2, block=blocks % 2, attempt=0, repeat=repeat)


def trial_of(key: TrialKey, outcome: Outcome | None = None) -> Trial:
    outcome = outcome or Completed(metrics=())
    return Trial(key=key, position=0, started_unix_s=0.0, elapsed_s=1.0, outcome=outcome)


def run(progress: Progress, clock: Clock, done: int, took_s: float, outcome: Outcome | None = None) -> None:
    """Run the launch that comes after so many."""
    key = key_of(done)
    progress.launch_started(key, done, TOTAL)
    clock.now_s += took_s
    progress.trial_ended(trial_of(key, outcome), done + 1, TOTAL)


def test_without_a_terminal_there_is_a_line_a_launch(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(PLAN, clock) as progress:
        progress.round_started(0, 0)
        clock.now_s += 6.0
        for done in range(4):
            run(progress, clock, done, 9.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "round 1: making pods"
    assert lines[1].startswith(f"round 1 of 3: {CELLS[0]}; 0 of {TOTAL} launches done, about ")
    assert [line.split("; ")[1].split(" launches")[0] for line in lines[1:-1]] == [f"{n} of {TOTAL}" for n in range(4)]
    assert lines[-1] == f"4 of {TOTAL} launches done"


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


def test_what_went_wrong_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress(PLAN, clock)
    run(progress, clock, 0, 0.1)
    run(progress, clock, 1, 0.1, Failed(reason="it hung"))
    assert capsys.readouterr().err.splitlines()[-1] == f"Failed: {CELLS[1]}, round 1: it hung"


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
        progress.trial_ended(trial_of(key_of(done)), done + 1, TOTAL)
    assert len(told) > 5, told
    assert all(estimate == pytest.approx(left, abs=1) for estimate, left in told if left <= 70), told


def test_a_resumed_run_expects_only_what_is_still_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress(PLAN, clock)
    done = TOTAL - len(CELLS)
    progress.round_started(2, 0)
    run(progress, clock, done, 6.0)
    capsys.readouterr()
    run(progress, clock, done + 1, 6.0)
    assert left_s(capsys.readouterr().err) == 6 * (len(CELLS) - 1)


def test_repeats_raise_the_remaining_time_by_a_quarter_at_most() -> None:
    pace = Pace(plan=PLAN)
    for done in range(len(CELLS)):
        pace.ended(key_of(done), 4.0, done + 1)
    without_s = pace.left_s(len(CELLS), TOTAL, 0)
    for done in range(len(CELLS)):
        pace.ended(key_of(done, repeat=1), 4.0, len(CELLS))
    assert without_s < pace.left_s(len(CELLS), TOTAL, 0) <= 1.25 * without_s


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
        progress.trial_ended(trial_of(key_of(0), Invalid(reason="it ran [bold]elsewhere[/bold]")), 1, TOTAL)
    said = capsys.readouterr().err
    assert f"1/{TOTAL}" in said
    assert f"round 1 of 3: {CELLS[0]}" in said
    assert f"Invalid: {CELLS[0]}, round 1: it ran [bold]elsewhere[/bold]" in said
    assert said.endswith("\x1b[?25h") or said.rstrip().endswith("\x1b[2K") or "\x1b[?25h" in said  # the cursor is back


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (89.4, "89 s"), (120, "2 min"), (5000, "83 min"), (7200, "2.0 h")]
)
def test_durations_are_told_in_the_unit_that_is_read_easily(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_plan_of_which_nothing_is_known_is_estimated_as_the_plan_says() -> None:
    plan: Plan = PLAN
    assert Pace(plan=plan).left_s(0, TOTAL, 3) > 0
