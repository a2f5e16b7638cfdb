"""A table for launches that take turns, and a seat at it, as `tare.run.in_turns` has them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from tare.run.turns import TurnOutcome, TurnScheduler

R = TypeVar("R")
LIMIT_S = 3600.0
"""The only bound is pytest's."""


@contextmanager
def opened() -> Iterator[TurnScheduler]:
    """Yield a table on loopback."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    table = TurnScheduler(listener)
    try:
        yield table
    finally:
        table.close()


class Seated(Generic[R]):
    """A launch of so many ranks at a table, in a thread of its own; `launch` gets its seat's option and key."""

    def __init__(self, table: TurnScheduler, launch: Callable[[str, str], R], ranks: int, turns: int) -> None:
        ours, theirs = socket.socketpair()
        self.table = table
        self.seat = table.seat(ranks, ours)

        def run() -> R:
            with theirs:
                try:
                    return launch(table.option(self.seat, turns), self.seat.key)
                finally:
                    with suppress(OSError):  # the table may have gone
                        theirs.send(b"e")

        self.run = ThreadPoolExecutor(1).submit(run)

    def wait(self) -> TurnOutcome:
        return self.table.wait(self.seat, LIMIT_S)

    def turn(self) -> TurnOutcome:
        self.table.give(self.seat)
        return self.wait()

    def take(self, turns: int) -> R:
        """Take all turns, one after the other, and return what the launch left."""
        assert self.wait() is TurnOutcome.READY
        assert [self.turn() for _ in range(turns)] == [TurnOutcome.READY] * turns
        assert self.turn() is TurnOutcome.ENDED
        return self.run.result()
