"""A signal takes effect in a call that blocks, also if it came just before."""

from __future__ import annotations

import signal
import threading

import pytest

from tare.system.signals import WAKES, waking


def test_a_signal_that_came_before_a_call_blocked_ends_it() -> None:
    """Delivered to another thread, a signal is noted and wakes nobody, as one that comes a moment too early."""
    told = threading.Event()

    def note() -> None:
        told.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def block() -> None:
        told.set()
        threading.Event().wait()

    threading.Thread(target=note, daemon=True).start()
    before = signal.getsignal(WAKES)
    descriptor = signal.set_wakeup_fd(-1)
    with waking(), pytest.raises(KeyboardInterrupt):
        block()
    assert signal.getsignal(WAKES) is before
    assert signal.set_wakeup_fd(descriptor) == -1
