"""Measure what all disturbances together cost on this machine, with the probe of `noise_probe.py`.

A fixed quantum of work is done again and again on every core at the same time (Petrini, Kerbyson, Pakin, SC'03). What a
quantum takes longer than undisturbed is lost, either in a detour (another program, an interrupt) or by a slower pace of
the core (frequency, another thread or guest on the same core). Every figure has its n and its interval.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tare.analysis.stats.intervals import mean_interval
from tare.errors import CommandFailed
from tare.images.kernels import newest_program
from tare.model import Estimate
from tare.run.core_watch import CoreWatch
from tare.system import process

WORK_S: Final = 5.0
WAKE_S: Final = 2.0
HAND_OVER_S: Final = 1.0
LIMIT_S: Final = 20.0
GRAIN_S: Final = 1e-3
"""Work between two synchronisations of the model program: that of a fine-grained MPI program."""
MOST_CORES: Final = 256
CONFIDENCE: Final = 0.95
PARTS: Final = 20
"""Parts of the measurement over which intervals are taken: an event of 100 ms is in few of them."""
WINDOW: Final = 500
"""Quanta of a window, some milliseconds, within which a core keeps its pace."""
SHORTEST_DETOUR_NS: Final = 1000.0
SPREADS: Final = 5.0
"""A quantum is a detour if it is longer than its window's median by so many median deviations, and by 1 us."""

Ns = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreNoise:
    """What one core lost: shares of its time, detours in seconds, and how late it woke up in seconds.

    `quanta` is the number of quanta of work, `quantum_s` the time of an undisturbed one.
    """

    core: int
    quanta: int
    quantum_s: float
    lost: Estimate
    lost_in_detours: float
    detours: int
    detours_per_s: float
    detour_median_s: float
    detour_p99_s: float
    detour_max_s: float
    wakes: int
    wake_median_s: float
    wake_p99_s: float
    wake_max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the machine costs: each core, and ranks on all cores that wait for each other after `grain_s` of work.

    `synchronised` is the share that such ranks take longer than undisturbed; its `n` counts parts of the measurement,
    which has `steps` synchronisations. `hand_over_s` is the median time of a cache line from core to core, None where
    it was not measured, with the reason in `no_hand_over`; `hand_overs` counts its samples and `hand_over_range_s` has
    their 5 % and 95 % quantiles.
    """

    cores: tuple[CoreNoise, ...]
    grain_s: float
    steps: int
    synchronised: Estimate | None
    hand_over_s: float | None = None
    hand_over_range_s: tuple[float, float] | None = None
    hand_overs: int = 0
    no_hand_over: str = ""


def measure(cores: Sequence[int], work_s: float = WORK_S, wake_s: float = WAKE_S) -> Effect:
    """Measure these cores, all at the same time. Raises `CommandFailed` if the probe fails."""
    source = (Path(__file__).parent / "noise_probe.py").read_text()
    with tempfile.TemporaryDirectory(prefix="tare-noise-") as name:
        argv = (sys.executable, "-I", "-S", "-c", source, name, str(work_s), str(wake_s), *map(str, cores))
        answer = process.run(argv, check=False, timeout_s=LIMIT_S + work_s + wake_s, what="the noise probe")
        if answer.status != 0:
            raise CommandFailed(
                f"the noise probe failed (status {answer.status}): {answer.stderr_tail[-300:] or 'no output'}",
                remedy="run `tare doctor --noise` again; if it fails again, run it with fewer cores: taskset -c 0-7",
            )
        work = {core: _file(Path(name, f"{core}.work")) for core in cores}
        wake = {core: _file(Path(name, f"{core}.wake")) for core in cores}
        hand_overs, reason = measure_hand_overs(cores, Path(name))
    steps, synchronised = synchronised_cost(tuple(work.values()))
    low, high = np.quantile(hand_overs, (0.05, 0.95)) if hand_overs else (0.0, 0.0)
    return Effect(
        cores=tuple(core_noise(core, work[core], wake[core]) for core in cores),
        grain_s=GRAIN_S,
        steps=steps,
        synchronised=synchronised,
        hand_over_s=median(hand_overs) if hand_overs else None,
        hand_over_range_s=(float(low), float(high)) if hand_overs else None,
        hand_overs=len(hand_overs),
        no_hand_over=reason,
    )


def _file(path: Path) -> Ns:
    return np.fromfile(path, dtype=np.uint32).astype(np.float64)


def core_noise(core: int, work_ns: Ns, wake_ns: Ns) -> CoreNoise:
    """Return what a core lost, from the times of its quanta and the delays of its wake-ups, in nanoseconds. Pure."""
    quantum = undisturbed_ns(work_ns)
    parts = np.array_split(work_ns, PARTS)
    shares = [1.0 - part.size * quantum / part.sum() for part in parts if part.size]
    lost = mean_interval(shares, CONFIDENCE) or Estimate(value=0.0, low=0.0, high=1.0, n=len(shares))
    detours = detours_ns(work_ns)
    total = float(work_ns.sum())
    middle, p99 = np.quantile(detours, (0.5, 0.99)) if detours.size else (0.0, 0.0)
    wake_middle, wake_p99 = np.quantile(wake_ns, (0.5, 0.99)) if wake_ns.size else (0.0, 0.0)
    return CoreNoise(
        core=core,
        quanta=work_ns.size,
        quantum_s=quantum * 1e-9,
        lost=lost.map(lambda share: min(1.0, max(0.0, share))),
        lost_in_detours=float(detours.sum()) / total,
        detours=detours.size,
        detours_per_s=detours.size / (total * 1e-9),
        detour_median_s=float(middle) * 1e-9,
        detour_p99_s=float(p99) * 1e-9,
        detour_max_s=float(detours.max(initial=0.0)) * 1e-9,
        wakes=wake_ns.size,
        wake_median_s=float(wake_middle) * 1e-9,
        wake_p99_s=float(wake_p99) * 1e-9,
        wake_max_s=float(wake_ns.max(initial=0.0)) * 1e-9,
    )


def undisturbed_ns(work_ns: Ns) -> float:
    """Return the time of an undisturbed quantum: the fifth percentile of the medians of windows.

    The shortest quantum would be an outlier of the clock; a median ignores detours, and the low percentile a slow pace.
    """
    return float(np.quantile(np.median(_windows(work_ns), axis=1), 0.05))


def detours_ns(work_ns: Ns) -> Ns:
    """Return how much longer than its window's median each quantum that something interrupted took."""
    windows = _windows(work_ns)
    medians = np.median(windows, axis=1, keepdims=True)
    spread = np.median(np.abs(windows - medians), axis=1, keepdims=True)
    longer = windows - medians
    detours: Ns = longer[longer > np.maximum(SHORTEST_DETOUR_NS, SPREADS * 1.4826 * spread)]
    return detours


