"""Hold back Ctrl-C and SIGTERM while something is made or removed that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let an interrupt that comes while the block runs take effect at its end; for blocks of seconds at most.

    Threads that make holders go on when their starter is interrupted: what they make would be left behind. Only the
    main thread is ever interrupted; in others this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late: list[int] = []
    before = {number: signal.signal(number, lambda got, _frame: late.append(got)) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if late:
            raise KeyboardInterrupt(signal.Signals(late[0]).name)
