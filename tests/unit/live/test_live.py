"""A run on fakes, followed as a browser does: progress, first figures, what was discarded; answers between launches."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tare.cli import session
from tare.deploy.study_files import make_files
from tare.live import Door, Live, watcher
from tare.live import page as page_module
from tare.live.desk import Caller, Desk
from tare.live.page import Page
from tare.model import Failed, Plan, TrialKey
from tare.plan.cells import available
from tare.run import runner
from tare.run.progress import Progress
from tare.store.writer import Store
from unit.clock import Clock
from unit.live.callers import asked, called, has_bytes, request, told
from unit.runs import known_study
from unit.stored import trial

LONG_S = 3600.0


class Following:
    """A live page of a study on fakes, whose events a test plays."""

    def __init__(self, live: Live, door: Door, plan: Plan, store: Store, clock: Clock) -> None:
        self.live, self.door, self.plan, self.store, self.clock = live, door, plan, store, clock
        self.cells = [cell.key for cell in available(plan)]
        self.total = len(self.cells) * plan.study.repetition.rounds

    def launch(self, number: int, outcome: Any = None, **noise: float) -> None:
        """Play a launch, from its start to its end."""
        self.begin(number)
        self.end(number, outcome, **noise)

    def begin(self, number: int) -> None:
        self.live.launch_started(self.key(number), number, self.total)
        self.live.launching((self.key(number),))

    def end(self, number: int, outcome: Any = None, repeat: int = 0, **noise: float) -> None:
        ended = replace(trial(replace(self.key(number), repeat=repeat), outcome), noise=noise)
        self.live.trial_ended(self.store.append(ended), number + 1, self.total)

    def key(self, number: int) -> TrialKey:
        round_, place = divmod(number, len(self.cells))
        return TrialKey(cell=self.cells[place], round=round_, block=0, attempt=0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a machine be as slow as it likes; a test that waits for the browser to draw says so."""
    monkeypatch.setattr(watcher, "SEND_LIMIT_S", LONG_S)
    monkeypatch.setattr(watcher, "DRAW_LIMIT_S", 0.0)


@contextmanager
def following(folder: Path) -> Iterator[Following]:
    plan = session.make_plan(known_study(rounds=3, kernels=1))
    clock = Clock()
    with (
        Store.create_or_open(folder, plan, {}) as store,
        Progress(plan) as progress,
        Door.open() as door,
        Live(progress, door, store, lambda: session.summary_of(store), clock) as live,
    ):
        live.budget._cpu = Clock()
        yield Following(live, door, plan, store, clock)
        clock.now_s += watcher.RECENT_S  # nobody has asked recently: the end waits for nobody


@contextmanager
def waited_for(question: Callable[[], None]) -> Iterator[None]:
    """Ask when the run waits for a browser, and let it wait as long as that takes."""

    def receive(desk: Desk, wait_s: float = 0.0) -> list[Caller]:
        if wait_s:
            question()
        return received(desk, wait_s and LONG_S)

    received = Desk.receive
    with patch.object(Desk, "receive", receive), patch.object(watcher, "LAST_WAIT_S", LONG_S):
        yield


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Following]:
    with following(tmp_path / "results") as played:
        yield played


def state_of(run: Following, number: int) -> Any:
    """Return what the page's script is told before a launch."""
    connection = asked(run.door, "/progress", report="0")
    run.begin(number)
    status, headers, body = told(connection)
    assert status == 200
    assert headers["Content-Type"].startswith("application/json")
    return json.loads(body)


def test_nothing_is_sent_during_a_launch(run: Following) -> None:
    run.begin(0)
    with asked(run.door) as page, asked(run.door, "/progress") as progress, called(run.door, request("/")) as stranger:
        assert not any(map(has_bytes, (page, progress, stranger)))
        run.end(0)
        assert not any(map(has_bytes, (page, progress, stranger)))
        run.begin(1)
        assert told(page)[0] == 200
        assert told(progress)[0] == 200
        assert told(stranger)[0] == 403


def test_the_page_has_progress_and_the_current_cell_before_there_are_figures(run: Following) -> None:
    run.live.round_started(0, 0)
    run.launch(0)
    connection = asked(run.door)
    run.begin(1)
    status, headers, body = told(connection)
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert f"<b>1 of {run.total}</b> launches done, round 1 of 3" in body
    assert run.cells[1] in body
    assert "No figures yet" in body
    assert run.door.token in body.partition("<noscript>")[2].partition("</noscript>")[0]


def test_figures_come_after_a_whole_round_and_say_that_they_are_preliminary(run: Following) -> None:
    for number in range(len(run.cells)):
        run.launch(number)
    run.clock.now_s += 1000.0
    state = state_of(run, len(run.cells))
    assert state["report"] == "1"
    assert f"{len(run.cells)} launches in 1 of 3 rounds; there are no verdicts before 3 rounds" in state["html"]
    assert state["title"] == f"{len(run.cells)}/{run.total} known"
    run.end(len(run.cells))
    connection = asked(run.door)
    run.begin(len(run.cells) + 1)
    body = told(connection)[2]
    assert "<strong>Preliminary:</strong>" in body
    assert 'class="first columns-' in body, "the table of the first screen is missing"
    assert body.count("<!doctype html>") == 1
    assert "1 of 3 rounds are done" in body


