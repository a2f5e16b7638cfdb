"""A slow disk: a file system in a file, of which few bytes a second may be read (root, loop devices, cgroup v1)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

INPUT_BYTES: Final = 2 << 20
RATE: Final = 2 << 20
"""Bytes that may be read in a second, by all together."""
LIMIT: Final = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")


@contextmanager
def slow_disk(folder: Path) -> Iterator[None]:
    """Mount a slow disk on `slow` of a folder; it has the file `input`, and so has the folder `data` beside it."""
    image, data, place = folder / "slow.ext4", folder / "data", folder / "slow"
    for each in (data, place):
        each.mkdir(exist_ok=True)
    content = os.urandom(INPUT_BYTES)
    (data / "input").write_bytes(content)
    with ExitStack() as stack:
        stack.callback(image.unlink)
        with image.open("wb") as file:
            file.truncate(8 * INPUT_BYTES)
        _run("mkfs.ext4", "-q", "-F", image)
        _run("mount", "-o", "loop", image, place)
        stack.callback(_run, "umount", place)
        (place / "input").write_bytes(content)
        os.sync()
        device = place.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        LIMIT.write_text(f"{number} {RATE}")
        stack.callback(LIMIT.write_text, f"{number} 0")
        yield


def _run(*argv: object) -> None:
    subprocess.run([str(each) for each in argv], check=True)
