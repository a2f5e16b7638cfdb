"""Ask the kernel for lists by netlink, with the standard library only: a node may have no pyroute2 (rtnetlink(7))."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final

from tare.system.namespaces import inside_network

DUMP: Final = 0x301
"""NLM_F_REQUEST | NLM_F_DUMP"""
GET_LINKS: Final = (18, 16)
"""RTM_GETLINK and the length of its header (struct ifinfomsg)."""
GET_QDISCS: Final = (38, 36 - 16)
"""RTM_GETQDISC and the length of its header (struct tcmsg)."""
NUMBER: Final = 0x74617265
"""The sequence number of each request, which its answer repeats."""
ERROR: Final = 2
DONE: Final = 3
MULTI: Final = 2
"""NLM_F_MULTI"""
HEADER: Final = struct.Struct("=IHHII")
LAST_BYTES: Final = HEADER.size + 4
ATTRIBUTE: Final = struct.Struct("=HH")
TYPE_MASK: Final = 0x3FFF
BUFFER_BYTES: Final = 1 << 17
LIMIT: Final = struct.pack("@ll", 2, 0)
"""Seconds and microseconds for an answer."""

Message = tuple[bytes, dict[int, bytes]]
"""A message: its header, and its attributes by type."""


class Netlink:
    """A netlink socket in a process's network namespace, which it keeps; process 0 is this one. Raises `OSError`."""

    def __init__(self, pid: int) -> None:
        with inside_network(pid) if pid else nullcontext():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        # The kernel limits the time, because Python's own limit takes a system call more for each message.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, LIMIT)

    def dump(self, what: tuple[int, int]) -> list[Message]:
        """Return all messages of a kind (`GET_LINKS`, `GET_QDISCS`)."""
        length = what[1]
        return [(message[:length], attributes(message[length:])) for message in listed(self.answer(what))]

    def answer(self, what: tuple[int, int]) -> bytes:
        """Return the kernel's answer that lists all messages of a kind, for `listed`."""
        kind, length = what
        self._socket.send(HEADER.pack(HEADER.size + length, kind, DUMP, NUMBER, 0) + bytes(length))
        answer = b""
        while not _is_complete(data := self._socket.recv(BUFFER_BYTES)):
            answer += data
        return answer + data

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _is_complete(data: bytes) -> bool:
    """Return whether what was received at once ends an answer; raise the error that it reports.

    The last message has a status of four bytes. The kernel sends it after others, or on its own.
    """
    last = len(data) - LAST_BYTES
    if last >= 0 and HEADER.unpack_from(data, last)[:4] == (LAST_BYTES, DONE, MULTI, NUMBER):
        return True
    if last >= 0 and HEADER.unpack_from(data)[1] == ERROR:
        number = -struct.unpack_from("=i", data, HEADER.size)[0]
        raise OSError(number, os.strerror(number))
    return False


def listed(answer: bytes) -> list[bytes]:
    """Return the content of all messages of an answer: header and attributes."""
    return [message for kind, message in messages(answer) if kind != DONE]


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
