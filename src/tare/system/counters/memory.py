"""Read how often memory ran short: page reclaim, swapping, faults from disk, limits that were reached."""

from __future__ import annotations

from typing import Final

SCANS: Final = ("pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive")
STEALS: Final = ("pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive")
OF_MACHINE: Final = {
    **dict.fromkeys(SCANS, "page_scans"),
    **dict.fromkeys(STEALS, "page_steals"),
    "pswpin": "swap_in_pages",
    "pswpout": "swap_out_pages",
    "pgmajfault": "major_faults",
}
OF_GROUP: Final = {
    "pgscan": "page_scans",
    "pgsteal": "page_steals",
    "pswpin": "swap_in_pages",
    "pswpout": "swap_out_pages",
    "pgmajfault": "major_faults",
}
"""The names of `memory.stat`, in cgroup v2 and, as far as it has them, in v1. Both have the sum of pages reclaimed."""


def parse(text: str, names: dict[str, str]) -> dict[str, int]:
    """Return the counters in the text of /proc/vmstat (`OF_MACHINE`) or `memory.stat` (`OF_GROUP`)."""
    found: dict[str, int] = {}
    lines = f"\n{text}\n"
    for key, name in names.items():
        at = lines.find(f"\n{key} ")
        if at >= 0:
            begin = at + len(key) + 2
            value = lines[begin : lines.index("\n", begin)]
            if value.isdigit():
                found[name] = found.get(name, 0) + int(value)
    return found


def limit_hits(text: str) -> dict[str, int]:
    """Return how often a cgroup reached its limit, from the text of `memory.events` (v2) or `memory.failcnt` (v1)."""
    if text.strip().isdigit():
        return {"memory_failcnt": int(text)}
    counted = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    hits = [int(counted[name]) for name in ("high", "max") if counted.get(name, "").isdigit()]
    return {"memory_failcnt": sum(hits)} if hits else {}
