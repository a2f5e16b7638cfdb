"""A build of the mini-applications with sanitizers, kept in the cache folder."""

from __future__ import annotations

from pathlib import Path

from kernels.builds import cached_build


def sanitized_build() -> Path:
    """Return the program."""
    return cached_build("openmpi-sanitized", Path(__file__).parents[2] / "miniapps") / "tare-miniapps"
