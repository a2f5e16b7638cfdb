"""Run commands in containers of pods over the API's stream: no sshd, and nothing in the image but a shell.

Opening a stream takes a tenth of a second, because the runtime starts a process in the container. A `ExecPool` keeps
one open stream to a container, in which a shell waits for one line: the next command then starts as fast as a line
travels.
"""

from __future__ import annotations

import contextlib
import json
import select
import shlex
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from tare.agent.remote.timing import PROBE_S, PROBES
from tare.clusters.pods.api import Api, Stream
from tare.errors import InfrastructureError

INPUT: Final = 0
OUTPUT: Final = 1
ERRORS: Final = 2
STATUS: Final = 3
WAITING: Final = ("/bin/sh", "-c", 'IFS= read -r tare_line && eval "$(printf %b "$tare_line")"')
"""A shell that waits for a line, and runs the command that is in it."""
KEPT_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * PROBE_S * PROBES),
)
"""A stream to a server that cannot be reached any more ends as soon as one by ssh does."""
NOT_TOLD: Final = 255
"""The status of a command whose stream ended without one."""
PIECE: Final = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """A container of a pod."""

    namespace: str
    pod: str
    name: str

    @property
    def path(self) -> str:
        """Return the path of its stream for commands."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/exec"


class ExecSession:
    """A command that runs in a container. One thread pumps; others may send: TLS does not read and write at once.

    While a thread pumps, no other closes the socket: its number would be given to another stream, and TLS would go on
    reading there.
    """

    def __init__(self, api: Api, container: PodContainer, argv: Sequence[str]) -> None:
        query = [("container", container.name), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in argv]
        self.client: Stream = api.connect(container.path, query)
        for level, option, value in KEPT_ALIVE:
            with contextlib.suppress(OSError):
                self.client.sock.sock.setsockopt(level, option, value)
        self._lock = threading.Lock()
        self._status = b""
        self._pumped = False

    @property
    def is_open(self) -> bool:
        """Return whether the stream is open, as far as is known."""
        return self.client.is_open()

    def send(self, data: bytes) -> None:
        """Write to the command's standard input."""
        with self._lock:
            self.client.write_channel(INPUT, data)

    def end_input(self) -> None:
        """Close the command's standard input; a server that cannot do that alone loses the stream."""
        with self._lock:
            if self.client.subprotocol == "v5.channel.k8s.io":
                self.client.close_channel(INPUT)
            else:
                self.client.sock.shutdown()

    def pump(self, beside: socket.socket | None, take: Callable[[int, bytes], None]) -> int:
        """Carry bytes until the command ends, or the stream is closed; return the exit status.

        What arrives on `beside` goes to standard input, until its end; `take` gets output and errors.
        """
        with self._lock:
            self._pumped = True
        try:
            return self._carry(beside, take)
        finally:
            with self._lock:
                self._pumped = False
                self._close()

    def _carry(self, beside: socket.socket | None, take: Callable[[int, bytes], None]) -> int:
        stream: ssl.SSLSocket = self.client.sock.sock
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        if beside is not None:
            poll.register(beside, select.POLLIN)
        while self.client.is_open() and stream.fileno() >= 0:
            ready = {stream.fileno()} if stream.pending() else {number for number, _ in poll.poll()}
            if beside is not None and beside.fileno() in ready:
                data = beside.recv(PIECE)
                if data:
                    self.send(data)
                else:
                    poll.unregister(beside)
                    beside = None
                    self.end_input()
            if stream.fileno() in ready:
                self._read(take)
        self._read(take)
        return self._ended()

    def close(self) -> None:
        """Close the stream; the command's standard input ends with it."""
        if self._pumped:
            with contextlib.suppress(Exception):  # the thread that pumps sees the end
                socket.socket.shutdown(self.client.sock.sock, socket.SHUT_RDWR)
            return
        with self._lock:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.sock.shutdown()

    def _read(self, take: Callable[[int, bytes], None]) -> None:
        with self._lock:
            self.client.update(timeout=0)
            found = [(channel, self.client.read_channel(channel)) for channel in (OUTPUT, ERRORS)]
            self._status += self.client.read_channel(STATUS)
        for channel, data in found:
            if data:
                take(channel, data)

    def _ended(self) -> int:
        """Return the exit status that the server told."""
        try:
            told = json.loads(self._status)
            if told.get("status") == "Success":
                return 0
            causes = told.get("details", {}).get("causes", ())
            return next(int(each["message"]) for each in causes if each.get("reason") == "ExitCode")
        except (ValueError, AttributeError, KeyError, StopIteration):
            return NOT_TOLD


class ExecPool:
    """Starts commands in a container, each in one of the shells that wait there; `prepare` makes up their number."""

    def __init__(self, api: Api, container: PodContainer) -> None:
        self.container = container
        self._api = api
        self._lock = threading.Lock()
        self._waiting: deque[Future[ExecSession]] = deque()
        self._closed = False

    def prepare(self, count: int = 1) -> None:
        """Have so many shells wait, or more where more do; return at once."""
        with self._lock:
            while len(self._waiting) < count and not self._closed:
                self._waiting.append(begun(lambda: ExecSession(self._api, self.container, WAITING), "opening"))

    def settle(self) -> None:
        """Wait until all that is being opened is open, or has failed."""
        with self._lock:
            opening = tuple(self._waiting)
        for each in opening:
            each.exception()

    def start(self, argv: Sequence[str]) -> ExecSession:
        """Start a command: in the shell that waits, or in a stream of its own."""
        while True:
            with self._lock:
                waiting = self._waiting.popleft() if self._waiting else None
            if waiting is None:
                break
            with contextlib.suppress(Exception):
                session = waiting.result()
                if session.is_open:
                    session.send(line_of(argv))
                    return session
                session.close()
        if self._closed:
            raise InfrastructureError(f"pod {self.container.pod} is being removed")
        return ExecSession(self._api, self.container, argv)

    def close(self) -> None:
        """End the shells that wait."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            with contextlib.suppress(Exception):
                each.result().close()


def line_of(argv: Sequence[str]) -> bytes:
    """Return the line by which a waiting shell becomes a command: no byte of a word ends the line."""
    command = "exec " + shlex.join(argv)
    return command.replace("\\", "\\\\").replace("\n", "\\n").encode() + b"\n"


def begun(make: Callable[[], T], name: str) -> Future[T]:
    """Begin something in a thread of its own."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:  # noqa: BLE001 - who waits for it raises it
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future
