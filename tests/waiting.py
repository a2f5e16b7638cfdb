"""Wait for a condition, as long as it takes: the only bound is pytest's on the test."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")
PAUSE_S = 0.01


def wait_until(condition: Callable[[], T], what: str = "") -> T:
    """Ask again and again until a condition is true, and return its value; `what` is for the reader of a traceback."""
    pause = Event()
    while not (value := condition()):
        pause.wait(PAUSE_S)
    return value
