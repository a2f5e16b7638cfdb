"""An interrupt waits until what must not be half done is done; then it takes effect."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tare.host.signals import NUMBERS, uninterrupted


@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_takes_effect_at_the_end_of_the_block(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    done = []
    with pytest.raises(KeyboardInterrupt, match=number.name), uninterrupted():  # noqa: PT012
        os.kill(os.getpid(), number)
        done.append(1)
    assert done == [1]
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_an_interrupt_takes_effect_at_the_end_of_the_outer_block_and_errors_pass() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), uninterrupted():  # noqa: PT012
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
        done.append(1)
        os.kill(os.getpid(), signal.SIGINT)
        done.append(2)
    assert done == [1, 2]
    with pytest.raises(ValueError, match="mine"), uninterrupted():
        raise ValueError("mine")


def test_in_another_thread_nothing_is_held_back() -> None:
    seen = []

    def go() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
