"""Read samples one trial at a time and keep only histograms of them.

A report may cover ten million samples. They are never in memory together: the columns of each trial are read, counted
in a histogram with logarithmic bins per environment and metric, and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tare.analysis import stats
from tare.model import Trial

LOWEST_S: Final = 1e-9
HIGHEST_S: Final = 1e4
BIN_RATIO: Final = 0.004
"""Relative width of a bin: a quantile read from the histogram is within half of it, 0.2 %, of the exact one."""

_BINS: Final = int(np.ceil(np.log(HIGHEST_S / LOWEST_S) / BIN_RATIO))
_TAIL: Final = 1e-4
_TOGETHER: Final = 1 << 14
"""Samples of a column that are counted together: one by one, launches with few samples would take long."""
MOST_ORDERED: Final = 64
MOST_ITERATIONS: Final = 10_000
LEAST_ORDERED: Final = 30
"""Launches of an environment whose order of iterations is looked at, and the bounds of their iterations."""
Floats = NDArray[np.float64]
_PREFERRED: Final = ("max_s", "receive_gap_s", "wall_s")
_ORDERED: Final = ("max_s", "wall_s")
"""The columns that have a sample for each iteration, in order."""


Read = Callable[[], Mapping[str, Floats]]
"""Returns the samples of one trial in seconds, keyed `<metric key>/<column>`; empty if it has none."""


class SampleSource(Protocol):
    """A source of samples, such as the store."""

    def reader(self, trial: Trial) -> Read:
        """Return what reads the samples of a trial."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Quantiles of samples: a fraction `fractions[i]` of the `n` samples does not exceed `values_s[i]`."""

    n: int
    launches: int
    fractions: Floats
    values_s: Floats

    def at(self, fraction: float) -> float:
        """Return one quantile, interpolated between the stored ones."""
        return float(np.interp(fraction, self.fractions, self.values_s))


class OrderFigures:
    """What the order of iterations shows in some of an environment's launches, evenly chosen: at most MOST_ORDERED.

    `lags` are their `stats.lag1_of_launches`, shape (n,), `profiles` their `stats.profile_of_launches`, shape (n, 10),
    and `iterations` the iterations of each.
    """

    def __init__(self) -> None:
        self.lags: Floats = np.empty(0)
        self.profiles: Floats = np.empty((0, stats.TENTHS))
        self.iterations = 0
        self._seen = 0
        self._every = 1

    def add(self, launches: Sequence[Floats]) -> None:
        """Take launches into account: every one at first, then every second, fourth, ..."""
        chosen = [one for number, one in enumerate(launches, self._seen) if number % self._every == 0]
        self._seen += len(launches)
        of_length: dict[int, list[Floats]] = {}
        for one in chosen:
            of_length.setdefault(min(one.size, MOST_ITERATIONS), []).append(one)
        for length, of_one in of_length.items():
            if length >= LEAST_ORDERED:
                self._add(np.stack([one[:length] for one in of_one], dtype=np.float64))
        while self.lags.size >= MOST_ORDERED:
            self.lags, self.profiles = self.lags[::2].copy(), self.profiles[::2].copy()
            self._every *= 2

    def _add(self, samples: Floats) -> None:
        """Take launches with equal numbers of samples into account, but those with samples that are not positive."""
        samples = samples[(np.isfinite(samples) & (samples > 0)).all(axis=1)]
        self.lags = np.concatenate([self.lags, stats.lag1_of_launches(samples)])
        self.profiles = np.concatenate([self.profiles, stats.profile_of_launches(samples)])
        self.iterations = max(self.iterations, samples.shape[1])


