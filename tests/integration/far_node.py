"""A node's service in a process of its own, behind a pipe, as that of another machine would be."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from tare.errors import TareError
from tare.node import Node
from tare.node_service import NodeService

LENGTH = struct.Struct("!Q")


class FarNode:
    """Forwards every call to a service in a forked process: only what can be pickled gets through."""

    def __init__(self, service: NodeService) -> None:
        self.node: Node = service.node
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._here, there = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._here.close()
                _serve(service, there)
            finally:
                os._exit(0)
        there.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with self._lock:
                self.calls.append(name)
                _send(self._here, (name, arguments))
                answer, error = _receive(self._here)
            if error is not None:
                raise error
            return answer

        return call

    def close(self) -> None:
        """End the process. Other nodes' processes have inherited our end, so closing it here would not be enough."""
        self._here.shutdown(socket.SHUT_RDWR)
        self._here.close()
        os.waitpid(self.pid, 0)


def _serve(service: NodeService, pipe: socket.socket) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    while True:
        try:
            name, arguments = _receive(pipe)
        except EOFError:
            return
        try:
            _send(pipe, (getattr(service, name)(*arguments), None))
        except TareError as error:
            _send(pipe, (None, error))


def _send(pipe: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    pipe.sendall(LENGTH.pack(len(data)) + data)


def _receive(pipe: socket.socket) -> Any:
    (length,) = LENGTH.unpack(_exactly(pipe, LENGTH.size))
    return pickle.loads(_exactly(pipe, length))  # both ends are this test


def _exactly(pipe: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = pipe.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
