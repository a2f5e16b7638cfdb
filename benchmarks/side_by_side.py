"""Run programs of two ranks at the same time, in turns: one is at work, the others sleep (docs/adr/0017-turns.md)."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from tare.run.turns import TurnClient, TurnOutcome, TurnScheduler

LIMIT_S = 120.0
RANKS = 2

Start = Callable[[str, str], str]
"""Runs a program that is told where to take its turns (`N@ADDRESS:PORT/NAME`) and its key, and returns what it said."""


def in_turns(starts: Sequence[Start], listener: socket.socket, turns: int, shuffle: random.Random) -> list[str]:
    """Run programs in so many turns each, in a new random order every time, and return what they said."""
    table = TurnScheduler(listener)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(starts)))
        stack.callback(table.close)
        running: list[tuple[TurnClient, Future[str]]] = []
        for start in starts:
            ours, theirs = stack.enter_context(_pair())
            seat = table.seat(RANKS, ours)
            future = pool.submit(start, table.option(seat, turns).removeprefix("--turns="), seat.key)
            future.add_done_callback(partial(_end, theirs))
            running.append((seat, future))
            _need(table.wait(seat, LIMIT_S), TurnOutcome.READY, future)
        for _ in range(turns):
            for seat, future in shuffle.sample(running, len(running)):
                table.give(seat)
                _need(table.wait(seat, LIMIT_S), TurnOutcome.READY, future)
        for seat, future in running:
            table.give(seat)
            _need(table.wait(seat, LIMIT_S), TurnOutcome.ENDED, future)
        return [future.result() for _, future in running]


def _end(theirs: socket.socket, _: Future[str]) -> None:
    """Tell the table that a program has ended; after a failure the table may be gone."""
    with suppress(OSError):
        theirs.send(b"e")


@contextmanager
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield two connected sockets; the second is closed at the end, the first is the table's."""
    ours, theirs = socket.socketpair()
    with theirs:
        yield ours, theirs


def _need(waited: TurnOutcome, wanted: TurnOutcome, future: Future[str]) -> None:
    if waited is wanted:
        return
    if waited is TurnOutcome.ENDED:
        future.result()  # raises why it could not be run
    raise SystemExit(f"agreement: a program that takes turns is not {wanted.value} but {waited.value}")
