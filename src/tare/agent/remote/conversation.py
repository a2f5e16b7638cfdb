"""Talk with the service of a node from the head: start it, ask it, renew its lease, end it."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from tare.agent.remote import answers, wire
from tare.agent.remote.archive import Archive
from tare.agent.remote.bootstrap_text import MARK, START, TEXT
from tare.agent.remote.machine import Machine
from tare.agent.remote.serve import DONE, FAILED, PROTOCOL
from tare.agent.remote.timing import ANSWER_S, CONNECT_S, READ_S, RENEWED_S, SLOWEST
from tare.errors import InfrastructureError, TareError
from tare.model.text import printable
from tare.system import process

LAST_WORDS: Final = 2000
"""Bytes that are kept of what a connection writes to stderr."""
LONGEST_LINE: Final = 64 << 20
"""Bytes of one answer: the pods of a node with hundreds of cores take some megabytes."""
PIECE: Final = 1 << 20
WORDS_S: Final = 1.0
"""How long to wait for the last words of a connection that has ended; a process that it left may hold them open."""
HANGS: Final = "see whether the machine is well: `ssh HOST uptime`; then run the same command again to resume"
END_S: Final = 10.0
"""How long a service may take to undo what it holds."""
READS: Final = frozenset({
    "counters", "described", "ended", "facts", "interfaces", "missing", "prefer", "signal", "write",
})  # fmt: skip
"""The calls that make nothing on a node: a node that is well answers them at once."""


class Unreachable(InfrastructureError):
    """A node cannot be reached, or its service has ended.

    Commands: those that use nodes by ssh.
    Remedy: try `ssh HOST true` yourself; the message says why the connection failed.
    """


class Conversation:
    """A connection to a service, which `connect` (an argv to which the node's command is added) opens.

    `explain` turns what `connect` wrote to stderr into a sentence. Calls are made one after the other, from any thread.
    """

    def __init__(self, name: str, connect: Sequence[str], explain: Callable[[str], str]) -> None:
        self.name = name
        self._explain = explain
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._number = 0
        self._left = bytearray()
        self._begun = False
        self._process = process.converse((*connect, START))
        self._words = b""
        self._listener = threading.Thread(target=self._listen, name="words", daemon=True)
        self._listener.start()

    @property
    def is_open(self) -> bool:
        """Return whether the connection is open, as far as is known."""
        return self._process.poll() is None

    def begin(self, archive: Archive, cache: str = "") -> Machine:
        """Start the service, copying the archive if the node lacks it; return the description of its machine.

        `cache` is the folder for the archive, "" for the user's cache folder on the node.
        """
        wanted = {"digest": archive.digest, "size": len(archive.data), "folder": cache}
        self._send(repr(TEXT).encode() + b"\n" + json.dumps(wanted).encode() + b"\n", CONNECT_S)
        told = self._greeting()
        if "error" in told:
            raise self._unusable(told)
        limit_s = float(CONNECT_S)
        if not told.get("has"):
            limit_s += len(archive.data) / SLOWEST
            self._send(archive.data, limit_s)
        machine: Machine = self.ask("greet", PROTOCOL, limit_s=limit_s)
        self._begun = True
        return machine

    def ask(self, name: str, *arguments: Any, limit_s: float = 0.0) -> Any:
        """Make a call and return its result; raise the error that it raised there, or `Unreachable`.

        The result is of the type that the call returns (`tare.agent.remote.answers`); else `NotUnderstood` is raised.
        `limit_s` is how long the node may take, 0 for the usual time. One that took longer is not asked again.
        """
        limit_s = limit_s or (READ_S if name in READS else ANSWER_S)
        try:
            with self._lock:
                self._number += 1
                self._send(wire.dumps((self._number, name, arguments)), limit_s)
                outcome, value = self._answer(self._number, limit_s)
        except Unreachable:
            self.abort()
            raise
        if outcome == DONE:
            return answers.check(self.name, name, value)
        if outcome == FAILED and isinstance(value, TareError):
            raise value.at(self.name) if isinstance(value, InfrastructureError) else value
        return answers.refuse(self.name, name, f"{outcome!r:.60}")

    def _answer(self, number: int, limit_s: float) -> tuple[Any, Any]:
        """Return the outcome and the value of the answer with a number: an interrupted call may have left its own."""
        until = time.monotonic() + limit_s
        while True:
            line = self._line(until)
            if line.startswith(MARK):  # the archive could not be unpacked
                raise self._unusable(self._told(line))
            told = wire.loads(line)
            if not isinstance(told, tuple) or len(told) != 3:
                raise wire.NotUnderstood(f"node {self.name} sent {line[:200]!r}, which is no answer")
            if told[0] == number:
                return told[1], told[2]

    def renew(self) -> None:
        """Tell the service that the head is there; before it has begun, the line would get into its archive."""
        if not self._begun:
            return
        with suppress(Unreachable):
            self._send(b"\n", RENEWED_S)

    def leave(self) -> None:
        """Let the service end, which undoes what it holds; `close` waits for it."""
        with suppress(OSError):
            _open(self._process.stdin).close()

    def abort(self) -> None:
        """End the connection at once: whoever waits for an answer gets `Unreachable`."""
        process.end(self._process, grace_s=0.0)

    def close(self) -> None:
        """End the service."""
        self.leave()
        until = time.monotonic() + END_S
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.end(self._process)
        self._listener.join(WORDS_S)
        for stream in (self._process.stdout, self._process.stderr):
            _open(stream).close()

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
            told = json.loads(line[len(MARK) : wire.LONGEST])
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise wire.NotUnderstood(f"node {self.name} sent {line[:200]!r}")
        return told

    def _unusable(self, told: dict[str, Any]) -> Unreachable:
        why = printable(str(told.get("error", "it gave no reason")))[:LAST_WORDS]
        return Unreachable(f"node {self.name} cannot be used: {why}")

    def _send(self, data: bytes, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        try:
            with self._writing:
                view = memoryview(data)
                descriptor = _open(self._process.stdin).fileno()
                while view:
                    if not select.select([], [descriptor], [], max(0.0, until - time.monotonic()))[1]:
                        raise Unreachable(f"node {self.name} takes nothing in for {limit_s:g} s")
                    view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]  # so much does not block
        except (OSError, ValueError) as error:
            raise self._lost() from error

    def _line(self, until: float) -> bytes:
        """Return the next line that is not empty; raise `Unreachable` when its time is up, even while bytes arrive."""
        descriptor, searched = _open(self._process.stdout).fileno(), 0
        while True:
            left_s = until - time.monotonic()
            if left_s <= 0:  # also while bytes arrive
                raise Unreachable(f"node {self.name} does not answer", remedy=HANGS)
            if self._left.startswith(b"\n"):
                self._left = self._left.lstrip(b"\n")
            end = self._left.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._left[:end])
                del self._left[: end + 1]
                return line
            searched = len(self._left)
            if searched > LONGEST_LINE:
                self.abort()
                raise wire.NotUnderstood(f"node {self.name} sent more than {LONGEST_LINE >> 20} MiB in one answer")
            if searched and not wire.arrives(descriptor, min(wire.PARTIAL_S, left_s)):
                self._send(wire.PARTIAL, left_s)
            if not wire.arrives(descriptor, left_s):
                continue
            more = os.read(descriptor, PIECE)
            if not more:
                raise self._lost()
            self._left += more

    def _listen(self) -> None:
        """Keep the end of what the connection writes to stderr, until it ends."""
        with suppress(OSError, ValueError):
            while more := os.read(_open(self._process.stderr).fileno(), PIECE):
                self._words = (self._words + more)[-LAST_WORDS:]

    def _lost(self) -> Unreachable:
        """Return the error for a connection that ended, in the words of what opened it."""
        with suppress(Exception):
            self._process.wait(2.0)
        self._listener.join(WORDS_S)
        words = printable(self._words.decode(errors="replace"), lines=True)
        return Unreachable(f"node {self.name} cannot be reached: {self._explain(words)}")


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise AssertionError("it was opened as a pipe")
    return stream
