"""Watch whether the machine is quiet, while this process does something else: its own CPU time does not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tare.system.counters import scheduling

QUIET: Final = 0.03
"""Share of one core that others may use before figures suffer: 3 % moved an 8-byte latency only within its interval."""
WATCH_S: Final = 1.0


def watching() -> Callable[[], str]:
    """Begin to watch the machine; what is returned ends it, and says what others use, with a verdict.

    Until then no other process may be started: its time would be that of others.
    """
    before, started, own = scheduling.machine_times(), time.monotonic(), time.process_time()

    def verdict() -> str:
        time.sleep(max(0.0, started + WATCH_S - time.monotonic()))
        after, elapsed = scheduling.machine_times(), time.monotonic() - started
        others = max(0.0, after[0] - before[0] - (time.process_time() - own)) / elapsed
        steal = (after[1] - before[1]) / elapsed
        load = Path("/proc/loadavg").read_text().split()[0]
        is_quiet = others <= QUIET and steal <= QUIET
        said = "quiet enough" if is_quiet else "NOT quiet: figures will have wide intervals; end other programs"
        return f"others use {others:.1%} of a core, steal {steal:.1%}, load {load}: {said}"

    return verdict
