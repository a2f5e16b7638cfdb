"""Read small files of the kernel, which some callers read thousands of times."""

from __future__ import annotations

import os
from typing import Final

READ_BYTES: Final = 65536
PROBED_BYTES: Final = 1
SHORTEST_BLOCK: Final = 3072
"""Bytes; what is shorter is a whole file: the kernel fills its buffer of a page up to the last line that fits."""


class KernelFile:
    """A kernel file that is read again and again: it stays open until `close`, which saves half of the time.

    An open file below /proc/PID/net keeps its network namespace, so close it before the namespace is to end.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = -1

    def read(self) -> bytes:
        """Return the current content, empty if the file cannot be read."""
        try:
            if self._file < 0:
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.pread(self._file, READ_BYTES, 0)
            return data if len(data) < SHORTEST_BLOCK else _with_rest(self._file, data)
        except OSError:
            self.close()
            return b""

    def close(self) -> None:
        """Close the file; the next reading opens it again."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def read_text(path: str) -> str:
    """Return the text of a kernel file, "" if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return decoded(_with_rest(file, os.pread(file, READ_BYTES, 0)))
    except OSError:
        return ""
    finally:
        os.close(file)


def why_unread(path: str) -> str:
    """Return why a file cannot be read, in the words of the system; "" if it can."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.read(file, PROBED_BYTES)
        finally:
            os.close(file)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def decoded(content: bytes) -> str:
    """Return the text of a kernel file's content."""
    return content.decode("ascii", "replace")


def _with_rest(file: int, data: bytes) -> bytes:
    """Return all of a file that begins with `data`. The kernel gives whole lines, in blocks of a page or more."""
    if len(data) >= SHORTEST_BLOCK:
        while more := os.pread(file, READ_BYTES, len(data)):
            data += more
    return data
