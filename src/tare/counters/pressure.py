"""Read for how long processes waited for a resource (PSI), of a cgroup or of the machine."""

from __future__ import annotations

from typing import Final

KINDS: Final = ("cpu", "memory", "io")
US_PER_S: Final = 1e6


def parse(kind: str, text: str) -> dict[str, float]:
    """Return the seconds in which some process waited for a resource, from the text of a pressure file."""
    for line in text.splitlines():
        if line.startswith("some "):
            _, found, total = line.partition("total=")
            if found and total.strip().isdigit():
                return {f"{kind}_pressure_s": int(total) / US_PER_S}
    return {}
