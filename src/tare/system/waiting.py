"""Wait until something is so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
PAUSE_S: Final = 0.02


def wait_until(look: Callable[[], T], limit_s: float, *, pause_s: float = PAUSE_S) -> T:
    """Call `look` until it returns something true or `limit_s` seconds are over, and return what it returned last.

    It is called at least once, and for the last time after the limit: a machine that stood still has a last chance.
    """
    until = time.monotonic() + limit_s
    while True:
        is_over = time.monotonic() > until
        if (found := look()) or is_over:
            return found
        time.sleep(pause_s)
