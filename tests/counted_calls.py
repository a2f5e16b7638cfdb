"""Count the calls that a piece of code makes: work that grows with its input, whatever else the machine does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions, Python's and C's, the work calls in this thread; no garbage is collected meanwhile."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    earlier, collects = sys.getprofile(), gc.isenabled()
    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(earlier)
        if collects:
            gc.enable()
    return calls
