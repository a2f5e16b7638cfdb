"""Delay Ctrl-C and SIGTERM while something is created or removed that must not be left half done."""

from __future__ import annotations

import math
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAKES: Final = signal.SIGURG
"""What ends a call that blocks; unless it is handled it is ignored, so programs that are started do not notice it."""
AFTER_S: Final = (0.05, 0.5)
"""When it is sent after a signal: at once the call may not have begun to block."""


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
    """Handle SIGTERM and SIGHUP as Ctrl-C, so that a program that they end undoes what it has under way.

    Signals take effect in calls that block, too (`waking`), until the process ends.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    _wake_after_signals()


@contextmanager
def waking() -> Iterator[None]:
    """Wake the main thread after each signal while the block runs; called in the main thread.

    Python only notes that a signal has come, and handles it when the main thread goes on. One that comes just before a
    call blocks does not end that call: without this, it would take effect when the call ends by itself.
    """
    handler = signal.getsignal(WAKES) or signal.SIG_DFL  # None if another library has set it
    descriptor = signal.set_wakeup_fd(-1)
    notes = _wake_after_signals()
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        signal.signal(WAKES, handler)
        notes.close()


def _wake_after_signals() -> socket.socket:
    """Wake the main thread after each signal until the socket is closed that is returned."""
    noted, notes = socket.socketpair()
    notes.setblocking(False)
    main = threading.get_ident()

    def wake(_kept: socket.socket) -> None:
        with noted:
            while numbers := noted.recv(64):
                for pause_s in AFTER_S if set(numbers) != {WAKES} else ():
                    time.sleep(pause_s)
                    signal.pthread_kill(main, WAKES)

    signal.signal(WAKES, lambda *_: None)
    signal.set_wakeup_fd(notes.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=wake, args=(notes,), name="wakes", daemon=True).start()
    return notes


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
