"""Python's search for cycles of objects, which looks at all objects again and again while results are read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Make no search for cycles: trials and what is made of them have none, and 100,000 of them are 10^8 objects."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
