"""Let other programs of the head start commands in pods: a socket in the run's folder, for `tare-enter`.

MPI launchers and the services' conversations are programs of their own; the streams to pods are this process's, so that
they are open already when a launch begins.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from tare.clusters.pods.session import ERRORS, OUTPUT, STATUS
from tare.errors import TareError
from tare.system.namespaces import plain_python

REFUSED: Final = 125
MOST_WAITING: Final = 128
LONGEST: Final = 1 << 20
SOURCE: Final = Path(__file__).with_name("enter.py")


class RunningCommand(Protocol):
    """A command behind a door: it runs while it is pumped (`tare.clusters.pods.session.ExecSession`)."""

    def pump(self, beside: socket.socket | None, take: Callable[[int, bytes], None]) -> int:
        """Carry bytes until the command has ended; return its exit status."""

    def close(self) -> None:
        """End the command, if it was not pumped."""


class ExecChannel(Protocol):
    """What starts commands in one place (`tare.clusters.pods.session.ExecPool`)."""

    def prepare(self, count: int = 1) -> None:
        """Have the next commands start faster; return at once."""

    def settle(self) -> None:
        """Wait until nothing is prepared or removed any more."""

    def start(self, argv: Sequence[str]) -> RunningCommand:
        """Start a command."""

    def close(self) -> None:
        """Start nothing more."""


def status_of(command: RunningCommand) -> int:
    """Run a command to its end, without input, and return its exit status; what it prints is dropped."""
    try:
        return command.pump(None, lambda _channel, _data: None)
    finally:
        command.close()


class ExecServer:
    """A socket through which commands are started in the pods that have been added."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pods"
        self._program = folder / "tare-enter"
        self._program.write_text(f"#!{plain_python()} -IS\n{SOURCE.read_text()}")
        self._program.chmod(0o700)
        self._doorways: dict[str, ExecChannel] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(MOST_WAITING)
        threading.Thread(target=self._accept, name="gate", daemon=True).start()

    def argv(self, pod: str) -> tuple[str, ...]:
        """Return the argv prefix that runs a command in a pod."""
        return (str(self._program), str(self._path), pod)

    def add(self, pod: str, doorway: ExecChannel) -> None:
        """Let commands be started in a pod."""
        self._doorways[pod] = doorway

    def remove(self, pod: str) -> None:
        """Let no more commands be started in a pod."""
        if doorway := self._doorways.pop(pod, None):
            doorway.close()

    def doorways(self) -> Mapping[str, ExecChannel]:
        """Return the pods in which commands can be started."""
        return dict(self._doorways)

    def prepare(self, counts: Mapping[str, int] | None = None) -> None:
        """Have shells wait in pods: one in every pod, or as many as are said for some. Return at once."""
        doorways = self.doorways()
        for pod, count in (dict.fromkeys(doorways, 1) if counts is None else counts).items():
            if pod in doorways:
                doorways[pod].prepare(count)

    def settle(self) -> None:
        """Wait until all shells wait that are being prepared."""
        for doorway in self.doorways().values():
            doorway.settle()

    def start(self, pod: str, argv: Sequence[str]) -> RunningCommand:
        """Start a command in a pod; raise `TareError` if that is not possible."""
        doorway = self._doorways.get(pod)
        if doorway is None:
            raise TareError(f"there is no pod {pod}")
        return doorway.start(argv)

    def close(self) -> None:
        """Close the socket and all that waits."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pod in tuple(self._doorways):
            self.remove(pod)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="entering", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            status = REFUSED
            try:
                pod, *argv = _request(connection)
                session = self.start(pod, argv)
                try:
                    status = session.pump(connection, lambda channel, data: _frame(connection, channel, data))
                finally:
                    session.close()
            except TareError as error:
                _tell(connection, f"tare: {error.message}\n")
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits for the command must hear of it
                _tell(connection, f"tare: the stream to the pod broke: {error}\n")
            with contextlib.suppress(OSError):
                _frame(connection, STATUS, str(status).encode())


def _request(connection: socket.socket) -> list[str]:
    """Return the pod and the command that a connection asks for; what follows the line stays in it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        seen = connection.recv(4096, socket.MSG_PEEK)
        if not seen or len(line) > LONGEST:
            raise TareError("a request broke off")
        line += connection.recv(seen.index(b"\n") + 1 if b"\n" in seen else len(seen))
    wanted: Any = json.loads(line)
    if not isinstance(wanted, list) or len(wanted) < 2:
        raise TareError("a request names no pod and command")
    return [str(word) for word in wanted]


def _frame(connection: socket.socket, channel: int, data: bytes) -> None:
    if channel in (OUTPUT, ERRORS, STATUS):
        connection.sendall(bytes([channel]) + len(data).to_bytes(4, "big") + data)


def _tell(connection: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):
        _frame(connection, ERRORS, text.encode())
