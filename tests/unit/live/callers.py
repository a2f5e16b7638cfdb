"""Clients of a live page, for tests."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from tare.live import Door

HOST = "127.0.0.1"


def request(path: str, host: str = HOST, method: str = "GET") -> bytes:
    """Return a request as a browser sends it."""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n".encode()


def called(door: Door, data: bytes = b"") -> socket.socket:
    """Connect, send bytes, and return the connection."""
    connection = socket.create_connection(door.listener.getsockname())
    try:
        connection.sendall(data)
    except OSError:
        connection.close()
        raise
    return connection


def asked(door: Door, path: str = "/", **fields: str) -> socket.socket:
    """Ask with the token."""
    query = "&".join(f"{name}={value}" for name, value in {"token": door.token, **fields}.items())
    return called(door, request(f"{path}?{query}"))


def told(connection: socket.socket) -> tuple[int, Mapping[str, str], str]:
    """Return status, headers and body of the answer."""
    data = b""
    with connection:
        while part := connection.recv(1 << 16):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(body) == int(headers["Content-Length"])
    return int(first.split()[1]), headers, body.decode()


def has_bytes(connection: socket.socket) -> bool:
    """Tell whether anything has arrived: what is sent over the loopback is there when sending returns."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False
