"""Exchange bytes with browsers within time limits: nothing here waits longer than its caller allows."""

from __future__ import annotations

import fcntl
import selectors
import socket
import struct
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tare.live.door import BACKLOG, Door
from tare.live.requests import MOST_BYTES, Refusal, Request, is_whole, parse

MOST_CALLERS: Final = 16
"""Beyond them one without a whole request is closed first, then one without the token."""
PATIENCE: Final = 3
"""How many times a connection without a whole request is looked at before it is closed; browsers open some early."""
DRAIN_STEP_S: Final = 0.001
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: discard what was not sent, and tell the peer so."""


@dataclass(slots=True, kw_only=True, eq=False)
class Caller:
    """A connection, what it has sent, and its request once that is whole."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    looked_at: int = 0
    request: Request | Refusal | None = None

    def close(self, *, reset: bool = False) -> None:
        """Close the connection; with `reset` nothing is sent from now on."""
        with suppress(OSError):
            if reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.connection.close()


class Desk:
    """The connections of a door. Between its calls nothing is read and nothing is sent."""

    def __init__(self, door: Door, clock: Callable[[], float] = time.monotonic) -> None:
        self._door = door
        self._clock = clock
        self._callers: list[Caller] = []

    def receive(self, wait_s: float = 0.0) -> list[Caller]:
        """Return the callers whose requests are whole; if there is nothing to read, wait for it so long."""
        if wait_s > 0.0:
            with selectors.DefaultSelector() as selector:
                for source in (self._door.listener, *(each.connection for each in self._callers if not each.request)):
                    selector.register(source, selectors.EVENT_READ)
                selector.select(wait_s)
        self._accept()
        for caller in self._silent():
            caller.looked_at += 1
            if caller.looked_at >= PATIENCE:
                self._end(caller)
        return [each for each in self._callers if each.request is not None]

    def has_callers(self) -> bool:
        """Accept connections, and tell whether there are any; costs some microseconds if there are none."""
        self._accept()
        return bool(self._callers)

    def send(self, answers: Sequence[tuple[Caller, bytes]], limit_s: float) -> None:
        """Send answers and close their connections. One that does not take its answer in time is reset."""
        until = self._clock() + limit_s
        left = {caller: memoryview(data) for caller, data in answers}
        with selectors.DefaultSelector() as selector:
            for caller in left:
                selector.register(caller.connection, selectors.EVENT_WRITE, caller)
            while left and (wait_s := until - self._clock()) > 0.0:
                for key, _ in selector.select(wait_s):
                    caller = key.data
                    left[caller] = _sent(caller.connection, left[caller])
                    if not left[caller]:
                        selector.unregister(caller.connection)
                        del left[caller]
        for caller, _ in answers:
            self._callers.remove(caller)
            caller.close(reset=caller in left or not self._drained(caller.connection, until))

    def close(self) -> None:
        """Close all connections and the door."""
        for caller in self._callers:
            caller.close()
        self._callers.clear()
        self._door.close()

    def _silent(self) -> list[Caller]:
        """Return the callers without a whole request."""
        return [each for each in self._callers if each.request is None]

    def _end(self, caller: Caller, *, reset: bool = False) -> None:
        self._callers.remove(caller)
        caller.close(reset=reset)

    def _accept(self) -> None:
        """Accept and read connections. Callers with a request are not displaced by callers without one."""
        for caller in self._silent():
            self._read(caller)
        for _ in range(BACKLOG):
            try:
                connection, _ = self._door.listener.accept()
            except OSError:  # BlockingIOError: nobody waits; else: the caller has gone, or there are no descriptors
                break
            connection.setblocking(False)
            self._callers.append(Caller(connection=connection))
            self._read(self._callers[-1])
            if len(self._callers) > MOST_CALLERS:
                self._end(min(self._callers, key=_standing), reset=True)

    def _read(self, caller: Caller) -> None:
        """Read what a caller has sent; close the connection if it has left."""
        gone = False
        while not gone and not is_whole(caller.received):
            try:
                data = caller.connection.recv(MOST_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            caller.received += data
            gone = not data
        if is_whole(caller.received):
            caller.request = parse(bytes(caller.received), self._door.token)
        elif gone:
            self._end(caller)

    def _drained(self, connection: socket.socket, until: float) -> bool:
        """Wait until the other side has taken all bytes."""
        while True:
            try:
                (queued,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))
            except OSError:
                return False
            if queued == 0:
                return True
            if self._clock() >= until:
                return False
            time.sleep(DRAIN_STEP_S)


def _standing(caller: Caller) -> int:
    """Return what tells who is closed first, of several the oldest: who has not asked, then who has no token."""
    return 0 if caller.request is None else 1 if isinstance(caller.request, Refusal) else 2


def _sent(connection: socket.socket, data: memoryview) -> memoryview:
    """Send a part and return the rest; nothing is left if the other side has gone."""
    try:
        return data[connection.send(data) :]
    except BlockingIOError:
        return data
    except OSError:
        return data[:0]
