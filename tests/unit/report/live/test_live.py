"""A run on fakes whose report is renewed: after blocks, for a share of the time, never during a launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tare.cli import session
from tare.model import Failed, Plan, TrialKey
from tare.report.live import Live, watcher
from tare.report.live.watcher import SHARE
from tare.run import runner
from tare.store.writer import Store
from tare.study.feasibility.study_files import make_files
from tare.study.plan.cells import available
from unit.clock import Clock
from unit.runs import known_study
from unit.stored import trial

STOPS = " data-ended>"


class Following:
    """The renewed report of a study on fakes, whose events a test plays."""

    def __init__(self, live: Live, plan: Plan, store: Store, page: Path, clock: Clock) -> None:
        self.live, self.plan, self.store, self.page, self.clock = live, plan, store, page, clock
        self.cells = [cell.key for cell in available(plan)]
        self.total = len(self.cells) * plan.study.repetition.rounds

    @property
    def text(self) -> str:
        return self.page.read_text()

    def launch(self, number: int, outcome: Any = None) -> None:
        """Play a launch, from its start to its end."""
        self.begin(number)
        self.live.trial_ended(self.store.append(trial(self.key(number), outcome)), number + 1, self.total)

    def begin(self, number: int) -> None:
        self.live.launch_started(self.key(number), number, self.total)
        self.live.launching((self.key(number),))

    def key(self, number: int) -> TrialKey:
        round_, place = divmod(number, len(self.cells))
        return TrialKey(cell=self.cells[place], round=round_, block=0, attempt=0)


@contextmanager
def following(folder: Path) -> Iterator[Following]:
    plan = session.make_plan(known_study(rounds=3, kernels=1))
    page = folder / "report.html"
    with (
        Store.create_or_open(folder, plan, {}) as store,
        Live(plan, store, page, lambda: session.summary_of(store), clock := Clock()) as live,
    ):
        yield Following(live, plan, store, page, clock)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Following]:
    with following(tmp_path / "results") as played:
        yield played


def test_the_page_has_figures_of_whole_rounds_and_says_that_they_are_preliminary(run: Following) -> None:
    assert "getting ready" in run.text
    run.live.round_started(0, 0)
    first = run.text
    for number in range(len(run.cells)):
        run.launch(number)
        assert run.text == first, "it is renewed when a block ends, not before"
    run.begin(len(run.cells))
    assert f"<b>{len(run.cells)} of {run.total}</b> launches done, round 2 of 3" in run.text
    assert "<strong>Preliminary:</strong>" in run.text
    assert "change until the study ends; 1 of 3 rounds: verdicts are given at 3.</p>" in run.text
    assert 'class="first columns-' in run.text, "the table of the first screen is missing"
    assert run.text.count("<!doctype html>") == 1
    assert STOPS not in run.text


def test_after_a_page_that_took_long_nothing_is_drawn_for_so_many_times_as_long(run: Following) -> None:
    drawn: list[int] = []
    html_parts = watcher.html_parts

    def slowly(*arguments: Any) -> Iterator[str]:
        run.clock.now_s += 2.0
        drawn.append(run.store.count)
        return html_parts(*arguments)

    blocks = [number * len(run.cells) for number in (1, 2, 3)]
    with patch.object(watcher, "html_parts", slowly):
        for number in range(blocks[0] + 1):
            run.launch(number)
        run.clock.now_s += 2.0 / SHARE - 1.0
        for number in range(blocks[0] + 1, blocks[1] + 1):
            run.launch(number)
        run.clock.now_s += 1.0
        for number in range(blocks[1] + 1, blocks[2]):
            run.launch(number)
        run.live.round_started(3, 0)
    assert drawn == [blocks[0], blocks[2]]


def test_a_failed_launch_is_in_the_page_without_its_markup(run: Following) -> None:
    run.launch(0, Failed(reason="it crashed <b>badly</b>\x1b[2J", status=1, stderr_tail=""))
    for number in range(1, len(run.cells) + 1):
        run.launch(number)
    assert "it crashed &lt;b&gt;badly&lt;/b&gt;" in run.text
    assert "\x1b" not in run.text


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), OSError(28, "No space left on device")])
def test_a_page_that_cannot_be_made_does_not_end_the_run(run: Following, error: Exception) -> None:
    before = run.text
    with patch.object(watcher, "write_whole" if isinstance(error, OSError) else "html_parts", side_effect=error):
        for number in range(len(run.cells) + 1):
            run.launch(number)
    assert run.text == before


def test_the_page_of_a_run_that_was_ended_says_so_and_is_not_loaded_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), following(tmp_path) as run:  # noqa: PT012
        run.launch(0)
        raise KeyboardInterrupt
    assert "ended early" in run.text
    assert STOPS in run.text
    with following(tmp_path) as resumed:
        assert STOPS not in resumed.text


def test_a_run_that_resumes_has_its_figures_from_the_beginning(tmp_path: Path) -> None:
    with following(tmp_path) as run:
        for number in range(len(run.cells)):
            run.launch(number)
    with following(tmp_path) as run:
        assert 'class="first columns-' in run.text


def test_a_whole_run_renews_its_page_between_its_launches_only(tmp_path: Path) -> None:
    plan = session.make_plan(known_study(rounds=4, kernels=1))
    files = make_files(plan)
    events: list[str] = []
    launched, written = runner.run_launch, watcher.write_whole

    def launch(*arguments: Any, **options: Any) -> Any:
        events.append("begin")
        try:
            return launched(*arguments, **options)
        finally:
            events.append("end")

    def write(*arguments: Any) -> None:
        events.append("write")
        written(*arguments)

    with (
        Store.create_or_open(tmp_path / "r", plan, session.facts(plan, files)) as store,
        patch.object(watcher, "write_whole", write),
        patch.object(runner, "run_launch", launch),
        Live(plan, store, tmp_path / "page", lambda: session.summary_of(store), Clock()) as live,
    ):
        session.execute(plan, store, files, live)
    assert events.count("begin") >= 12
    assert all(events[place + 1] == "end" for place, event in enumerate(events) if event == "begin")
    assert events.count("write") == 1 + 4 - 1, "at the beginning, and after each block but the last"
