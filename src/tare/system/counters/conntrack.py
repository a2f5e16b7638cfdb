"""Read what connection tracking did in a network namespace."""

from __future__ import annotations

from typing import Final

COUNTED: Final = ("found", "insert", "insert_failed", "drop")
ENTRIES: Final = "conntrack_entries"
"""The number of connections that are tracked now: a state that does not only grow."""


def parse(text: str) -> dict[str, int]:
    """Return the counters in the text of /proc/net/stat/nf_conntrack, summed over cores; `ENTRIES` is no sum.

    Values are hexadecimal, a line a core; each line repeats the number of entries.
    """
    lines = [line.split() for line in text.splitlines()]
    if len(lines) < 2:
        return {}
    names, rows = lines[0], [row for row in lines[1:] if len(row) >= len(lines[0])]
    found = {
        f"conntrack_{name}": sum(int(row[names.index(name)], 16) for row in rows) for name in COUNTED if name in names
    }
    if "entries" in names and rows:
        found[ENTRIES] = int(rows[0][names.index("entries")], 16)
    return found
