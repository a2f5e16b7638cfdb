"""Strangers at the table of turns delay nobody, and are few at a time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from at_table import LIMIT_S, opened
from tare.run import turns
from tare.run.turns import TurnClient, TurnOutcome, TurnScheduler


@contextmanager
def seated(table: TurnScheduler, ranks: int = 1) -> Iterator[TurnClient]:
    ours, theirs = socket.socketpair()
    with theirs:
        seat = table.seat(ranks, ours)
        yield seat
        table.dismiss(seat)


def caller(table: TurnScheduler, said: bytes = b"") -> socket.socket:
    made = socket.create_connection(table._listener.getsockname())
    made.sendall(said)
    return made


def hello(seat: TurnClient, rank: int = 0) -> bytes:
    return f"{seat.key} {rank:8d}\n".encode()


@pytest.mark.parametrize(
    "said",
    [b"", b"x", b"x" * 26, b"0" * 25, b"\xff" * 26, b"0123456789abcdef        0\n", b"0123456789abcdef       -1\n"],
)
def test_strangers_delay_no_rank(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HELLO_LIMIT_S", 3600.0)  # none is turned away for being late
    with opened() as table, seated(table) as seat:
        strangers = [caller(table, said) for _ in range(40)]
        rank = caller(table, hello(seat) + b"d")
        assert table.wait(seat, LIMIT_S) is TurnOutcome.READY
        table.give(seat)
        assert rank.recv(1) == b"t"
        for each in (*strangers, rank):
            each.close()


def test_a_greeting_may_come_in_parts_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HELLO_LIMIT_S", 3600.0)
    with opened() as table, seated(table, ranks=2) as seat:
        waited: list[TurnOutcome] = []
        waiter = threading.Thread(target=lambda: waited.append(table.wait(seat, LIMIT_S)))
        first, second = caller(table, hello(seat)[:7]), caller(table, hello(seat, 1)[:20])
        waiter.start()
        second.sendall(hello(seat, 1)[20:])
        first.sendall(hello(seat)[7:] + b"d")
        waiter.join()
        assert waited == [TurnOutcome.READY]
        for each in (first, second):
            each.close()


def test_no_more_strangers_are_kept_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_STRANGERS", 3)
    monkeypatch.setattr(turns, "HELLO_LIMIT_S", 3600.0)
    with opened() as table, seated(table) as seat:
        strangers = [caller(table) for _ in range(9)]
        rank = caller(table, hello(seat) + b"d")
        assert table.wait(seat, LIMIT_S) is TurnOutcome.READY
        assert len(table._hellos) <= 3
        assert strangers[0].recv(1) == b""
        for each in (*strangers, rank):
            each.close()


def test_one_that_says_nothing_is_turned_away_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HELLO_LIMIT_S", 0.05)
    with opened() as table, seated(table) as seat:
        stranger = caller(table)
        waiter = threading.Thread(target=table.wait, args=(seat, LIMIT_S))
        waiter.start()
        assert stranger.recv(1) == b""  # the table has closed it
        rank = caller(table, hello(seat) + b"d")
        waiter.join()
        taken = caller(table, hello(seat))  # the place is taken
        late = threading.Thread(target=table.wait, args=(seat, 0.2))
        late.start()
        assert taken.recv(1) == b""
        late.join()
        for each in (stranger, rank, taken):
            each.close()