def _windows(work_ns: Ns) -> Ns:
    """Return the quanta in rows of `WINDOW`; the rest behind the last whole row is left out."""
    size = min(WINDOW, work_ns.size)
    rows: Ns = work_ns[: work_ns.size // size * size].reshape(-1, size)
    return rows


def synchronised_cost(works_ns: Sequence[Ns]) -> tuple[int, Estimate | None]:
    """Return the number of steps, and the share that ranks which wait for the slowest take longer than undisturbed.

    A step is `GRAIN_S` of undisturbed work on each core; it is over when the slowest core is done with it. Each core is
    compared with its own undisturbed pace, so that cores of two kinds are no noise.
    """
    relative = []
    for work_ns in works_ns:
        quantum = undisturbed_ns(work_ns)
        size = max(1, round(GRAIN_S * 1e9 / quantum))
        steps = work_ns[: work_ns.size // size * size].reshape(-1, size).sum(axis=1)
        relative.append(steps / (size * quantum))
    count = min(each.size for each in relative)
    slowest = np.max([each[:count] for each in relative], axis=0)
    means = [float(part.mean()) - 1.0 for part in np.array_split(slowest, PARTS) if part.size]
    cost = mean_interval(means, CONFIDENCE)
    return count, cost and cost.map(lambda share: max(0.0, share))


def measure_hand_overs(cores: Sequence[int], folder: Path) -> tuple[list[float], str]:
    """Return times of a cache line from core to core in seconds, or why they could not be measured."""
    program = newest_program("tare-cores")
    if len(cores) < 2:
        return [], "there is one core"
    if program is None:
        return [], "its program is not built yet; the first `tare run` builds it"
    log = folder / "cores.log"
    with process.beside((str(program), "5", *map(str, cores)), log=log) as running:
        until = time.monotonic() + HAND_OVER_S
        while running.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        status = running.poll()
    if status is not None:
        return [], "it needs real-time priority, so root" if os.geteuid() else "its program ended early"
    watch = CoreWatch(file=log)
    watch.during(0.0, time.monotonic())
    return watch.hand_overs_s, "" if watch.hand_overs_s else "no sample was complete: the cores are busy"


def as_ranks(effect: Effect) -> Mapping[str, float]:
    """Return the means over cores that the terminal shows: lost, in detours, by pace (shares of the time)."""
    lost = float(np.mean([core.lost.value for core in effect.cores]))
    detours = float(np.mean([core.lost_in_detours for core in effect.cores]))
    return {"lost": lost, "detours": detours, "pace": max(0.0, lost - detours)}
