"""Read what the machine's cores did with received packets. The kernel counts this per core, not per namespace."""

from __future__ import annotations

from typing import Final

COLUMNS: Final = {"softnet_processed": 0, "softnet_dropped": 1, "softnet_time_squeeze": 2, "softnet_received_rps": 9}
"""The columns of /proc/net/softnet_stat (net/core/net-procfs.c); older kernels have fewer."""


def parse(text: str) -> dict[str, int]:
    """Return the counters in the text of /proc/net/softnet_stat, summed over cores."""
    rows = [line.split() for line in text.splitlines() if line]
    if not rows:
        return {}
    return {name: sum(int(row[at], 16) for row in rows) for name, at in COLUMNS.items() if at < min(map(len, rows))}
