"""What reading counters costs: `python benchmarks/counters.py [--rounds 6] [--study FILE]` (root).

The CPU time of a reading of one node, with a 95 % bootstrap interval of its mean: whole; of what launches in turns
share; and of the latter where the reading before was of the same moment. Then the share of a core that all readings
take during a study like the quick start, from its first round to its end. Parsing them and joining those of a launch in
turns, when it has ended, is part of it, and so is the CPU time of the study's processes, which is read with them.
Exits 1 if the share exceeds .1 % of a core.

Where other programs keep the study waiting, the share is small because the study takes long. Then compare the CPU time
of a round.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.stats

from tare.cli.app import main as tare
from tare.clusters.lab_site import LabSite
from tare.run.deploy.hosts import Deployed
from tare.system.counters import raw_readings
from tare.system.counters.raw_readings import RawReading
from tare.system.counters.reader import Reader

T = TypeVar("T")

REPOSITORY = Path(__file__).parents[1]
BOUND = 0.001
READINGS: dict[str, list[float]] = {}
OF_STUDY: dict[str, list[float]] = {}
INSIDE: list[str] = []
BEGAN: list[float] = []
LAST: dict[str, int] = {}
"""The moment of the last reading of each node."""


def timed_take(self: Reader, *, whole: bool = True, moment: int = 0, **given: Any) -> RawReading:
    """Read as before, and note the CPU time of the thread."""
    node = self._node.name
    kind = "whole" if whole else "repeated" if moment and moment == LAST.get(node) else "shared"
    LAST[node] = moment
    began = time.thread_time()
    try:
        return plain_take(self, whole=whole, moment=moment, **given)
    finally:
        READINGS.setdefault(kind, []).append(time.thread_time() - began)


def timed(plain: Callable[..., T], kind: str) -> Callable[..., T]:
    """Return a function that does the same and notes the CPU time of the thread, of the outermost such call only."""

    def call(*given: Any, **named: Any) -> T:
        if INSIDE:
            return plain(*given, **named)
        INSIDE.append(kind)
        BEGAN.append(time.monotonic())
        began = time.thread_time()
        try:
            return plain(*given, **named)
        finally:
            OF_STUDY.setdefault(kind, []).append(time.thread_time() - began)
            INSIDE.clear()

    return call


plain_take = Reader.take
Reader.take = timed_take  # type: ignore[method-assign]
Deployed.counters = timed(Deployed.counters, "whole readings of all nodes")  # type: ignore[method-assign]
Deployed.take = timed(Deployed.take, "readings of all nodes")  # type: ignore[method-assign]
LabSite.usage_s = timed(LabSite.usage_s, "CPU time of the study's processes")  # type: ignore[method-assign]
raw_readings.joined_readings = timed(raw_readings.joined_readings, "parsing and joining readings")


def interval(values: list[float]) -> str:
    """Return the mean and its 95 % bootstrap interval in microseconds."""
    resampled = scipy.stats.bootstrap((values,), np.mean, method="percentile", rng=1, n_resamples=2000)
    low, high = resampled.confidence_interval
    return f"{1e6 * np.mean(values):.0f} us [{1e6 * low:.0f}, {1e6 * high:.0f}], n = {len(values)}"


def main() -> int:
    """Run the study and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--study", type=Path, default=REPOSITORY / "studies" / "quickstart.yaml")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.yaml"
        text = given.study.read_text()
        study.write_text(re.sub(r"rounds: \d+", f"rounds: {given.rounds}", text, count=1))
        os.chdir(folder)
        sys.argv = ["tare", "run", str(study)]
        try:
            tare()
        except SystemExit as end:
            print(f"the study ended with status {end.code}")
        ended = time.monotonic()
    if not OF_STUDY:
        print("the study read no counters", file=sys.stderr)
        return 1
    for kind, values in READINGS.items():
        if len(values) > 1:
            print(f"a {kind} reading of a node: {interval(values)}")
    for kind, values in OF_STUDY.items():
        print(f"{kind}: {sum(values):.3f} s of CPU, n = {len(values)}")
    wall_s, cpu_s = ended - BEGAN[0], sum(map(sum, OF_STUDY.values()))
    share = cpu_s / wall_s
    print(f"a round: {1e3 * cpu_s / given.rounds:.0f} ms of CPU")
    print(
        f"all readings: {cpu_s:.3f} s of CPU in {wall_s:.1f} s, {100 * share:.3f} % of a core (bound {100 * BOUND} %)"
    )
    return 0 if share <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
