"""A noisy neighbour: processes outside the job that compute as long as a marked rank runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MARK: Final = b"PLANTED_BESIDE=neighbour"
LOOK_S: Final = 0.02
HUNGER: Final = 64 << 20
"""Bytes that are taken at a time."""


@contextmanager
def neighbour(*, hungry: bool = False) -> Iterator[None]:
    """Keep a neighbour on every core while marked ranks run; a hungry one takes and gives back memory all the time."""
    argv = (sys.executable, __file__, *(["hungry"] if hungry else []))
    beside = [subprocess.Popen(argv) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in beside:
            each.terminate()
        for each in beside:
            each.wait()


def marked() -> bool:
    """Return whether a marked process runs that is a rank: it computes, so its state is R."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if (
                MARK in (process / "environ").read_bytes().split(b"\0")
                and b"tare-miniapps" in (process / "comm").read_bytes()
            ):
                return True
        except OSError:
            continue  # it has ended, or is another user's
    return False


def main() -> None:
    """Compute while a marked rank runs, until the process that started this one has ended."""
    parent = os.getppid()
    while os.getppid() == parent:
        if not marked():
            time.sleep(LOOK_S)  # noqa: TID251  # the load that is planted, no test
            continue
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            if "hungry" in sys.argv:
                bytearray(HUNGER)


if __name__ == "__main__":
    main()
