"""Detect vCPU migration and slowed cores: measure the distance between cores and their speed during launches.

Cores of a virtual machine are threads of its host, which may migrate them. If two of them shared a cache and are now on
two chips, messages between ranks on them take three times as long. No counter of the virtual machine shows it, neither
steal time nor load, but the time to pass a cache line from core to core does. If another guest computes on the other
hardware thread of a core, the time of a few hundred steps of arithmetic shows it (kernels/cores/cores.c). Measurements
are in docs/adr/0006-moved-cores.md. The results of launches are not used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from tare.analysis.summary.disturbance import FARTHER
from tare.clusters import Site
from tare.system import process

INTERVAL_MS: Final = 10
"""Sampling interval, short enough for a sample during each kernel, which takes 15 to 200 ms. A sample takes ten to
thirty microseconds of every core, .1 to .3 % of its time, the same in every environment."""
USUAL_S: Final = 60.0
"""The usual distance of the cores is their median distance over this time before the end of a launch."""


@dataclass(slots=True, kw_only=True)
class CoreWatch:
    """The output of `tare-cores` so far; each query reads the new lines. Without a file there is no data."""

    file: Path | None = None
    moments_s: list[float] = field(default_factory=list)
    hand_overs_s: list[float] = field(default_factory=list)
    countings_s: list[float] = field(default_factory=list)
    _read: int = 0

    def during(self, begin_s: float, end_s: float) -> dict[str, float]:
        """Return a launch's noise figures for its cores: hand-over, arithmetic, and the share of samples elsewhere.

        `begin_s` and `end_s` are CLOCK_MONOTONIC. The result is empty if there is no sample of that time.
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
            if len(words) == 3 and all(word.replace(".", "", 1).isdigit() for word in words):  # else an error message
                self.moments_s.append(float(words[0]))
                self.hand_overs_s.append(float(words[1]) * 1e-9)
                self.countings_s.append(float(words[2]) * 1e-9)


def place(within: Sequence[float], latest: Sequence[float]) -> dict[str, float]:
    """Return the median hand-over within a launch, and the share of samples that differ from the median of `latest`."""
    if not within:
        return {}
    usual_s = median(latest)
    elsewhere = sum(not usual_s / FARTHER <= each <= usual_s * FARTHER for each in within)
    return {"core_hand_over_s": median(within), "cores_elsewhere": elsewhere / len(within)}


def speed(within: Sequence[float]) -> dict[str, float]:
    """Return the median time of the same few hundred steps of arithmetic; an interrupt may lengthen single samples."""
    return {"core_counting_s": median(within)} if within else {}


@contextmanager
def watching(site: Site, program: Path) -> Iterator[CoreWatch]:
    """Watch the cores of a site's nodes while the block runs, if there are several and the host can migrate them."""
    cores = sorted({core for node in site.nodes for core in node.cores})
    if not (len(cores) > 1 and program.is_file() and is_virtual()):
        yield CoreWatch()
        return
    log = site.folder / "cores.log"
    # The site does not adopt it: the kernel refuses real-time threads in a cgroup without real-time bandwidth.
    with process.beside((str(program), str(INTERVAL_MS), *map(str, cores)), log=log):
        yield CoreWatch(file=log)


def is_virtual(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this is a virtual machine, whose host may migrate its cores."""
    try:
        flags = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    except OSError:
        return False
    return "hypervisor" in flags.split()
