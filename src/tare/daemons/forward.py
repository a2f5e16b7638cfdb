"""Reach a server inside a network namespace from this machine: a port of 127.0.0.1 whose connections end there."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tare.system.namespaces import inside_network

LOOPBACK: Final = "127.0.0.1"
PIECE: Final = 1 << 16
CONNECT_S: Final = 10.0
MOST_AT_ONCE: Final = 256
"""Connections that are carried at a time: any user of this machine may open some."""


@contextmanager
def forwarded(pid: int, address: str, port: int) -> Iterator[int]:
    """Keep a port of 127.0.0.1 that leads to an address in a process's network namespace; yield its number."""
    listener, free = socket.create_server((LOOPBACK, 0)), threading.Semaphore(MOST_AT_ONCE)

    def carry(near: socket.socket) -> None:
        try:
            _carry(near, pid, address, port)
        finally:
            free.release()

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            if free.acquire(blocking=False):
                threading.Thread(target=carry, args=(near,), name="forwarding", daemon=True).start()
            else:
                near.close()

    threading.Thread(target=accept, name="forward", daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _carry(near: socket.socket, pid: int, address: str, port: int) -> None:
    """Carry bytes both ways until either side closes."""
    with near, contextlib.suppress(OSError):
        with inside_network(pid):  # a socket stays in the namespace in which it was created
            far = socket.socket()
        far.settimeout(CONNECT_S)
        with far:
            far.connect((address, port))
            for each in (near, far):
                each.settimeout(None)
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with selectors.DefaultSelector() as selector:
                selector.register(near, selectors.EVENT_READ, far)
                selector.register(far, selectors.EVENT_READ, near)
                while True:
                    for key, _ in selector.select():
                        source, target = key.fileobj, key.data
                        data = source.recv(PIECE)  # type: ignore[union-attr]
                        if not data:
                            return
                        target.sendall(data)