def test_nothing_is_rendered_if_nobody_asks_or_nothing_is_new_or_the_budget_is_used_up(run: Following) -> None:
    with patch.object(page_module, "render_html", wraps=page_module.render_html) as rendered:
        run.clock.now_s += 1000.0
        for number in range(len(run.cells) + 1):
            run.launch(number)
        with called(run.door, request("/?token=wrong")):
            run.launch(len(run.cells) + 1)
        assert rendered.call_count == 0
        for _ in range(2):
            state_of(run, len(run.cells) + 2)
        assert rendered.call_count == 1, "nothing was new the second time"
        run.live.budget.rendering.used_s = 1000.0
        state_of(run, 2 * len(run.cells))
        assert rendered.call_count == 1


def test_what_was_discarded_is_listed_with_its_reason(run: Following) -> None:
    run.live.round_started(0, 1)
    run.launch(0, Failed(reason="it crashed <b>badly</b>\x1b[2J", status=1, stderr_tail=""))
    busy = {"job_s": 1.0, "background_s": 0.9, "cores": 2.0}
    run.launch(1, None, **busy)
    run.end(1, None, repeat=1)
    html = state_of(run, 2)["html"]
    assert "<b>Discarded</b> since this run began: 3" in html
    assert "failed: it crashed &lt;b&gt;badly&lt;/b&gt;" in html
    assert "\x1b" not in html
    assert "repeated: background load during the launch" in html
    assert "a block that was interrupted is run again" in html


def test_a_summary_that_cannot_be_computed_does_not_end_the_run(run: Following) -> None:
    with patch.object(Page, "_render", side_effect=ZeroDivisionError("by zero")):
        for number in range(len(run.cells)):
            run.launch(number)
        run.clock.now_s += 1000.0
        state = state_of(run, len(run.cells))
    assert "The figures cannot be shown: ZeroDivisionError: by zero" in state["html"]


def test_those_who_wait_are_told_how_the_run_ended(tmp_path: Path) -> None:
    with following(tmp_path / "done") as run:
        run.launch(0)
        whole = asked(run.door, "/progress")
    assert json.loads(told(whole)[2])["ended"] is True
    with pytest.raises(KeyboardInterrupt), following(tmp_path / "broken") as run:  # noqa: PT012
        run.launch(0)
        broken = asked(run.door, "/progress")
        raise KeyboardInterrupt
    assert "ended early" in json.loads(told(broken)[2])["html"]
    with pytest.raises(OSError, match=r"refused|Bad file|Invalid"):
        called(run.door)


def test_a_launch_begins_when_the_browser_has_drawn_the_page(run: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "DRAW_LIMIT_S", LONG_S)
    run.live.budget.waiting.credit_s = LONG_S
    drawn: list[socket.socket] = []
    run.launch(0)
    with waited_for(lambda: drawn.append(asked(run.door, "/progress", report="0"))):
        page = asked(run.door)
        run.begin(1)
    (progress,) = drawn
    assert told(page)[0] == 200
    assert not has_bytes(progress), "it is answered after the launch"
    run.end(1)
    run.begin(2)
    assert told(progress)[0] == 200


def test_a_whole_run_answers_between_its_launches_only_and_tells_its_end(tmp_path: Path) -> None:
    plan = session.make_plan(known_study(rounds=4, kernels=1))
    files = make_files(plan)
    clock = Clock()
    events: list[str] = []
    questions: list[socket.socket] = []

    def ask() -> None:
        questions.append(asked(door, "/progress", report="0", script="no"))

    def launch(*arguments: Any, **options: Any) -> Any:
        events.append("begin")
        ask()
        try:
            return launched(*arguments, **options)
        finally:
            clock.now_s += 50.0
            events.append("end")

    def send(*arguments: Any) -> None:
        events.append("send")
        sent(*arguments)

    launched, sent = runner.run_launch, Desk.send
    with Store.create_or_open(tmp_path / "r", plan, session.facts(plan, files)) as store, Door.open() as door:
        with (
            waited_for(ask),
            patch.object(Desk, "send", send),
            patch.object(runner, "run_launch", launch),
            Progress(plan) as progress,
            Live(progress, door, store, lambda: session.summary_of(store), clock) as live,
        ):
            live.budget._cpu = Clock()
            session.execute(plan, store, files, live)
        states = [json.loads(told(question)[2]) for question in questions]
    launches = events.count("begin")
    assert launches >= 12
    assert all(events[place + 1] == "end" for place, event in enumerate(events) if event == "begin")
    assert len(states) == launches + 1, "the last one asks when the run is over"
    assert [state["ended"] for state in states] == [False] * (launches - 1) + [True] * 2
    assert len({state["title"] for state in states}) == launches
