"""Open the address of the live page: a port of 127.0.0.1 and a random token."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from tare.errors import InfrastructureError

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 256
"""Connections that wait in the kernel during a launch: more than a handful, so that strangers keep no browser out."""
TOKEN_BYTES: Final = 16
CARRIED: Final = "TARE_LIVE"
"""The variable that names descriptor and token to the process that an ordinary user's tare replaces itself with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A listening socket, and the token that a request must carry. `carried` if another process has opened it."""

    listener: socket.socket
    token: str
    carried: bool = False

    @classmethod
    def open(cls) -> Self:
        """Open a free port, or take the one that this process was given before it replaced itself."""
        if text := os.environ.pop(CARRIED, ""):  # popped, so that no rank gets the token
            return cls._taken(text)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind((LOOPBACK, 0))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise InfrastructureError(
                f"the live page has no address: no port of {LOOPBACK} can be opened: {error.strerror}",
                remedy="bring the interface lo up, or leave out --live",
            ) from error
        listener.setblocking(False)
        return cls(listener=listener, token=secrets.token_urlsafe(TOKEN_BYTES))

    @classmethod
    def _taken(cls, text: str) -> Self:
        number, _, token = text.partition(" ")
        try:
            listener = socket.socket(fileno=int(number))
            listener.set_inheritable(False)
            listener.setblocking(False)
        except (OSError, ValueError) as error:
            raise InfrastructureError(
                f"the live page has no address: {CARRIED} names no socket", remedy=f"unset {CARRIED}"
            ) from error
        return cls(listener=listener, token=token, carried=True)

    def carry(self) -> Mapping[str, str]:
        """Return the variables for a process that this one replaces itself with, and let it keep the socket.

        An ordinary user's run continues in a network namespace of its own, whose loopback no browser reaches.
        """
        self.listener.set_inheritable(True)
        return {CARRIED: f"{self.listener.fileno()} {self.token}"}

    @property
    def url(self) -> str:
        """Return the address with the token."""
        return f"http://{LOOPBACK}:{self.listener.getsockname()[1]}/?token={self.token}"

    def close(self) -> None:
        """Close the port, also for copies of the socket in other processes; may be called more than once."""
        if self.listener.fileno() >= 0:
            with suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
