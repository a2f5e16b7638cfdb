"""Answer browsers from the run's own thread, between launches, as a watcher of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from tare.live.budget import Budget
from tare.live.desk import Caller, Desk
from tare.live.door import Door
from tare.live.page import Page
from tare.live.requests import Asked, Refusal, Request, answer, refuse
from tare.model import Cell, Summary, Trial, TrialKey
from tare.model.text import printable
from tare.report.html import prepare
from tare.run.progress import Progress
from tare.run.runner import Watcher
from tare.store.writer import Store

SEND_LIMIT_S: Final = 0.25
DRAW_LIMIT_S: Final = 0.5
"""How long the run waits for a browser to draw a page: it would do so during the next launch."""


RECENT_S: Final = 60.0
LAST_WAIT_S: Final = 3.0
"""At the end, how long to wait for a page that has asked recently, so that it learns of the end."""


class Live:
    """A watcher that passes everything on to the terminal's progress, and shows it in browsers as well.

    Requests that arrive during a launch wait in the kernel. If nobody asks, nothing is computed.
    """

    def __init__(
        self,
        progress: Progress,
        door: Door,
        store: Store,
        summary: Callable[[], Summary],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = progress
        self._clock = clock
        self.budget = Budget(clock)
        self._desk = Desk(door)
        self._page = Page(store, summary, door.token, self.budget)
        self._page.stale = store.count > 0  # it resumes
        self._asked_s: float | None = None
        self._block: tuple[int, int, int] | None = None

    def __enter__(self) -> Self:
        """Load what the report needs before the first launch, and not between two."""
        prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell those who wait how the run ended, and close the address."""
        interrupted = "the run was ended early; the same command resumes it"
        self._page.ended = interrupted if kind else "all launches are done; the report is written now"
        try:
            if self._asked_s is not None and self._clock() - self._asked_s < RECENT_S:
                self._wait_for_last()
            self._serve()
        finally:
            self._desk.close()

    def round_started(self, number: int, attempt: int) -> None:
        """Answer while the pods of a round are not being made yet."""
        self._progress.round_started(number, attempt)
        self._page.discards.round_started(number, attempt)
        self._block_ended(None)
        self._serve(f"round {number + 1}: the pods are made")

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        """Pass it on."""
        self._progress.calibrated(cell, elapsed_s)

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        """Pass it on."""
        self._progress.launch_started(key, done, total)

    def launching(self, keys: Sequence[TrialKey]) -> None:
        """Answer before a launch."""
        self._progress.launching(keys)
        self._block_ended((keys[0].round, keys[0].block, keys[0].attempt))
        self._serve(_text(keys))

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        """Note what was discarded."""
        self._progress.trial_ended(trial, done, total)
        self._page.discards.trial_ended(trial)

    def _wait_for_last(self) -> None:
        """Wait for a page's next request: it asks a second after its last answer."""
        until_s = time.monotonic() + LAST_WAIT_S
        while (left_s := until_s - time.monotonic()) > 0.0 and not self._desk.receive(left_s):
            pass  # a browser may connect before it asks

    def _block_ended(self, following: tuple[int, int, int] | None) -> None:
        """Note that there are new figures if a block has ended: they are of whole blocks."""
        self._page.stale |= self._block not in {None, following}
        self._block = following

    def _serve(self, now: str = "") -> None:
        """Answer the requests that wait, within the budget."""
        if not self._page.ended and not self.budget.allows_answers():
            return
        with self.budget.of_answers():
            waiting = self._desk.has_callers()
        if not waiting:
            return
        with self.budget.of_answers():
            callers = self._desk.receive()
        if any(isinstance(each.request, Request) for each in callers):
            self._asked_s = self._clock()
        self._page.position, self._page.now = self._progress.position, now
        if not self._page.ended and any(isinstance(each.request, Request) for each in callers):
            self._page.renew()
        with self.budget.of_answers():
            drawing = sum(map(self._draws, callers))
            self._send(callers)
            if drawing and not self._page.ended:
                self._wait_for_drawing(drawing)

    def _wait_for_drawing(self, drawing: int) -> None:
        """Let browsers draw the page: the first request for progress says that one has; the next launch can begin."""
        until_s = time.monotonic() + min(DRAW_LIMIT_S, self.budget.waiting_left_s)
        while (left_s := until_s - time.monotonic()) > 0.0:
            whole = self._desk.receive(left_s)
            drawn = [each for each in whole if _asks(each, Asked.PROGRESS)]
            others = [each for each in whole if each not in drawn]
            self._send(others)
            if len(drawn) >= drawing and not others:
                return  # they are answered after the next launch

    def _draws(self, caller: Caller) -> bool:
        """Tell whether a browser will draw the page when it has its answer."""
        request = caller.request
        if not isinstance(request, Request):
            return False
        return request.script and (request.asked is Asked.PAGE or request.report != self._page.number)

    def _send(self, callers: Sequence[Caller]) -> None:
        if callers:
            self._desk.send([(each, self._reply(each.request)) for each in callers], SEND_LIMIT_S)

    def _reply(self, request: Request | Refusal | None) -> bytes:
        if isinstance(request, Request) and request.asked is Asked.PAGE:
            return answer(self._page.html(), "text/html")
        if isinstance(request, Request):
            return answer(self._page.progress(), "application/json")
        return refuse(request) if request is not None else b""


def _asks(caller: Caller, asked: Asked) -> bool:
    return isinstance(caller.request, Request) and caller.request.asked is asked


def _text(keys: Sequence[TrialKey]) -> str:
    """Return which launches run, as a sentence."""
    first = keys[0]
    again = ", again" if first.repeat else ""
    if len(keys) == 1:
        return f"{printable(first.cell)}{again}"
    return f"{len(keys)} launches in turns: {', '.join(printable(key.cell) for key in keys)}"


@contextmanager
def watched(progress: Progress, door: Door | None, store: Store, summary: Callable[[], Summary]) -> Iterator[Watcher]:
    """Provide the watcher of a run: with a door the live page, otherwise the terminal's progress alone."""
    if door is None:
        yield progress
        return
    with Live(progress, door, store, summary) as live:
        yield live
