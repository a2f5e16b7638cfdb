"""What reading counters costs: `python benchmarks/counters.py [--rounds 6] [--study FILE]` (root).

The CPU time of a reading of one node, with a 95 % bootstrap interval of its mean: whole; of what launches in turns
share; and of the latter where the reading before was of the same moment. Then the share of a core that all readings
take during a study like the quick start, from its first round to its end; the CPU time of the study's processes, which
is read with them, is part of it. Exits 1 if the share exceeds .1 % of a core.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from tare.cli.app import main as tare
from tare.cluster.lab_site import LabSite
from tare.counters.monitor import CounterValues, Reader
from tare.deploy.hosts import Deployed

REPOSITORY = Path(__file__).parents[1]
BOUND = 0.001
READINGS: dict[str, list[float]] = {}
OF_STUDY: list[float] = []
BEGAN: list[float] = []
LAST: dict[str, int] = {}
"""The moment of the last reading of each node."""


def timed_read(self: Reader, *, whole: bool = True, moment: int = 0, **given: Any) -> CounterValues:
    """Read as before, and note the CPU time of the thread."""
    node = self._node.name
    kind = "whole" if whole else "repeated" if moment and moment == LAST.get(node) else "shared"
    LAST[node] = moment
    began = time.thread_time()
    try:
        return plain_read(self, whole=whole, moment=moment, **given)
    finally:
        READINGS.setdefault(kind, []).append(time.thread_time() - began)


def timed_counters(self: Deployed, *given: Any, **named: Any) -> CounterValues:
    """Read all nodes as before, and note the CPU time of the thread, of what puts the values together, too."""
    began = time.thread_time()
    BEGAN.append(time.monotonic())
    try:
        return plain_counters(self, *given, **named)
    finally:
        OF_STUDY.append(time.thread_time() - began)


def timed_usage(self: LabSite) -> float:
    """Read the CPU time of the study's processes as before, and note that of the thread."""
    began = time.thread_time()
    try:
        return plain_usage(self)
    finally:
        OF_STUDY.append(time.thread_time() - began)


plain_read, plain_counters, plain_usage = Reader.read, Deployed.counters, LabSite.usage_s
Reader.read, Deployed.counters = timed_read, timed_counters  # type: ignore[method-assign]
LabSite.usage_s = timed_usage  # type: ignore[method-assign]


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
    wall_s, cpu_s = ended - BEGAN[0], sum(OF_STUDY)
    share = cpu_s / wall_s
    print(
        f"all readings: {cpu_s:.3f} s of CPU in {wall_s:.1f} s, {100 * share:.3f} % of a core (bound {100 * BOUND} %)"
    )
    return 0 if share <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
