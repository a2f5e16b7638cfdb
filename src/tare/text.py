"""Short labels for quantities inside names; figures are made readable in `tare.report`."""

from __future__ import annotations


def bytes_label(count: int) -> str:
    """Return a size as `8 B`, `64 KiB`, `1 MiB`."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"
