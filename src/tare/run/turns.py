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
MOST_STRANGERS: Final = 256
"""Connections that have not said their key and rank yet; the oldest is closed for one more."""
BACKLOG: Final = 4096
GO: Final = b"t"


class TurnOutcome(Enum):
    """Which came first: the launch waits for its turn, it has ended, or its time is up."""

    READY = "ready"
    ENDED = "ended"
    TIME_LIMIT = "time limit"


@dataclass(slots=True, kw_only=True)
class TurnClient:
    """A launch at the table. `ended` becomes readable when the launch has ended.

    Its ranks say the `key`, which is secret: it is that of its records, a variable (`tare.mpi.launch.PADDING`). The
    `name` is in the command lines of its processes, where every user of their machine can read it, and tells them from
    others.
    """

    ranks: int
    ended: socket.socket
    key: str = field(default_factory=lambda: secrets.token_hex(KEY_BYTES))
    name: str = field(default_factory=lambda: secrets.token_hex(KEY_BYTES))
    connections: dict[int, socket.socket] = field(default_factory=dict)


class TurnScheduler:
    """Where launches wait for their turns; `listener` is bound to an IPv4 address that their ranks can reach."""

    def __init__(self, listener: socket.socket) -> None:
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._listener = listener
        self._seats: dict[str, TurnClient] = {}
        self._hellos: dict[socket.socket, tuple[bytes, float]] = {}
        """What connections have said of their key and rank, and until when they may complete it."""

    def seat(self, ranks: int, ended: socket.socket) -> TurnClient:
        """Return a new seat for a launch of `ranks` ranks; the table takes ownership of `ended`."""
        seat = TurnClient(ranks=ranks, ended=ended)
        self._seats[seat.key] = seat
        return seat

    def option(self, seat: TurnClient, turns: int) -> str:
        """Return the option that makes `tare-kernels` use a seat."""
        address, port = self._listener.getsockname()
        return f"--turns={turns}@{address}:{port}/{seat.name}"

    def wait(self, seat: TurnClient, limit_s: float) -> TurnOutcome:
        """Wait until all ranks of a launch sleep."""
        until, told = time.monotonic() + limit_s, False
        while True:
            first = None if told else seat.connections.get(0)
            readable = self._readable(seat.ended, first, until)
            if seat.ended in readable:
                return TurnOutcome.ENDED
            for connection in readable & self._hellos.keys():
                self._hear(connection)
            if self._listener in readable:
                self._accept()
            if first is not None and first in readable:
                if not _said(first):
                    return self._gone(seat, until)
                told = True
            if told and len(seat.connections) == seat.ranks:  # the others may still be in the listener's queue
                return TurnOutcome.READY
            if time.monotonic() >= until:
                return TurnOutcome.TIME_LIMIT

    def give(self, seat: TurnClient) -> None:
        """Give a launch its turn."""
        for connection in seat.connections.values():
            with suppress(OSError):  # the rank has exited, so its launch ends
                connection.send(GO)

    def dismiss(self, seat: TurnClient) -> None:
        """Close a launch's connections: its ranks that wait for a turn exit, and no further rank is accepted."""
        self._seats.pop(seat.key, None)
        for each in (seat.ended, *seat.connections.values()):
            each.close()

    def close(self) -> None:
        """Close all connections: ranks that still wait for a turn exit."""
        for seat in list(self._seats.values()):
            self.dismiss(seat)
        for connection in (self._listener, *self._hellos):
            connection.close()

    def _readable(self, ended: socket.socket, first: socket.socket | None, until: float) -> set[socket.socket]:
        """Wait until a launch ends, or its first rank or somebody at the door says something; nobody delays others."""
        now_s = time.monotonic()
        for connection, (_, late_s) in tuple(self._hellos.items()):
            if late_s <= now_s:
                self._turn_away(connection)
        next_s = min([until, *(late_s for _, late_s in self._hellos.values())])
        with selectors.DefaultSelector() as selector:
            for each in (ended, first, self._listener, *self._hellos):
                if each is not None:
                    selector.register(each, selectors.EVENT_READ)
            found = selector.select(max(0.0, next_s - now_s))
        return {key.fileobj for key, _ in found if isinstance(key.fileobj, socket.socket)}

    def _accept(self) -> None:
        """Accept a connection, and hear what it has said already."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # it has already disconnected
            return
        except OSError as error:
            raise InfrastructureError(f"launches cannot take turns: no rank is accepted: {error.strerror}") from error
        if len(self._hellos) >= MOST_STRANGERS:
            self._turn_away(next(iter(self._hellos)))
        connection.setblocking(False)
        self._hellos[connection] = b"", time.monotonic() + HELLO_LIMIT_S
        self._hear(connection)

    def _hear(self, connection: socket.socket) -> None:
        """Read what a connection says of its key and rank; close it if that is not valid."""
        data, late_s = self._hellos[connection]
        try:
            more = connection.recv(HELLO_BYTES - len(data))
            data += more
            self._hellos[connection] = data, late_s
            if more and len(data) < HELLO_BYTES:
                return
            key, rank = data.decode("ascii").split()
            seat, number = self._seats[key], int(rank)
            if not 0 <= number < seat.ranks or number in seat.connections:
                raise ValueError(f"rank {number} is none that is expected")
        except BlockingIOError:
            return
        except (OSError, ValueError, KeyError):
            self._turn_away(connection)
            return
        del self._hellos[connection]
        connection.settimeout(HELLO_LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seat.connections[number] = connection

    def _turn_away(self, connection: socket.socket) -> None:
        del self._hellos[connection]
        connection.close()

    def _gone(self, seat: TurnClient, until: float) -> TurnOutcome:
        """Wait for the end of a launch whose rank 0 has closed its connection."""
        with selectors.DefaultSelector() as selector:
            selector.register(seat.ended, selectors.EVENT_READ)
            ended = selector.select(max(0.0, until - time.monotonic()))
        return TurnOutcome.ENDED if ended else TurnOutcome.TIME_LIMIT


def _said(connection: socket.socket) -> bool:
    """Read a rank's byte; return false if the rank has disconnected."""
    try:
        return bool(connection.recv(1))
    except OSError:
        return False
