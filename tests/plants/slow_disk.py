"""A slow disk: a file system in a file, of which few bytes a second may be read (root, loop devices, cgroup v1)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Final

INPUT_BYTES: Final = 2 << 20
RATE: Final = 2 << 20
"""Bytes that may be read in a second, by all together."""
GROUPS: Final = Path("/sys/fs/cgroup/blkio")
LIMIT: Final = "blkio.throttle.read_bps_device"
LOOK_S: Final = 0.02


@contextmanager
def slow_disk(folder: Path) -> Iterator[None]:
    """Mount a slow disk at `slow` in a folder. It and the folder `data` next to it have the same file, `input`."""
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
        ended = Event()
        stack.callback(_limit, number, 0)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(ended.set)
        pool.submit(_keep_limited, number, ended)
        yield


def _keep_limited(number: str, ended: Event) -> None:
    """Limit a device in every cgroup, also those that are made meanwhile: cgroup v1 does not hand limits down."""
    while not ended.wait(LOOK_S):
        _limit(number, RATE)


def _limit(number: str, rate: int) -> None:
    for file in GROUPS.rglob(LIMIT):
        with suppress(OSError):  # the group has gone
            file.write_text(f"{number} {rate}")


def _run(*argv: object) -> None:
    subprocess.run([str(each) for each in argv], check=True)