class LogHistogram:
    """Count samples into bins of equal ratio; values outside [1 ns, 10,000 s] fall into the first or last bin.

    Quantiles are geometric bin centres, clipped to the exact minimum and maximum, so the relative error is at most
    `BIN_RATIO / 2`. Only the bins between the first and the last one in use take memory, at most 60 kB.
    """

    def __init__(self) -> None:
        self._used = np.zeros(0, dtype=np.int64)
        self._first = 0
        self._least = np.inf
        self._greatest = -np.inf
        self.launches = 0
        self.order = OrderFigures()

    @property
    def n(self) -> int:
        """Return the number of samples."""
        return int(self._used.sum())

    @property
    def _counts(self) -> NDArray[np.int64]:
        counts = np.zeros(_BINS, dtype=np.int64)
        counts[self._first : self._first + self._used.size] = self._used
        return counts

    def add(self, samples: Floats, launches: int = 1) -> None:
        """Count the samples of some launches, without those that are NaN."""
        if np.isnan(samples).any():
            samples = samples[~np.isnan(samples)]
        if samples.size == 0:
            return
        self._least = min(self._least, float(samples.min()))
        self._greatest = max(self._greatest, float(samples.max()))
        scaled = np.log(np.clip(samples, LOWEST_S, HIGHEST_S) / LOWEST_S) / BIN_RATIO
        index = np.minimum(scaled.astype(np.int64), _BINS - 1)
        self._cover(int(index.min()), int(index.max()))
        self._used += np.bincount(index - self._first, minlength=self._used.size)
        self.launches += launches

    def _cover(self, first: int, last: int) -> None:
        """Have bins from `first` to `last`, and those that are in use."""
        if self._used.size:
            first, last = min(first, self._first), max(last, self._first + self._used.size - 1)
        if last - first + 1 > self._used.size:
            used = np.zeros(last - first + 1, dtype=np.int64)
            used[self._first - first : self._first - first + self._used.size] = self._used
            self._used = used
        self._first = first

    def curve(self, points: int = 300) -> Curve:
        """Return at most `points` quantiles: evenly spaced in the body, denser towards the tail."""
        n = self.n
        wanted = _fractions(points, n)
        index = self._first + np.searchsorted(np.cumsum(self._used), np.ceil(wanted * n).clip(1, n))
        centres = LOWEST_S * np.exp((index + 0.5) * BIN_RATIO)
        values = np.clip(centres, self._least, self._greatest)
        values[0], values[-1] = self._least, self._greatest
        return Curve(n=n, launches=self.launches, fractions=wanted, values_s=values)

    def density(self, low_s: float, high_s: float, bars: int = 120) -> tuple[Floats, Floats]:
        """Return the centres of at most `bars` bars between two times, and the share of all samples in each.

        A bar is a whole number of bins and starts at a multiple of it, so that bars of several histograms line up.
        """
        first, last = _bin(low_s), _bin(high_s) + 1
        per_bar = max(1, -(-(last - first) // bars))
        first -= first % per_bar
        last = min(_BINS, last + -(last - first) % per_bar)
        starts = np.arange(first, last, per_bar)
        counts = np.add.reduceat(self._counts[:last], starts)
        centres = LOWEST_S * np.exp((starts + per_bar / 2) * BIN_RATIO)
        return centres, counts / max(1, self.n)


def _bin(value_s: float) -> int:
    return int(np.clip(np.log(max(value_s, LOWEST_S) / LOWEST_S) / BIN_RATIO, 0, _BINS - 1))


@lru_cache(maxsize=64)
def _fractions(points: int, n: int) -> Floats:
    """Return fractions from 0 to 1: two thirds evenly spaced, one third evenly on the scale of nines (1 - 10^-x)."""
    tail = min(_TAIL, 10.0 ** -np.ceil(np.log10(max(n, 2))))
    body = np.linspace(0.0, 0.98, max(2, points * 2 // 3))
    nines = 1.0 - np.logspace(np.log10(0.02), np.log10(tail), max(2, points - body.size))
    return np.unique(np.concatenate([body, nines, [1.0]]))


Histograms = dict[tuple[str, str, str], LogHistogram]
"""Histograms by row, metric key and column."""


def collect(source: SampleSource, trials: Iterable[tuple[str, Trial]]) -> Histograms:
    """Count the samples of all trials; `trials` pairs each trial with its row."""
    return count((row, source.reader(trial)) for row, trial in trials)


def count(readers: Iterable[tuple[str, Read]]) -> Histograms:
    """Count samples, some thousand at a time; `readers` pairs what reads those of one trial with its row."""
    result: Histograms = {}
    waiting: dict[tuple[str, str], list[Floats]] = {}
    sizes: dict[tuple[str, str], int] = {}
    for row, read in readers:
        for name, values in read().items():
            key = row, name
            waiting.setdefault(key, []).append(values)
            sizes[key] = sizes.get(key, 0) + values.size
            if sizes[key] >= _TOGETHER:
                _count(result, key, waiting.pop(key))
                del sizes[key]
    for key, columns in waiting.items():
        _count(result, key, columns)
    return result


def _count(histograms: Histograms, key: tuple[str, str], columns: list[Floats]) -> None:
    row, name = key
    metric, _, column = name.rpartition("/")
    histogram = histograms.setdefault((row, metric, column), LogHistogram())
    if column in _ORDERED:
        histogram.order.add(columns)
    whole = np.concatenate(columns, dtype=np.float64)
    if np.isnan(whole).any():
        for values in columns:
            histogram.add(np.asarray(values, dtype=np.float64))
    else:
        histogram.add(whole, sum(values.size > 0 for values in columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSamples:
    """The histograms of a metric: by row those of all `sides` that are stored with it, of which `main` is its own."""

    main: str | None
    sides: Sequence[str]
    of_row: Mapping[str, Mapping[str, LogHistogram]]

    @property
    def mains(self) -> dict[str, LogHistogram]:
        """Return the histogram of the side that the metric is computed from, of each row that has it."""
        main = self.main
        return {name: sides[main] for name, sides in self.of_row.items() if main is not None and main in sides}


def samples_of(metric: str, rows: Sequence[str], histograms: Histograms) -> MetricSamples:
    """Return what histograms have of a metric in these rows."""
    keys = {(key, side) for row, key, side in histograms if row in rows}
    stored, own = columns_of(metric, keys)
    sides = sorted(side for key, side in keys if key == stored)
    of_row = {
        name: {side: histograms[name, stored, side] for side in sides if (name, stored, side) in histograms}
        for name in rows
    }
    return MetricSamples(main=main_column(own), sides=sides, of_row=of_row)


def columns_of(metric: str, keys: Iterable[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
    """Return the key under which a metric's samples are stored, and the columns of it that belong to the metric.

    Most metrics are stored under their own key. Two metrics of one kernel share a key: `spacing:8@1000.receive` is
    computed from the column `receive_gap_s` of `spacing:8@1000`.
    """
    known: dict[str, list[str]] = {}
    for key, column in keys:
        known.setdefault(key, []).append(column)
    if metric in known:
        return metric, tuple(sorted(known[metric]))
    base, _, side = metric.rpartition(".")
    return base, tuple(sorted(column for column in known.get(base, ()) if column.startswith(side)))


def main_column(columns: Iterable[str]) -> str | None:
    """Return the column that a metric is computed from: the maximum over ranks if there is one."""
    names = sorted(columns)
    return next((name for name in _PREFERRED if name in names), names[0] if names else None)


def gap_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of gaps between messages, the receiver's first."""
    gaps = [name for name in columns if "gap" in name]
    return tuple(sorted(gaps, key=lambda name: (not name.startswith("rec"), name)))
