"""Talk with the service of a node from the head: start it, ask it, renew its lease, end it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from tare.errors import InfrastructureError, TareError
from tare.host import process
from tare.remote import wire
from tare.remote.archive import Archive
from tare.remote.bootstrap_text import MARK, START, TEXT
from tare.remote.machine import Machine
from tare.remote.serve import FAILED, PROTOCOL
from tare.remote.timing import ANSWER_S, CONNECT_S

LAST_WORDS: Final = 2000
END_S: Final = 10.0
"""How long a service may take to undo what it holds."""


class Unreachable(InfrastructureError):
    """A node cannot be reached, or its service has ended.

    Commands: those that use nodes by ssh.
    Remedy: try `ssh HOST true` yourself; the message says why the connection failed.
    """


class Conversation:
    """A connection to a service, which `connect` (an argv to which the node's command is added) opens.

    `explain` turns what `connect` wrote to stderr into a sentence. Calls are made one after the other, from any thread.
    """

    def __init__(self, name: str, connect: Sequence[str], log: Path, explain: Callable[[str], str]) -> None:
        self.name = name
        self._log = log
        self._explain = explain
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._number = 0
        self._left = bytearray()
        self._begun = False
        self._process = process.converse((*connect, START), log=log)

    @property
    def is_open(self) -> bool:
        """Return whether the connection is open, as far as is known."""
        return self._process.poll() is None

    def begin(self, archive: Archive, cache: str = "") -> Machine:
        """Start the service, copying the archive if the node lacks it; return the description of its machine.

        `cache` is the folder for the archive, "" for the user's cache folder on the node.
        """
        wanted = {"digest": archive.digest, "size": len(archive.data), "folder": cache}
        self._send(repr(TEXT).encode() + b"\n" + json.dumps(wanted).encode() + b"\n")
        told = self._greeting()
        if "error" in told:
            raise self._unusable(told)
        if not told.get("has"):
            self._send(archive.data)
        machine = self.ask("greet", PROTOCOL)
        if not isinstance(machine, Machine):
            raise wire.NotUnderstood(f"node {self.name} did not say what it is")
        self._begun = True
        return machine

    def ask(self, name: str, *arguments: Any) -> Any:
        """Make a call and return its result; raise the error that it raised there, or `Unreachable`."""
        with self._lock:
            self._number += 1
            number = self._number
            self._send(wire.dumps((number, name, arguments)))
            until = time.monotonic() + ANSWER_S
            while True:
                line = self._line(until)
                if line.startswith(MARK):  # the archive could not be unpacked
                    raise self._unusable(self._told(line))
                told = wire.loads(line)
                if told[0] == number:  # an interrupted call may have left its answer
                    break
        _, outcome, value = told
        if outcome == FAILED:
            raise value if isinstance(value, TareError) else wire.NotUnderstood(f"node {self.name}: {value}")
        return value

    def renew(self) -> None:
        """Tell the service that the head is there; before it has begun, the line would get into its archive."""
        if not self._begun:
            return
        with suppress(Unreachable):
            self._send(b"\n")

    def leave(self) -> None:
        """Let the service end, which undoes what it holds; `close` waits for it."""
        with suppress(OSError):
            _open(self._process.stdin).close()

    def close(self) -> None:
        """End the service."""
        self.leave()
        until = time.monotonic() + END_S
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.end(self._process)
        _open(self._process.stdout).close()

    def _greeting(self) -> dict[str, Any]:
        """Return the first message of the node; what its login scripts print before is passed over."""
        until = time.monotonic() + CONNECT_S
        while True:
            line = self._line(until)
            if line.startswith(MARK):
                return self._told(line)

    def _told(self, line: bytes) -> dict[str, Any]:
        """Return what a line of the bootstrap says."""
        try:
            told = json.loads(line[len(MARK) :])
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise wire.NotUnderstood(f"node {self.name} sent {line[:200]!r}")
        return told

    def _unusable(self, told: dict[str, Any]) -> Unreachable:
        return Unreachable(f"node {self.name} cannot be used: {told.get('error', 'it gave no reason')}")

    def _send(self, data: bytes) -> None:
        try:
            with self._writing:
                view = memoryview(data)
                descriptor = _open(self._process.stdin).fileno()
                while view:
                    view = view[os.write(descriptor, view) :]
        except (OSError, ValueError) as error:
            raise self._lost() from error

    def _line(self, until: float) -> bytes:
        """Return the next line that is not empty."""
        descriptor = _open(self._process.stdout).fileno()
        while True:
            line, newline, rest = self._left.partition(b"\n")
            if newline:
                self._left = rest
                if line:
                    return bytes(line)
                continue
            if self._left and not wire.arrives(descriptor, wire.PARTIAL_S):
                self._send(wire.PARTIAL)
            if not wire.arrives(descriptor, until - time.monotonic()):
                raise Unreachable(f"node {self.name} does not answer")
            more = os.read(descriptor, 1 << 20)
            if not more:
                raise self._lost()
            self._left += more

    def _lost(self) -> Unreachable:
        """Return the error for a connection that ended, in the words of what opened it."""
        with suppress(Exception):
            self._process.wait(2.0)
        try:
            words = self._log.read_bytes()[-LAST_WORDS:].decode(errors="replace")
        except OSError:
            words = ""
        return Unreachable(f"node {self.name} cannot be reached: {self._explain(words)}")


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise AssertionError("it was opened as a pipe")
    return stream
