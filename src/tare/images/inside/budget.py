"""Limit the unpacked size of an image: a small file can claim to hold exabytes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tare.errors import ImageError

MOST_MEMBERS: Final = 1_000_000
MOST_BYTES: Final = 500_000_000_000
RATIO: Final = 100
ALWAYS_BYTES: Final = 1_000_000_000
"""The size that compressed files may reach: a hundred times their own, or a gigabyte. File systems grow 2 to 10x."""

KEPT_FREE_BYTES: Final = 500_000_000
"""The disk space that stays free, whatever an image holds."""


class Budget:
    """The remaining budget for the layers of an image that is unpacked into a folder."""

    def __init__(self, folder: Path) -> None:
        self.left_members = MOST_MEMBERS
        self.left_bytes = max(0, min(MOST_BYTES, shutil.disk_usage(folder).free - KEPT_FREE_BYTES))

    @staticmethod
    def most_of(size_bytes: int) -> int:
        """Return the maximum size of a file of this size when it is unpacked."""
        return min(MOST_BYTES, max(ALWAYS_BYTES, RATIO * size_bytes))

    def spend(self, members: int, size_bytes: int) -> None:
        """Subtract the members and bytes of a layer."""
        self.left_members = max(0, self.left_members - members)
        self.left_bytes = max(0, self.left_bytes - size_bytes)


def too_large(path: Path, most_bytes: int) -> ImageError:
    """Return the error for an image that exceeds the limit."""
    return ImageError(
        f"{path} was not unpacked: it would need more than {most_bytes / 1e9:.1f} GB",
        remedy="if you trust the image, free some disk space in the cache folder; if not, do not use it",
    )
