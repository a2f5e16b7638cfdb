"""Time and memory of an HTML report over 1,000 trials and 10 million samples (target: 10 s and 1 GB).

Run as `python benchmarks/report.py [TRIALS [SAMPLES]]`. The samples are written to a temporary folder in the store's
format (one .npz a trial) first; only reading them and making the report is measured, in a process of its own.
"""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("src", "tests")]

import samples_factory as factory  # noqa: E402 - found through the line above
from factory_options import ENVIRONMENTS, QUICKSTART, Options, Shape  # noqa: E402 - found through the line above
from tare.model import Completed, Trial  # noqa: E402 - found through the line above
from tare.report import render_html  # noqa: E402 - found through the line above
from tare.report.plots.histograms import Read  # noqa: E402 - found through the line above

CELLS = len(ENVIRONMENTS) + 1


class Folder:
    """Samples in files, one a trial."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reader(self, trial: Trial) -> Read:
        return partial(self.columns, trial)

    def columns(self, trial: Trial) -> Mapping[str, NDArray[np.float64]]:
        with np.load(self.path / _name(trial)) as stored:
            return {name: stored[name] for name in stored.files}


def _name(trial: Trial) -> str:
    return f"{trial.key.round}-{trial.position}.npz"


def prepare(folder: Path, trials: int, samples: int) -> int:
    """Write a result into the folder; return how many samples it has."""
    rounds = -(-trials // CELLS)
    columns = len({column for shape in QUICKSTART for column in _columns(shape)})
    options = Options(rounds=rounds, samples=max(1, samples // (rounds * CELLS * columns)), trouble=False)
    result = factory.make(options)
    written = 0
    for trial in result.trials:
        assert isinstance(trial.outcome, Completed)
        found = result.samples.columns(trial)
        np.savez(folder / _name(trial), allow_pickle=False, **found)
        written += sum(values.size for values in found.values())
    (folder / "result.pickle").write_bytes(pickle.dumps((result.summary, result.trials)))
    return written


def _columns(shape: Shape) -> list[str]:
    base = shape.key.rpartition(".")[0] or shape.key
    return [f"{base}/{column}" for column in shape.columns]


def measure(folder: Path) -> None:
    """Make the report and print what it took."""
    summary, trials = pickle.loads((folder / "result.pickle").read_bytes())
    began = time.perf_counter()
    page = render_html(summary, trials, Folder(folder))
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = len(page) / 1e6
    print(f"time {took:.2f} s (target 10), peak {peak / 1e6:.0f} MB (target 1,000), page {size:.2f} MB")


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--measure":
        measure(Path(sys.argv[2]))
        return
    given = [int(value) for value in sys.argv[1:]]
    trials, samples = (*given, *(1000, 10_000_000)[len(given) :])
    with tempfile.TemporaryDirectory(prefix="tare-report-") as name:
        written = prepare(Path(name), trials, samples)
        print(f"{-(-trials // CELLS) * CELLS:,} trials, {written:,} samples")
        subprocess.run([sys.executable, __file__, "--measure", name], check=True)


if __name__ == "__main__":
    main()
