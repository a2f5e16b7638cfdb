"""Hold back Ctrl-C and SIGTERM while something is made or removed that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Held:
    """The handler of a block: it notes the signals that come."""

    def __init__(self) -> None:
        self.late: list[int] = []

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.late.append(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let an interrupt that comes while the block runs take effect at its end; for blocks of seconds at most.

    Threads that make holders go on when their starter is interrupted: what they make would be left behind. In a block
    within a block, it takes effect at the end of the outer one. Only the main thread is ever interrupted; in others
    this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = _Held()
    before = {number: signal.signal(number, held) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in held.late[:1]:
            outer = before[signal.Signals(late)]
            if not isinstance(outer, _Held):
                raise KeyboardInterrupt(signal.Signals(late).name)
            outer(late, None)
