"""Let launches on the same cores wait and take turns (docs/adr/0017-turns.md).

Every rank connects to a socket on the head, sends its launch's key and its rank, and sleeps in `recv` until it reads a
byte: its turn. Rank 0 writes a byte when the launch is ready, and another when its turn is over
(kernels/common/turns.h).
"""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tare.errors import InfrastructureError

KEY_BYTES: Final = 8
HELLO_BYTES: Final = 26
"""16 hexadecimal digits, a blank, the rank in 8 columns, a newline."""
HELLO_LIMIT_S: Final = 1.0
BACKLOG: Final = 4096
GO: Final = b"t"


class Waited(Enum):
    """Which came first: the launch waits for its turn, it has ended, or its time is up."""

    READY = "ready"
    ENDED = "ended"
    TIME_LIMIT = "time limit"


@dataclass(slots=True, kw_only=True)
class Seat:
    """A launch at the table. `ended` becomes readable when the launch has ended."""

    ranks: int
    ended: socket.socket
    key: str = field(default_factory=lambda: secrets.token_hex(KEY_BYTES))
    connections: dict[int, socket.socket] = field(default_factory=dict)


class Table:
    """Where launches wait for their turns; `listener` is bound to an IPv4 address that their ranks can reach."""

    def __init__(self, listener: socket.socket) -> None:
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._listener = listener
        self._seats: dict[str, Seat] = {}

    def seat(self, ranks: int, ended: socket.socket) -> Seat:
        """Return a new seat for a launch of `ranks` ranks; the table takes ownership of `ended`."""
        seat = Seat(ranks=ranks, ended=ended)
        self._seats[seat.key] = seat
        return seat

    def option(self, seat: Seat, turns: int) -> str:
        """Return the option that makes `tare-kernels` use a seat."""
        address, port = self._listener.getsockname()
        return f"--turns={turns}@{address}:{port}/{seat.key}"

    def wait(self, seat: Seat, limit_s: float) -> Waited:
        """Wait until all ranks of a launch sleep."""
        until, told = time.monotonic() + limit_s, False
        while True:
            first = None if told else seat.connections.get(0)
            with selectors.DefaultSelector() as selector:
                for each in (seat.ended, self._listener, first):
                    if each is not None:
                        selector.register(each, selectors.EVENT_READ)
                readable = {key.fileobj for key, _ in selector.select(max(0.0, until - time.monotonic()))}
            if seat.ended in readable:
                return Waited.ENDED
            if self._listener in readable:
                self._accept()
            if first is not None and first in readable:
                if not _said(first):
                    return self._gone(seat, until)
                told = True
            if told and len(seat.connections) == seat.ranks:  # the others may still be in the listener's queue
                return Waited.READY
            if time.monotonic() >= until:
                return Waited.TIME_LIMIT

    def give(self, seat: Seat) -> None:
        """Give a launch its turn."""
        for connection in seat.connections.values():
            with suppress(OSError):  # the rank has exited, so its launch ends
                connection.send(GO)

    def dismiss(self, seat: Seat) -> None:
        """Close a launch's connections: its ranks that wait for a turn exit, and no further rank is accepted."""
        self._seats.pop(seat.key, None)
        for each in (seat.ended, *seat.connections.values()):
            each.close()

    def close(self) -> None:
        """Close all connections: ranks that still wait for a turn exit."""
        for seat in list(self._seats.values()):
            self.dismiss(seat)
        self._listener.close()

    def _accept(self) -> None:
        """Accept a rank; close the connection if its first message is not valid."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # it has already disconnected
            return
        except OSError as error:
            raise InfrastructureError(f"launches cannot take turns: no rank is accepted: {error.strerror}") from error
        connection.settimeout(HELLO_LIMIT_S)
        try:
            key, rank = _hello(connection)
            seat = self._seats[key]
            if not 0 <= rank < seat.ranks or rank in seat.connections:
                raise ValueError(f"rank {rank} is none that is expected")
        except (OSError, ValueError, KeyError):
            connection.close()
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seat.connections[rank] = connection

    def _gone(self, seat: Seat, until: float) -> Waited:
        """Wait for the end of a launch whose rank 0 has closed its connection."""
        with selectors.DefaultSelector() as selector:
            selector.register(seat.ended, selectors.EVENT_READ)
            ended = selector.select(max(0.0, until - time.monotonic()))
        return Waited.ENDED if ended else Waited.TIME_LIMIT


def _hello(connection: socket.socket) -> tuple[str, int]:
    data = b""
    while len(data) < HELLO_BYTES:
        more = connection.recv(HELLO_BYTES - len(data))
        if not more:
            raise ValueError("it closed the connection")
        data += more
    key, rank = data.decode("ascii").split()
    return key, int(rank)


def _said(connection: socket.socket) -> bool:
    """Read a rank's byte; return false if the rank has disconnected."""
    try:
        return bool(connection.recv(1))
    except OSError:
        return False
