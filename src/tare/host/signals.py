"""Delay Ctrl-C and SIGTERM while something is created or removed that must not be left half done."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Held:
    """The signal handler of a block: it records the signals that arrive, and when the first did."""

    def __init__(self) -> None:
        self.late: list[int] = []
        self.since_s = math.inf

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Record a signal."""
        self.since_s = min(self.since_s, time.monotonic())
        self.late.append(number)


def end_as_interrupt() -> None:
    """Handle SIGTERM and SIGHUP as Ctrl-C, so that a program that they end undoes what it has under way."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def uninterrupted() -> Iterator[Held]:
    """Delay an interrupt that arrives while the block runs until the block ends; for blocks of a few seconds at most.

    Threads that create holders keep running when the main thread is interrupted, and what they create would be left
    behind. In nested blocks, the interrupt takes effect at the end of the outermost one. Python interrupts the main
    thread only, so this does nothing in other threads.
    """
    held = Held()
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    before = {number: signal.signal(number, held) for number in NUMBERS}
    try:
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in held.late[:1]:
            outer = before[signal.Signals(late)]
            if not isinstance(outer, Held):
                raise KeyboardInterrupt(signal.Signals(late).name)
            outer(late, None)
