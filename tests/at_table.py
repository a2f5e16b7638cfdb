"""A table for launches that take turns, and a seat at it, as `tare.run.in_turns` has them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tare.run.turns import Table, Waited

LIMIT_S = 60.0


@contextmanager
def opened() -> Iterator[Table]:
    """Yield a table on loopback."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    table = Table(listener)
    try:
        yield table
    finally:
        table.close()


class Seated:
    """A launch of so many ranks at a table; who runs it calls `end` when it has ended.

    `in_turns_s` is how long its turns took together. What it measures takes less, on a busy machine too.
    """

    def __init__(self, table: Table, ranks: int, turns: int) -> None:
        ours, self._theirs = socket.socketpair()
        self.table = table
        self.in_turns_s = 0.0
        self.seat = table.seat(ranks, ours)
        self.option = table.option(self.seat, turns)

    def end(self) -> None:
        with self._theirs:
            self._theirs.send(b"e")

    def wait(self) -> Waited:
        return self.table.wait(self.seat, LIMIT_S)

    def turn(self) -> Waited:
        began = time.monotonic()
        self.table.give(self.seat)
        waited = self.wait()
        self.in_turns_s += time.monotonic() - began
        return waited
