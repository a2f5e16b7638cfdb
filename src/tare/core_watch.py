"""Watch how far apart the machine's cores are while launches run, and how fast: a virtual machine's are its host's.

Cores of a virtual machine are threads of its host. Where two of them shared a cache and are on two chips the next
moment, messages between ranks on them take three times as long, and no counter inside tells of it: not steal, not any
load. The time that a cache line takes from core to core does; and where another guest computes on the other half of a
core, a few hundred steps of arithmetic do (kernels/cores/cores.c). docs/adr/0006-moved-cores.md has what was seen. It
looks at no result of a launch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from tare import process
from tare.cluster import Site
from tare.disturbance import FARTHER

INTERVAL_MS: Final = 10
"""So that there is a sample while a kernel takes its 15 to 200 ms. One takes ten to thirty microseconds of every core:
.1 to .3 % of them, the same in every environment."""
USUAL_S: Final = 60.0
"""Cores are where they usually are if they are as far apart as they were in most of so many seconds."""


@dataclass(slots=True, kw_only=True)
class CoreWatch:
    """What `tare-cores` has written so far, read on when it is asked; without a file nothing is known."""

    file: Path | None = None
    moments_s: list[float] = field(default_factory=list)
    hand_overs_s: list[float] = field(default_factory=list)
    countings_s: list[float] = field(default_factory=list)
    _read: int = 0

    def during(self, begin_s: float, end_s: float) -> dict[str, float]:
        """Return what a launch's noise has of its cores: hand-over, arithmetic, and the share of samples elsewhere.

        Moments are CLOCK_MONOTONIC, the others seconds. Empty where nothing is known of that time.
        """
        self._catch_up()
        end = bisect_right(self.moments_s, end_s)
        within = slice(bisect_left(self.moments_s, begin_s), end)
        latest = slice(bisect_left(self.moments_s, end_s - USUAL_S), end)
        return place(self.hand_overs_s[within], self.hand_overs_s[latest]) | speed(self.countings_s[within])

    def _catch_up(self) -> None:
        if self.file is None or not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            words = line.split()
            if len(words) == 3 and all(word.replace(".", "", 1).isdigit() for word in words):  # else a complaint
                self.moments_s.append(float(words[0]))
                self.hand_overs_s.append(float(words[1]) * 1e-9)
                self.countings_s.append(float(words[2]) * 1e-9)


def place(within: Sequence[float], latest: Sequence[float]) -> dict[str, float]:
    """Return the hand-over within a launch, and which share was farther or nearer than the usual of the latest."""
    if not within:
        return {}
    usual_s = median(latest)
    elsewhere = sum(not usual_s / FARTHER <= each <= usual_s * FARTHER for each in within)
    return {"core_hand_over_s": median(within), "cores_elsewhere": elsewhere / len(within)}


def speed(within: Sequence[float]) -> dict[str, float]:
    """Return how long the same few hundred steps of arithmetic took; the median, as a sample may meet an interrupt."""
    return {"core_counting_s": median(within)} if within else {}


@contextmanager
def watching(site: Site, program: Path) -> Iterator[CoreWatch]:
    """Watch the cores of a site's nodes while the block runs, where they can be moved and are several."""
    cores = sorted({core for node in site.nodes for core in node.cores})
    if not (len(cores) > 1 and program.is_file() and is_virtual()):
        yield CoreWatch()
        return
    log = site.folder / "cores.log"
    # It is not adopted by the site: the kernel lets no real-time thread into a cgroup without a share of its own.
    with process.beside((str(program), str(INTERVAL_MS), *map(str, cores)), log=log):
        yield CoreWatch(file=log)


def is_virtual(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Tell whether this is a virtual machine, whose cores its host may move."""
    try:
        flags = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    except OSError:
        return False
    return "hypervisor" in flags.split()
