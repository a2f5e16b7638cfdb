"""A clock that a test sets."""

from __future__ import annotations


class Clock:
    """Seconds that pass only when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s
