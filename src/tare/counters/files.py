"""Read small files of the kernel, which some callers read thousands of times."""

from __future__ import annotations

import os
from typing import Final

READ_BYTES: Final = 65536
PROBED_BYTES: Final = 1
SHORTEST_BLOCK: Final = 3072
"""Bytes; what is shorter is a whole file: the kernel fills its buffer of a page up to the last line that fits."""


class KernelFiles:
    """Kernel files that are read again and again: each stays open until `close`, which saves half of the time.

    An open file below /proc/PID/net keeps its network namespace, so close them before the namespace is to end.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def text(self, path: str) -> str:
        """Return the current text of a file, "" if it cannot be read."""
        try:
            file = self._open.get(path)
            if file is None:
                file = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return _whole(file)
        except OSError:
            self._forget(path)
            return ""

    def close(self) -> None:
        """Close all files."""
        for path in tuple(self._open):
            self._forget(path)

    def _forget(self, path: str) -> None:
        file = self._open.pop(path, None)
        if file is not None:
            os.close(file)


def read_text(path: str) -> str:
    """Return the text of a kernel file, "" if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return _whole(file)
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


def _whole(file: int) -> str:
    """Return all of a file from its beginning. The kernel gives whole lines, in blocks of a page or more."""
    data = os.pread(file, READ_BYTES, 0)
    if len(data) >= SHORTEST_BLOCK:
        while more := os.pread(file, READ_BYTES, len(data)):
            data += more
    return data.decode("ascii", "replace")
