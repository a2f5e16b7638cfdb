"""Ask the kernel for lists by netlink, with the standard library only: a node may have no pyroute2 (rtnetlink(7))."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final

from tare.host.namespaces import inside_network

DUMP: Final = 0x301
"""NLM_F_REQUEST | NLM_F_DUMP"""
GET_LINKS: Final = (18, 16)
"""RTM_GETLINK and the length of its header (struct ifinfomsg)."""
GET_QDISCS: Final = (38, 36 - 16)
"""RTM_GETQDISC and the length of its header (struct tcmsg)."""
ERROR: Final = 2
DONE: Final = 3
HEADER: Final = struct.Struct("=IHHII")
ATTRIBUTE: Final = struct.Struct("=HH")
TYPE_MASK: Final = 0x3FFF
BUFFER_BYTES: Final = 1 << 17
LIMIT_S: Final = 2.0

Message = tuple[bytes, dict[int, bytes]]
"""A message: its header, and its attributes by type."""


class Netlink:
    """A netlink socket in a process's network namespace, which it keeps; process 0 is this one. Raises `OSError`."""

    def __init__(self, pid: int) -> None:
        with inside_network(pid) if pid else nullcontext():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(LIMIT_S)

    def dump(self, what: tuple[int, int]) -> list[Message]:
        """Return all messages of a kind (`GET_LINKS`, `GET_QDISCS`)."""
        length = what[1]
        return [(message[:length], attributes(message[length:])) for message in self.messages(what)]

    def messages(self, what: tuple[int, int]) -> list[bytes]:
        """Return the content of all messages of a kind: header and attributes."""
        kind, length = what
        self._socket.send(HEADER.pack(HEADER.size + length, kind, DUMP, 0, 0) + bytes(length))
        found: list[bytes] = []
        while True:
            data = self._socket.recv(BUFFER_BYTES)
            for kind_of, message in messages(data):
                if kind_of == DONE:
                    return found
                if kind_of == ERROR:
                    number = -struct.unpack_from("=i", message)[0]
                    raise OSError(number, os.strerror(number))
                found.append(message)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each message that was received at once."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind = HEADER.unpack_from(data, at)[:2]
        if length < HEADER.size:
            return
        yield kind, data[at + HEADER.size : at + length]
        at += (length + 3) & ~3


def attributes(data: bytes) -> dict[int, bytes]:
    """Return attributes by type; those of a nested one are read with another call."""
    found: dict[int, bytes] = {}
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < ATTRIBUTE.size:
            break
        found[kind & TYPE_MASK] = data[at + ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found


def text_of(value: bytes | None) -> str:
    """Return the text of an attribute, "" if it is missing."""
    return (value or b"").split(b"\0", 1)[0].decode("ascii", "replace")
