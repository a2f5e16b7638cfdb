"""A node's service in a process of its own, behind a pipe, as that of another machine would be."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tare.agent.protocol import NodeService
from tare.errors import TareError
from tare.system.counters.raw_readings import ParsedReading
from tare.system.node import Node


class FarNode:
    """Forwards every call to a service in a forked process: only what can be pickled gets through."""

    def __init__(self, service: NodeService) -> None:
        self.node: Node = service.node
        self.give_up = None
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._here, there = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=_serve, args=(service, there))
        self._process.start()
        there.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with self._lock:
                self.calls.append(name)
                self._here.send((name, arguments))
                answer, error = self._here.recv()
            if error is not None:
                raise error
            return answer

        return call

    def close(self) -> None:
        """Ask the process to end: other nodes' processes have inherited our end, so closing it would not be enough."""
        self._here.send(None)
        self._process.join()


def _serve(service: NodeService, pipe: Connection) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    while (asked := pipe.recv()) is not None:
        name, arguments = asked
        try:
            answer = getattr(service, name)(*arguments)
            pipe.send((ParsedReading(answer.values()) if name == "counters" else answer, None))
        except TareError as error:
            pipe.send((None, error))
