"""Read a process's output within a budget: a program that writes without end must not fill the memory.

At most a budget of stdout is kept, and a process that exceeds it is to be ended; of stderr the end is kept.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import IO, Final

from tare.errors import CommandFailed, CommandTimeout

STDOUT_BYTES: Final = 64 * 2**20
"""Kernels write their samples to stdout (docs/adr/0003), 11 bytes each: six million a launch."""
STDERR_BYTES: Final = 4 * 2**20
CHUNK_BYTES: Final = 1 << 16
TAIL_CHARACTERS: Final = 4000
FLOODED: Final = f"wrote more than {STDOUT_BYTES >> 20} MiB to stdout, the most that tare keeps, and was stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of a command.

    `timed_out` is set if tare ended it at its time limit, `flooded` if it wrote more to stdout than tare keeps. In both
    cases `status` is negative. `began_s` is CLOCK_MONOTONIC just before the start; `at_limit` is the text that was
    recorded at the time limit.
    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    elapsed_s: float
    timed_out: bool = False
    began_s: float = 0.0
    at_limit: str = ""
    flooded: bool = False

    @property
    def stderr_tail(self) -> str:
        """Return the end of what the command wrote to stderr."""
        return self.stderr[-TAIL_CHARACTERS:].strip()


def raise_unless_done(result: Result, *, timeout_s: float | None, what: str = "") -> None:
    """Raise the error for how a command ended, unless it succeeded."""
    action = what or f"running {result.argv[0]}"
    if result.timed_out:
        raise CommandTimeout(f"{action} did not end within {timeout_s:g} s", remedy=result.stderr_tail[-500:])
    if result.flooded:
        raise CommandFailed(f"{action} {FLOODED}", argv=result.argv, status=result.status)
    if result.status != 0:
        tail = result.stderr_tail or result.stdout[-TAIL_CHARACTERS:].strip()
        raise CommandFailed(
            f"{action} failed (status {result.status}): {tail[-600:] or 'no output'}",
            argv=result.argv,
            status=result.status,
            stderr_tail=tail,
        )


class Reached(Enum):
    """Where reading stopped: at the end of both outputs, at the time limit, or at the budget of stdout."""

    END = "end"
    TIME_LIMIT = "time limit"
    BUDGET = "budget"


class Capture:
    """The outputs of a process, and its input; its pipes must be binary.

    Reading also reaches its time limit when `stop` becomes readable.
    """

    def __init__(
        self,
        stdin: IO[bytes] | None,
        stdout: IO[bytes],
        stderr: IO[bytes],
        *,
        written: bytes = b"",
        stdout_bytes: int = STDOUT_BYTES,
        stop: socket.socket | None = None,
    ) -> None:
        self._stop = stop
        self._budget = stdout_bytes
        self._out, self._err = bytearray(), bytearray()
        self._left = memoryview(written)
        self._pipes = selectors.DefaultSelector()
        for pipe in (stdout, stderr):
            os.set_blocking(pipe.fileno(), False)
            self._pipes.register(pipe, selectors.EVENT_READ, self._out if pipe is stdout else self._err)
        if stdin is not None:
            os.set_blocking(stdin.fileno(), False)
            self._pipes.register(stdin, selectors.EVENT_WRITE, None)
        if stop is not None:
            self._pipes.register(stop, selectors.EVENT_READ, None)

    def read(self, limit_s: float | None, *, discard: bool = False) -> Reached:
        """Read until the process closes its outputs; with `discard`, discard output over the budget."""
        until = None if limit_s is None else time.monotonic() + limit_s
        while self._open():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return Reached.TIME_LIMIT
            for key, _ in self._pipes.select(left):
                if key.fileobj is self._stop:
                    self._unstop()
                    return Reached.TIME_LIMIT
                pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
                if key.data is None:
                    self._write(pipe)
                else:
                    self._read(pipe, key.data)
            if len(self._out) > self._budget:
                del self._out[self._budget :]
                if not discard:
                    return Reached.BUDGET
        return Reached.END

    def close(self) -> None:
        """Close the pipes that are still open."""
        self._unstop()
        for key in list(self._pipes.get_map().values()):
            self._close(key.fileobj)  # type: ignore[arg-type]
        self._pipes.close()

    @property
    def stdout(self) -> str:
        """Return the captured stdout as text."""
        return _text(self._out)

    @property
    def stderr(self) -> str:
        """Return the end of stderr as text."""
        return _text(self._err)

    def _open(self) -> bool:
        return len(self._pipes.get_map()) > (self._stop is not None)

    def _unstop(self) -> None:
        if self._stop is not None:
            self._pipes.unregister(self._stop)
            self._stop = None

    def _read(self, pipe: IO[bytes], kept: bytearray) -> None:
        try:
            data = os.read(pipe.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close(pipe)
        kept += data
        if kept is self._err and len(kept) > 2 * STDERR_BYTES:  # rarely, because it copies what is kept
            del kept[:-STDERR_BYTES]

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            self._left = self._left[os.write(pipe.fileno(), self._left[:CHUNK_BYTES]) :] if self._left else self._left
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = memoryview(b"")
        if not self._left:
            self._close(pipe)

    def _close(self, pipe: IO[bytes]) -> None:
        self._pipes.unregister(pipe)
        with suppress(BrokenPipeError):
            pipe.close()


def _text(data: bytearray) -> str:
    return data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
